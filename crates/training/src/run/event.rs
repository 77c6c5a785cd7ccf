//! Events that a run reports.

use crate::cache::CacheCounts;
use crate::checkpoint::CheckpointError;
use crate::run::scores::Scores;
use std::path::Path;

/// Event that a run reports while it runs.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Training, now and then.
    Training(Progress),
    /// Evaluation begins.
    Evaluating {
        /// Samples to score.
        samples: u64,
    },
    /// An evaluation is done.
    Evaluated {
        /// Number of steps done.
        step: u64,
        /// Scores of the evaluation.
        scores: &'a Scores,
    },
    /// Increments could not be brought together with their base. They stay as they are, and the next checkpoint is full.
    NotCompacted {
        /// What went wrong.
        error: &'a CheckpointError,
    },
    /// A checkpoint is complete.
    Saved {
        /// Steps done when its state was copied.
        step: u64,
        /// Folder of the checkpoint.
        path: &'a Path,
        /// Size of the checkpoint.
        bytes: u64,
        /// Step of the checkpoint that it builds on, where it is an increment.
        base: Option<u64>,
        /// Seconds that training stood still for the copy.
        copy_s: f64,
        /// Seconds until it was complete, beside training.
        write_s: f64,
    },
}

/// Progress of training.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Number of steps done.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
    /// Samples seen by the world, earlier parts of a resumed run included.
    pub samples: u64,
    /// Samples of an epoch.
    pub epoch_samples: u64,
    /// Mean loss since the last event; no number in a paced run.
    pub loss: f64,
    /// AUC of all predictions made so far, each before its sample was learnt; `None` until both labels were seen.
    pub auc: Option<f64>,
    /// Samples a second since the last event.
    pub samples_per_s: f64,
    /// Seconds of training in this session.
    pub seconds: f64,
    /// Learning rates of the last step: dense layers, tables.
    pub rates: (f32, f32),
    /// What tables larger than memory did since the last event, over all ranks; `None` where all tables are in memory.
    pub cache: Option<CacheCounts>,
}
