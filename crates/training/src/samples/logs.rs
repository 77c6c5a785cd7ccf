//! The logs of a run, which all its ranks share.

use crate::Error;
use crate::samples::source::Source;
use data::prepared::PreparedLog;
use data::{Split, SyntheticLog};
use spec::run::{Data, Run};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Logs of a run.
#[derive(Clone, Debug)]
pub enum Logs {
    /// Synthetic log, generated as it is read.
    Synthetic,
    /// Synthetic log whose evaluations use the validation samples, which are neither trained on nor used in the final
    /// evaluation.
    SyntheticValidation,
    /// One prepared log, divided into training and evaluation samples.
    Parts {
        /// Prepared log.
        log: Arc<PreparedLog>,
        /// Samples to train on.
        train: Range<u64>,
        /// Samples to evaluate on.
        eval: Range<u64>,
    },
    /// Prepared logs, one for each split.
    Prepared {
        /// Log to train on; an evaluation needs none.
        train: Option<Arc<PreparedLog>>,
        /// Log to evaluate on.
        eval: Option<Arc<PreparedLog>>,
    },
}

impl Logs {
    /// Samples of `split`, for one rank.
    pub fn source(&self, run: &Run, split: Split) -> Result<Source, Error> {
        let (features, dense) = (run.model.features(), run.model.dense_features());
        match (self, &run.data) {
            (Logs::Synthetic, Data::Synthetic(settings)) => {
                Ok(Source::Synthetic(SyntheticLog::new(settings, features, dense, split)?))
            }
            (Logs::SyntheticValidation, Data::Synthetic(settings)) => {
                let split = if split == Split::Train { Split::Train } else { Split::Validation };
                Ok(Source::Synthetic(SyntheticLog::new(settings, features, dense, split)?))
            }
            (Logs::Parts { log, train, eval }, Data::Log { shuffle, .. }) => {
                let part = if split == Split::Train { train } else { eval };
                let log = log.clone().bind(features, dense)?.part(part.clone());
                let shuffle = shuffle.filter(|_| split == Split::Train).map(|window| (window, run.seed));
                Ok(Source::Prepared { log, shuffle })
            }
            (Logs::Prepared { train, eval }, Data::Log { shuffle, .. }) => {
                let log = if split == Split::Train { train } else { eval };
                let log = log.clone().ok_or(Error::NoSamples)?.bind(features, dense)?;
                let shuffle = shuffle.filter(|_| split == Split::Train).map(|window| (window, run.seed));
                Ok(Source::Prepared { log, shuffle })
            }
            _ => Err(Error::NoSamples),
        }
    }
}

/// The logs of one run, for all ranks of a process: what is generated is set up once, and shared.
pub(crate) struct SharedLogs<'a> {
    run: &'a Run,
    logs: &'a Logs,
    synthetic: [Mutex<Option<SyntheticLog>>; 2],
}

impl<'a> SharedLogs<'a> {
    pub(crate) fn new(run: &'a Run, logs: &'a Logs) -> Self {
        Self { run, logs, synthetic: Default::default() }
    }

    /// Samples of `split`, for one rank.
    pub(crate) fn source(&self, split: Split) -> Result<Source, Error> {
        if !matches!(self.logs, Logs::Synthetic | Logs::SyntheticValidation) {
            return self.logs.source(self.run, split);
        }
        let place = &self.synthetic[usize::from(split != Split::Train)];
        let mut made = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &*made {
            return Ok(Source::Synthetic(log.clone()));
        }
        let source = self.logs.source(self.run, split)?;
        if let Source::Synthetic(log) = &source {
            *made = Some(log.clone());
        }
        Ok(source)
    }
}
