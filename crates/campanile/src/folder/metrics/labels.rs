//! Evaluations of models with several labels, as records.

use super::{Bin, MetricValues, number};
use serde::{Deserialize, Serialize};
use training::metrics::breakdown::{GroupScores, SliceScores};

/// Metrics of one of several labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelEval {
    /// Metrics in the order of `training::metrics::METRICS`.
    #[serde(flatten)]
    pub metrics: MetricValues,
    /// Mean probability.
    #[serde(deserialize_with = "number")]
    pub mean_prediction: f64,
    /// Mean label.
    #[serde(deserialize_with = "number")]
    pub click_rate: f64,
    /// A reliability diagram.
    #[serde(default)]
    pub bins: Vec<Bin>,
    /// AUC averaged over groups, where a column of groups was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupScores>,
    /// Metrics by the values of requested columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceScores>,
}
