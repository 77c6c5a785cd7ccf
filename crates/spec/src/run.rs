//! What a user asks for, and the checked value that runs.
//!
//! [`Config`] is what a TOML file or flags say: everything optional, unknown fields refused. Its sections check themselves
//! (such as [`ModelConfig::check`]); `planning::check` puts them together, finds a placement and gives a [`Run`]. Only a
//! `Run` runs.
//!
//! ```
//! use spec::run::ModelConfig;
//! let config = ModelConfig { dim: Some(64), ..ModelConfig::default() };
//! assert_eq!(config.check(None).unwrap().dim(), 64);
//! ```

mod check;
mod config;
mod every;
mod explicit;
mod log;
mod split;

pub use check::{Length, Optimizers};
pub use config::{
    CheckpointConfig, Config, DataConfig, DataFormat, ModelConfig, Optimizer, OptimizerConfig,
    PlacementConfig, TopologyConfig, TrainConfig,
};
pub use every::Every;
pub use log::{Data, LogFacts, LogFeature, LogRows};
pub use split::{Split, SplitBy};

use crate::dataflow::{Dataflow, Deployment};
use crate::model::Model;
use crate::placement::Placement;
use crate::schedule::{Schedule, Task};
use crate::topology::Topology;
use crate::wire::Wire;
use std::ops::Range;

/// A run that was checked: everything is there, and everything fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The model.
    pub model: Model,
    /// Placement of the tables, and the cluster.
    pub placement: Placement,
    /// How their vectors travel.
    pub dataflow: Dataflow,
    /// Formats in which floats travel.
    pub wire: Wire,
    /// Rule and rate of the dense layers.
    pub dense_optimizer: Optimizer,
    /// Rule and rate of the tables.
    pub table_optimizer: Optimizer,
    /// Global batch.
    pub batch: usize,
    /// Steps in all.
    pub steps: u64,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Threads of each rank; `None` to share the machine's cores out.
    pub threads: Option<usize>,
    /// Bytes of a gradient bucket, about.
    pub bucket_bytes: usize,
    /// Whether communication runs beside what does not depend on it.
    pub overlap: bool,
    /// Seconds a collective may wait.
    pub wait_limit_s: f64,
    /// Evaluate every so many steps, besides at the end.
    pub eval_every: Option<u64>,
    /// How often a checkpoint is written, besides the last one.
    pub checkpoint_every: Option<Every>,
    /// Checkpoints kept.
    pub checkpoints_kept: usize,
    /// The data.
    pub data: Data,
}

/// Why a config cannot run: the field as it stands in the config, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RunError {
    /// The field at fault.
    pub field: String,
    /// Problem with the field, and what to do.
    pub problem: String,
}

impl RunError {
    /// An error about a field of a config.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// How a log is divided into batches: epochs follow each other, the last batch of each may be smaller.
///
/// ```
/// let batches = spec::run::Batches { samples: 10, batch: 4 };
/// assert_eq!((0..4).map(|step| batches.at(step)).collect::<Vec<_>>(), [0..4, 4..8, 8..10, 10..14]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Samples of an epoch.
    pub samples: u64,
    /// Samples of a step.
    pub batch: u64,
}

impl Batches {
    /// Steps of an epoch.
    pub fn per_epoch(&self) -> u64 {
        self.samples.div_ceil(self.batch)
    }

    /// Positions of the samples of step `step`. Positions count on over epochs.
    pub fn at(&self, step: u64) -> Range<u64> {
        let per_epoch = self.per_epoch().max(1);
        let epoch = (step / per_epoch).saturating_mul(self.samples);
        let first = step % per_epoch * self.batch;
        epoch + first..epoch + (first + self.batch).min(self.samples)
    }
}

impl Run {
    /// The cluster.
    pub fn topology(&self) -> Topology {
        self.placement.topology()
    }

    /// The step that trains.
    pub fn schedule(&self, task: Task) -> Schedule {
        let schedule = Schedule::new(&self.deployment(), task, self.bucket_bytes);
        if self.overlap { schedule } else { schedule.serialised() }
    }

    /// The model on its cluster.
    pub fn deployment(&self) -> Deployment {
        let (model, placement) = (self.model.clone(), self.placement.clone());
        Deployment { model, placement, dataflow: self.dataflow.clone(), wire: self.wire }
    }

    /// The batches of its training.
    pub fn batches(&self) -> Batches {
        Batches { samples: self.data.samples(), batch: self.batch as u64 }
    }

    /// The batches of one pass over the evaluation samples.
    pub fn eval_batches(&self) -> Batches {
        Batches { samples: self.data.eval_samples(), batch: self.batch as u64 }
    }
}
