//! Configs and runs: what a user wrote, and the checked value that runs.
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

mod all_reduce;
mod check;
mod checkpoints;
mod config;
mod every;
mod explicit;
mod log;
mod regularisation;
mod selection;
mod split;

pub use all_reduce::AllReduce;
pub use check::{Length, Optimizers};
pub use checkpoints::{CheckpointKind, Checkpoints};
pub use config::{
    CheckpointConfig, Config, DataConfig, DataFormat, ModelConfig, Optimizer, OptimizerConfig,
    PlacementConfig, TablesConfig, TopologyConfig, TrainConfig,
};
pub use every::Every;
pub use log::{Data, LogFacts, LogFeature, LogRows};
pub use regularisation::Regularisation;
pub use selection::{Evaluations, KeepBest, MetricName};
pub use split::{Split, SplitBy};

use crate::codec::Rounding;
use crate::dataflow::{Dataflow, Deployment};
use crate::device::DeviceChoice;
use crate::emulation::Emulation;
use crate::fuse::Fuse;
use crate::model::Layers;
use crate::model::Model;
use crate::placement::Placement;
use crate::precision::Precisions;
use crate::program::Algorithm;
use crate::schedule::{Schedule, StepOptions, Task};
use crate::table_cache::TableCache;
use crate::topology::Topology;
use crate::wire::Wire;
use std::ops::Range;

/// A run: a config that was checked, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Model that is trained.
    pub model: Model,
    /// Placement of the tables, and the cluster.
    pub placement: Placement,
    /// Dataflow of the vectors.
    pub dataflow: Dataflow,
    /// Wire formats of floats.
    pub wire: Wire,
    /// Algorithm of the all-reduce of dense gradients: over the world, and of tower modules inside tower groups.
    pub all_reduce: Algorithm,
    /// Nodes whose dense gradients the only rank emulates; `None` by default.
    pub emulation: Option<Emulation>,
    /// Update rule and learning rate of the dense layers.
    pub dense_optimizer: Optimizer,
    /// Update rule and learning rate of the tables.
    pub table_optimizer: Optimizer,
    /// Rounding of updated weights of tables in formats other than f32.
    pub table_rounding: Rounding,
    /// Tables larger than memory: what ranks keep of them; `None` to keep all.
    pub table_cache: Option<TableCache>,
    /// What is done to weights, gradients and labels besides the update rules.
    pub regularisation: Regularisation,
    /// Factor of the loss of samples whose label is 1, and of such samples in metrics; 1 by default.
    pub positive_weight: f32,
    /// Whether samples have weights, which multiply their losses.
    pub sample_weights: bool,
    /// How evaluations are broken down.
    pub breakdown: Breakdown,
    /// Global batch: number of samples per step, over all ranks.
    pub batch: usize,
    /// Number of steps of the run.
    pub steps: u64,
    /// Seed of the initial weights and of dropout.
    pub seed: u64,
    /// Number of threads per rank; `None` to share the cores of the machine among its ranks.
    pub threads: Option<usize>,
    /// Device that ranks compute on. Another one may take over a run, which then differs in its last bits.
    pub device: DeviceChoice,
    /// Precision of the operands of matrix products, by part of the network. Another one may take over a run.
    pub precision: Precisions,
    /// Approximate size of a gradient bucket, in bytes.
    pub bucket_bytes: usize,
    /// Whether communication overlaps with computation that does not depend on it.
    pub overlap: bool,
    /// Which phases are carried out as one.
    pub fuse: Fuse,
    /// Longest time that a rank waits in a collective, in seconds.
    pub wait_limit_s: f64,
    /// Number of steps between evaluations; `None` to evaluate only at the end.
    pub eval_every: Option<u64>,
    /// Metric by which the best state is known and kept; `None` to keep the last states only.
    pub keep_best: Option<MetricName>,
    /// Number of evaluations without a better value after which the run stops; `None` to train to the end.
    pub patience: Option<u64>,
    /// What is written as checkpoints, and when.
    pub checkpoints: Checkpoints,
    /// Data that the run trains and evaluates on.
    pub data: Data,
}

