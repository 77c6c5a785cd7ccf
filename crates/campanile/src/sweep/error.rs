//! Reason why a sweep cannot be made, or ended.

use super::SpaceError;
use super::request::SWEEP;
use crate::records::RecordsError;
use crate::resume::difference;
use std::path::PathBuf;

/// Reason why a sweep cannot be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Settings that cannot be varied as requested.
    #[error("--set {0}")]
    Space(#[from] SpaceError),
    /// A trial whose config is none, or is refused by a check.
    #[error("trial {trial} ({settings}): {problem}; nothing was trained")]
    Trial {
        /// Number of the trial, from 1.
        trial: usize,
        /// Settings of the trial, as `model.dim = 8`.
        settings: String,
        /// What is wrong with them.
        problem: String,
    },
    /// A metric that is unknown, or of which no value is better than another.
    #[error("--metric {field}: no metric to compare trials by; use one of {known}")]
    Metric {
        /// Name that was given.
        field: String,
        /// Names of metrics that can be used.
        known: String,
    },
    /// A share of the rows that is none.
    #[error("--validation {share} is no share of the rows; use a number between 0 and 1 (0.1 is usual)")]
    Share {
        /// Share that was given.
        share: f64,
    },
    /// A factor that halves nothing.
    #[error("--halving 1 would let every trial go on; use 2 or more, or --no-halving")]
    Factor,
    /// The folder holds another sweep.
    #[error(
        "{}: the folder holds another sweep; use the same flags or --resume {0}, or choose another folder:{}",
        path.display(), difference::told(differences)
    )]
    Another {
        /// Folder of the sweep.
        path: PathBuf,
        /// A line for every setting that differs, with both values.
        differences: Vec<String>,
    },
    /// A folder that holds something else.
    #[error("{}: not an empty folder and no sweep, since it has no {SWEEP}; choose another", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A folder without a sweep to go on with.
    #[error("{}: no sweep to go on with, since there is no {SWEEP}; start one with --set and --out", path.display())]
    NoSweep {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing to judge the best setting on.
    #[error(
        "--final judges the best setting on rows to evaluate on, but there are none; give some with --eval or --split"
    )]
    NothingToJudgeOn,
    /// Validation rows on which the metric is undefined.
    #[error(
        "the {samples} validation rows leave {metric} undefined, since all have one label; raise --validation"
    )]
    Undefined {
        /// Name of the metric.
        metric: &'static str,
        /// Number of validation rows.
        samples: u64,
    },
    /// A config or request that cannot be written as TOML.
    #[error("the settings cannot be written as TOML")]
    Toml(#[source] toml::ser::Error),
    /// A request that cannot be written as JSON.
    #[error("the settings cannot be written as JSON")]
    Json(#[source] serde_json::Error),
    /// Records that cannot be read or added.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A sweep that was asked to stop.
    #[error("{title}: stopped after step {step} of {steps}\ngo on with: campanile sweep --resume {}", path.display())]
    Stopped {
        /// Title of the trial that ran.
        title: String,
        /// Steps done.
        step: u64,
        /// Steps of the rung.
        steps: u64,
        /// Folder of the sweep.
        path: PathBuf,
    },
}
