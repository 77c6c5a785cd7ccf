//! Records of a sweep: what each rung of each trial came to.

use super::Results;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use training::metrics::{METRICS, Metric};
use training::{BestEvaluation, Outcome};

/// Rows that a result is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JudgedOn {
    /// Training rows that no trial trains on.
    Validation,
    /// Rows to evaluate on, which no choice has seen.
    Eval,
}

/// Result of one rung of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RungRecord {
    /// Number of the trial, from 1.
    pub trial: usize,
    /// Number of the rung, from 1.
    pub rung: usize,
    /// Steps done at the end of the rung, those of earlier rungs included.
    pub steps: u64,
    /// Rows that the metrics are about.
    pub judged_on: JudgedOn,
    /// Steps after which the state was best that the metrics are about; `None` where they are about the last state.
    #[serde(default)]
    pub best_step: Option<u64>,
    /// Metrics by their fields in JSON results.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Number of rows that the metrics are about.
    pub samples: usize,
    /// Seconds of training in this rung.
    pub seconds: f64,
    /// Digest of the parameters.
    pub parameters_sha256: Option<String>,
    /// Reason why the trial failed; it has no metrics then.
    pub failed: Option<String>,
}

impl RungRecord {
    /// The result of a rung that ended.
    pub(super) fn of(trial: usize, rung: usize, judged_on: JudgedOn, outcome: &Outcome) -> Self {
        let evaluation = outcome.scores.as_ref().map(|scores| &scores.evaluation);
        let best = kept(outcome);
        let value = |metric: &Metric| match best {
            Some(best) => best.metrics.get(metric.field).copied().flatten(),
            None => evaluation.and_then(metric.of),
        };
        let metrics = METRICS
            .iter()
            .map(|metric| (metric.field.to_owned(), value(metric).filter(|value| value.is_finite())));
        Self {
            trial,
            rung,
            steps: outcome.steps,
            judged_on,
            best_step: best.map(|best| best.step),
            metrics: metrics.collect(),
            samples: evaluation.map_or(0, |evaluation| evaluation.samples),
            seconds: outcome.seconds,
            parameters_sha256: outcome.parameters_sha256.clone(),
            failed: None,
        }
    }

    /// The result of a rung in which the trial failed.
    pub(super) fn failed(trial: usize, rung: usize, judged_on: JudgedOn, why: String) -> Self {
        Self {
            trial,
            rung,
            steps: 0,
            judged_on,
            best_step: None,
            metrics: BTreeMap::new(),
            samples: 0,
            seconds: 0.0,
            parameters_sha256: None,
            failed: Some(why),
        }
    }

    /// Value of a metric by its field.
    pub fn metric(&self, field: &str) -> Option<f64> {
        self.metrics.get(field).copied().flatten()
    }
}

/// The best evaluation of a run that keeps its best state.
pub(super) fn kept(outcome: &Outcome) -> Option<&BestEvaluation> {
    outcome.best.as_ref().map(|best| &best.evaluation)
}

/// Results on validation rows, as decisions are made from them.
pub(super) fn results(records: &[RungRecord], metric: &str) -> Results {
    let chosen = records.iter().filter(|record| record.judged_on == JudgedOn::Validation);
    chosen.map(|record| ((record.trial - 1, record.rung - 1), record.metric(metric))).collect()
}