/// Columns by which evaluations are broken down; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Column of the groups whose AUCs are averaged, such as users.
    pub group: Option<String>,
    /// Columns for whose values metrics are told.
    pub slices: Vec<String>,
}

/// Error in a config: the field as it is named there, what is wrong with it, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RunError {
    /// Name of the field that is wrong.
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

/// Division of a log into batches: epochs follow each other, and the last batch of each may be smaller.
///
/// ```
/// let batches = spec::run::Batches { samples: 10, batch: 4 };
/// assert_eq!((0..4).map(|step| batches.at(step)).collect::<Vec<_>>(), [0..4, 4..8, 8..10, 10..14]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Number of samples of an epoch.
    pub samples: u64,
    /// Number of samples of a step.
    pub batch: u64,
}

impl Batches {
    /// Number of steps of an epoch.
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
    /// Cluster that the run is for.
    pub fn topology(&self) -> Topology {
        self.placement.topology()
    }

    /// Bytes of its state that a rank copies at most for a writer of checkpoints beside the training.
    pub fn copied_bytes(&self) -> u64 {
        let larger_than_memory = self.table_cache.as_ref().is_some_and(|cache| cache.shards.any());
        match self.checkpoints.memory {
            Some(memory) => memory / self.topology().ranks_per_host() as u64,
            None if larger_than_memory => 0,
            None => u64::MAX,
        }
    }

    /// Schedule of a step that trains or evaluates.
    pub fn schedule(&self, task: Task) -> Schedule {
        let deployment = self.deployment();
        let norm = self.regularisation.clip_norm.is_some() && task == Task::Train;
        let options = StepOptions {
            task,
            bucket_bytes: self.bucket_bytes,
            norm,
            batch: self.batch,
            fuse_pairs: self.fuses_pairs(),
            in_place: self.fuse.in_place(),
        };
        let schedule = Schedule::with_options(&deployment, options);
        if self.overlap { schedule } else { schedule.serialised() }
    }

    /// Whether dot products of vectors are fused with the lookup and the update of tables, if the deployment allows it.
    fn fuses_pairs(&self) -> bool {
        let mut dots =
            self.model.network().blocks().iter().filter(|block| matches!(block.layers, Layers::Dot { .. }));
        dots.any(|block| self.fuse.fuses(self.device, self.precision.of(block.name)))
    }

    /// Whether losses have weights: of samples, of clicks, or of labels.
    pub fn weighs_losses(&self) -> bool {
        let of_labels = self.model.labels().iter().any(|label| label.weight != 1.0);
        self.sample_weights || self.positive_weight != 1.0 || of_labels
    }

    /// Numbers of a sample that its loss needs besides the logits: labels and, where losses have weights, the weights.
    pub fn loss_numbers(&self) -> usize {
        self.model.outputs() * (1 + usize::from(self.weighs_losses()))
    }

    /// Deployment of the model on its cluster, from which the schedule follows.
    pub fn deployment(&self) -> Deployment {
        Deployment {
            model: self.model.clone(),
            placement: self.placement.clone(),
            dataflow: self.dataflow.clone(),
            wire: self.wire,
            all_reduce: self.all_reduce,
            emulation: self.emulation,
            cached: self.table_cache.as_ref().and_then(TableCache::fetched).cloned(),
        }
    }

    /// Batches of the training samples.
    pub fn batches(&self) -> Batches {
        Batches { samples: self.data.samples(), batch: self.batch as u64 }
    }

    /// Batches of one pass over the evaluation samples.
    pub fn eval_batches(&self) -> Batches {
        Batches { samples: self.data.eval_samples(), batch: self.batch as u64 }
    }
}
