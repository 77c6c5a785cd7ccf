//! Scores of an evaluation.

use crate::metrics::{CalibrationBin, Evaluation};

/// Scores of an evaluation.
#[derive(Clone, Debug)]
pub struct Scores {
    /// Metrics of the predictions.
    pub evaluation: Evaluation,
    /// Calibration diagram: what was predicted and what happened, bin by bin.
    pub bins: Vec<CalibrationBin>,
    /// AUC of the true probabilities on the same samples, where they are known: no model does better but by luck.
    pub best_auc: Option<f64>,
}
