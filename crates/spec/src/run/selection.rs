//! How often a run is evaluated, by which metric its best state is known, and when it stops early.
//!
//! ```
//! use spec::run::KeepBest;
//! let by: KeepBest = "logloss".parse().unwrap();
//! assert_eq!(by.to_string(), "logloss");
//! assert_eq!("none".parse(), Ok(KeepBest::Never));
//! ```

use super::config::TrainConfig;
use super::log::Data;
use super::{Length, RunError};
use crate::text::as_text;
use schemars::JsonSchema;
use std::fmt;
use std::str::FromStr;

/// Metric of an evaluation by name: `auc`, or `click.auc` for one label of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName {
    /// Label that the metric is about; `None` in a run with one label.
    pub label: Option<String>,
    /// Field of the metric in JSON results, such as `auc`.
    pub metric: String,
}

impl MetricName {
    /// The AUC of a run with one label: the metric that decides unless a user names another.
    pub fn auc() -> Self {
        Self { label: None, metric: "auc".into() }
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "{label}.{}", self.metric),
            None => f.write_str(&self.metric),
        }
    }
}

impl FromStr for MetricName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = |text: &str| {
            let known = !text.is_empty() && !text.contains(char::is_whitespace);
            known
                .then(|| text.to_owned())
                .ok_or_else(|| format!("{text:?} is not the name of a metric; use auc"))
        };
        Ok(match text.rsplit_once('.') {
            Some((label, metric)) => Self { label: Some(name(label)?), metric: name(metric)? },
            None => Self { label: None, metric: name(text)? },
        })
    }
}

/// Whether the best state of a run is kept, and by which metric it is known.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub enum KeepBest {
    /// Only the last states are kept: `none`.
    Never,
    /// The state with the best value of a metric is kept too.
    By(MetricName),
}

impl fmt::Display for KeepBest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepBest::Never => f.write_str("none"),
            KeepBest::By(name) => name.fmt(f),
        }
    }
}

impl FromStr for KeepBest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(KeepBest::Never) } else { text.parse().map(KeepBest::By) }
    }
}

as_text!(MetricName, KeepBest);

/// Evaluations of a run, and what depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluations {
    /// Number of steps between evaluations; `None` to evaluate only at the end.
    pub every: Option<u64>,
    /// Metric by which the best state is known; `None` to keep the last states only.
    pub keep_best: Option<MetricName>,
    /// Number of evaluations without a better value after which the run stops; `None` to train to the end.
    pub patience: Option<u64>,
}

impl TrainConfig {
    /// Checks when a run of this `length` on `data` is evaluated. A run over several epochs is evaluated after each of them,
    /// and one that is evaluated more than once keeps its best state, unless the config says otherwise.
    pub fn check_evaluations(&self, data: &Data, length: Length) -> Result<Evaluations, RunError> {
        let per_epoch = data.samples().div_ceil(length.batch as u64);
        let evaluates = data.eval_samples() > 0;
        let usual = Some(per_epoch).filter(|&every| evaluates && every > 0 && every < length.steps);
        let every = self.eval_every.or(usual);
        let several = evaluates && every.is_some_and(|every| every < length.steps);
        let keep_best = match &self.keep_best {
            Some(KeepBest::By(name)) => Some(name.clone()),
            Some(KeepBest::Never) => None,
            None => several.then(MetricName::auc),
        };
        let patience = self.patience.filter(|&evaluations| evaluations > 0);
        // Nothing is known of the rows of a log that was not read yet.
        if data.samples() > 0 {
            self.refuse_without_evaluations(evaluates, several, patience)?;
        }
        Ok(Evaluations { every, keep_best, patience })
    }

    fn refuse_without_evaluations(
        &self,
        evaluates: bool,
        several: bool,
        patience: Option<u64>,
    ) -> Result<(), RunError> {
        const ROWS: &str =
            "there are no rows to evaluate on; give some with --eval FILE, --split SHARE or --eval-samples N";
        let refuse = |field: &str, problem: &str| Err(RunError::new(field, problem));
        if let (Some(KeepBest::By(_)), false) = (&self.keep_best, evaluates) {
            return refuse("train.keep_best (--keep-best)", ROWS);
        }
        let field = "train.patience (--patience)";
        match patience {
            None => Ok(()),
            Some(_) if !evaluates => refuse(field, ROWS),
            Some(_) if !several => refuse(
                field,
                "the run is evaluated only at its end, where stopping saves nothing; give --eval-every STEPS, or several \
                 --epochs, which are evaluated after each",
            ),
            Some(_) if self.keep_best == Some(KeepBest::Never) => refuse(
                field,
                "a run stops by the metric of train.keep_best, which is none; set --keep-best auc, or leave --patience out",
            ),
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
