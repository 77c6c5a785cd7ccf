//! The logs that a run reads: prepared ones as they are, others prepared first.
//!
//! Everything that trains or evaluates reads the prepared format. A log in another format is prepared into the run's
//! folder, where the next command finds it again, or into a temporary one.

mod error;
mod facts;
mod open;
mod preparer;
mod raw;
mod split;
mod unlabelled;
mod warnings;

pub use error::LogError;
pub use facts::{described, facts};
pub use open::{
    open, open_again, open_for_choice, open_for_evaluation, open_on_ranks, open_tables, open_trained_on,
};
pub use raw::Raw;
pub use unlabelled::{RowSource, Unlabelled, open_unlabelled};

use data::Table;
use data::prepared::PreparedLog;
use spec::run::{Config, DataConfig, DataFormat, LogFacts, Run, RunError};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use training::Logs;

/// Bytes that reading a log may take, unless told.
pub const MEMORY: u64 = 1 << 30;

/// Whether samples come from files in another format than the prepared one.
pub fn must_be_prepared(data: &DataConfig) -> bool {
    !matches!(data.format.unwrap_or_default(), DataFormat::Synthetic | DataFormat::Prepared)
}

/// Path that stands in a config for a table in memory.
pub const TABLE: &str = "(table in memory)";

/// Tables in memory that stand for files: to train on, and to evaluate or score.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Table to train on.
    pub train: Option<Arc<Table>>,
    /// Table to evaluate on, or to score.
    pub eval: Option<Arc<Table>>,
}

impl Tables {
    /// Table of a split: `train` or `eval`.
    fn of(&self, split: &str) -> Option<&Arc<Table>> {
        if split == "train" { self.train.as_ref() } else { self.eval.as_ref() }
    }
}

/// Whether `paths` stand for a table in memory.
pub fn is_table(paths: &[String]) -> bool {
    matches!(paths, [path] if path == TABLE)
}

/// Whether `paths` are one prepared log.
pub fn is_prepared(paths: &[String]) -> bool {
    matches!(paths, [path] if Path::new(path).join(data::prepared::MANIFEST).is_file())
}

/// The logs of a run. Clones share them; what was prepared in a temporary folder is there until the last is dropped.
#[derive(Clone, Debug)]
pub struct OpenLogs {
    /// The logs as the trainer takes them.
    pub logs: Logs,
    facts: Option<LogFacts>,
    /// Temporary folder of logs that were prepared for one command.
    _scratch: Option<Arc<TempDir>>,
}

impl OpenLogs {
    /// Checks `config` with what is known of the logs.
    pub fn check(&self, config: &Config) -> Result<Run, RunError> {
        match &self.facts {
            None => planning::check(config),
            Some(facts) => planning::check_log(config, facts),
        }
    }

    /// The log that is trained on; `None` when it is generated.
    pub fn train(&self) -> Option<&PreparedLog> {
        match &self.logs {
            Logs::Prepared { train, .. } => train.as_deref(),
            Logs::Parts { log, .. } => Some(log),
            Logs::Synthetic | Logs::SyntheticValidation => None,
        }
    }

    /// Logs for runs that are only compared with each other: no test row is read. The last tenth of the training
    /// samples is kept from training and evaluated on; of the synthetic log, samples that it has besides.
    pub fn for_pilots(&self) -> Result<Self, LogError> {
        self.last_apart(0.1)
    }

    /// Logs as [`for_pilots`](Self::for_pilots) gives them, with the last `share` of the training samples kept from training.
    pub fn last_apart(&self, share: f64) -> Result<Self, LogError> {
        let (log, facts) = match (&self.logs, &self.facts) {
            (Logs::Prepared { train: Some(log), .. }, Some(facts)) => (log, facts),
            (Logs::Synthetic, _) => {
                return Ok(Self { logs: Logs::SyntheticValidation, facts: None, _scratch: None });
            }
            _ => return Err(LogError::NothingToKeep),
        };
        let samples = log.manifest().samples;
        let kept = (samples as f64 * share) as u64;
        if kept == 0 || kept == samples {
            return Err(LogError::TooFew { samples, share });
        }
        let facts = LogFacts { samples: samples - kept, eval_samples: kept, ..facts.clone() };
        let logs = Logs::Parts { log: log.clone(), train: 0..samples - kept, eval: samples - kept..samples };
        Ok(Self { logs, facts: Some(facts), _scratch: self._scratch.clone() })
    }

    /// What the evaluation samples of [`for_pilots`](Self::for_pilots) are, for people.
    pub fn pilot_rows(&self) -> &'static str {
        match self.facts {
            Some(_) => "validation: the last tenth of the training rows, which pilots do not train on",
            None => "validation: samples of the synthetic log that are neither trained on nor test rows",
        }
    }

    /// Fingerprint of the samples of each log.
    pub fn fingerprints(&self) -> Vec<(&'static str, String)> {
        if let Logs::Parts { train, eval, .. } = &self.logs {
            let whole = self.fingerprint().unwrap_or_default();
            return vec![("train", format!("{whole} {train:?}")), ("evaluate", format!("{whole} {eval:?}"))];
        }
        let Logs::Prepared { train, eval } = &self.logs else { return Vec::new() };
        let logs = [("train", train), ("evaluate", eval)].into_iter();
        let told = logs
            .filter_map(|(split, log)| Some((split, log.as_ref()?.manifest().files.samples.xxh3.clone())));
        told.collect()
    }

    /// Fingerprint of the log: equal for equal samples.
    pub fn fingerprint(&self) -> Option<String> {
        self.train().map(|log| log.manifest().files.samples.xxh3.clone())
    }
}
