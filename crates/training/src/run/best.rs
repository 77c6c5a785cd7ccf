//! The best state of a run so far, and whether to go on: a pure value that every rank has alike.
//!
//! Each evaluation gives one value of the metric that decides. The best is the first of the best values; a run stops early
//! after so many evaluations in a row that were no better (its patience).
//!
//! ```
//! use training::BestSoFar;
//! let mut best = BestSoFar::by("auc".parse().unwrap()).unwrap();
//! assert!(best.judge(100, Some(0.70)));
//! assert!(best.judge(200, Some(0.74)));
//! assert!(!best.judge(300, Some(0.74)));
//! assert!(!best.judge(400, Some(0.69)));
//! assert_eq!(best.best().map(|best| best.step), Some(200));
//! assert!(best.stops(Some(2)) && !best.stops(Some(3)) && !best.stops(None));
//! ```

use crate::checkpoint::Manifest;
use crate::metrics::{Better, Evaluation, METRICS, Metric};
use crate::run::scores::Scores;
use serde::{Deserialize, Serialize};
use spec::run::{MetricName, Run, RunError};
use std::collections::BTreeMap;

/// Field of a checkpoint's `extra` that holds a [`BestSoFar`].
pub(crate) const FIELD: &str = "best";

/// Name of the setting in errors.
const FIELD_NAME: &str = "train.keep_best (--keep-best)";

/// The best evaluation of a run so far, and how many came after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BestSoFar {
    /// Metric that decides.
    metric: MetricName,
    /// Steps done at the last evaluation; 0 before the first.
    evaluated: u64,
    /// Evaluations since the best one, which were no better.
    without_improvement: u64,
    /// Best evaluation; `None` before the first whose metric is defined.
    best: Option<BestEvaluation>,
}

/// The best evaluation of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BestEvaluation {
    /// Steps done when the state was evaluated.
    pub step: u64,
    /// Value of the metric that decides.
    pub value: f64,
    /// All metrics of the evaluation by their JSON fields.
    pub metrics: BTreeMap<String, Option<f64>>,
}

impl BestSoFar {
    /// Nothing evaluated yet. Refuses a metric that is unknown, or that has no better and worse.
    pub fn by(metric: MetricName) -> Result<Self, RunError> {
        deciding(&metric)?;
        Ok(Self { metric, evaluated: 0, without_improvement: 0, best: None })
    }

    /// Nothing evaluated yet, by the metric of `run`; `None` for a run that keeps no best state. Refuses a label that the run
    /// does not have.
    pub fn of_run(run: &Run) -> Result<Option<Self>, RunError> {
        let Some(metric) = &run.keep_best else { return Ok(None) };
        let labels: Vec<&str> = run.model.labels().iter().map(|label| label.name.as_str()).collect();
        match &metric.label {
            Some(label) if !labels.contains(&label.as_str()) => {
                let problem = match labels.is_empty() {
                    true => format!("{metric}: the run has one label; leave its name out: {}", metric.metric),
                    false => format!("{metric}: there is no label {label}; use one of {}", labels.join(", ")),
                };
                Err(RunError::new(FIELD_NAME, problem))
            }
            _ => Self::by(metric.clone()).map(Some),
        }
    }

    /// What a checkpoint says of its run; `None` for a run that keeps no best state.
    pub fn of(manifest: &Manifest) -> Option<Self> {
        let saved: Self = serde_json::from_value(manifest.extra.get(FIELD)?.clone()).ok()?;
        deciding(&saved.metric).ok()?;
        Some(saved)
    }

    /// Metric that decides.
    pub fn metric(&self) -> &MetricName {
        &self.metric
    }

    /// The best evaluation so far.
    pub fn best(&self) -> Option<&BestEvaluation> {
        self.best.as_ref()
    }

    /// Evaluations since the best one, which were no better.
    pub fn without_improvement(&self) -> u64 {
        self.without_improvement
    }

    /// Takes in the evaluation after `step` steps, and tells whether it is the best so far. A metric that the labels leave
    /// undefined says nothing. A resumed run may evaluate its first step again: that counts once.
    pub fn judge(&mut self, step: u64, value: Option<f64>) -> bool {
        let Some(value) = value else { return false };
        if step == self.evaluated {
            return self.best.as_ref().is_some_and(|best| best.step == step);
        }
        self.evaluated = step;
        let improved =
            !value.is_nan() && self.best.as_ref().is_none_or(|best| self.better(value, best.value));
        if improved {
            self.best = Some(BestEvaluation { step, value, metrics: BTreeMap::new() });
            self.without_improvement = 0;
        } else {
            self.without_improvement += 1;
        }
        improved
    }

    /// Keeps all metrics of the best evaluation, if that is the one after `step` steps.
    pub(crate) fn keep_metrics(&mut self, step: u64, scores: &Scores) {
        let Some(evaluation) = self.evaluation(scores).copied() else { return };
        if let Some(best) = self.best.as_mut().filter(|best| best.step == step) {
            best.metrics = evaluation.metrics().map(|(field, value)| (field.to_owned(), value)).collect();
        }
    }

    /// Value of the metric that decides; `None` where the labels leave it undefined.
    pub fn value(&self, scores: &Scores) -> Option<f64> {
        let metric = deciding(&self.metric).ok()?;
        (metric.of)(self.evaluation(scores)?)
    }

    /// Metrics of the label that decides: the one that is named, or the first.
    fn evaluation<'a>(&self, scores: &'a Scores) -> Option<&'a Evaluation> {
        match &self.metric.label {
            None => Some(&scores.evaluation),
            Some(label) => scores.labels.iter().find(|of| of.name == *label).map(|of| &of.evaluation),
        }
    }

    /// Name of the metric that decides, in texts: `AUC`.
    pub fn label(&self) -> String {
        let name = deciding(&self.metric).map_or(self.metric.metric.as_str(), |metric| metric.label);
        match &self.metric.label {
            Some(label) => format!("{name} of {label}"),
            None => name.to_owned(),
        }
    }

    /// Whether a run of this patience has seen enough.
    pub fn stops(&self, patience: Option<u64>) -> bool {
        patience.is_some_and(|patience| self.without_improvement >= patience)
    }

    fn better(&self, value: f64, than: f64) -> bool {
        match deciding(&self.metric).map(|metric| metric.better) {
            Ok(Better::Lower) => value < than,
            _ => value > than,
        }
    }
}

/// The metric of this name, by which states can be compared.
fn deciding(name: &MetricName) -> Result<&'static Metric, RunError> {
    let ordered = || METRICS.iter().filter(|metric| metric.better != Better::Neither);
    let refuse = |problem: String| RunError::new(FIELD_NAME, problem);
    ordered().find(|metric| metric.field == name.metric).ok_or_else(|| {
        let known: Vec<&str> = ordered().map(|metric| metric.field).collect();
        let known = known.join(", ");
        match METRICS.iter().any(|metric| metric.field == name.metric) {
            true => refuse(format!("{name} has no best value; use one of {known}, or none")),
            false => refuse(format!("{name} is not a metric; use one of {known}, or none")),
        }
    })
}

#[cfg(test)]
mod tests;
