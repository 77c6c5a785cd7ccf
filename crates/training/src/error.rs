//! Errors of training.

use crate::checkpoint::CheckpointError;
use crate::metrics::MetricError;
use crate::run::memory::{GpuNeed, MemoryNeed};
use collectives::{CollectiveError, ExternalError, Failure};
use data::DataError;
use kernels::KernelError;
use spec::schedule::{CollectiveKind, Group};
use std::path::PathBuf;

/// Reason why a rank, and with it the run, stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Data cannot be read, or does not match the model.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A device refused an operation.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A collective failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// Predictions cannot be scored.
    #[error(transparent)]
    Metrics(#[from] MetricError),
    /// The loss is no longer a number: the learning rate is too high, or the data is broken.
    #[error(
        "the loss of step {step} is {loss}; lower the learning rates (optimizer.*.rate.peak), or check the data"
    )]
    Diverged {
        /// Number of the step, from 0.
        step: u64,
        /// Loss of that step.
        loss: f64,
    },
    /// The machine does not have enough memory for the run.
    #[error(
        "{ranks} rank(s) on this machine need {} of memory, but {:.1} GB are free: {need}; lower {}",
        crate::run::memory::size(need.total()), *available as f64 / 1e9, need.parts()[0].remedy
    )]
    Memory {
        /// Memory that the run needs.
        need: Box<MemoryNeed>,
        /// Number of ranks on this machine.
        ranks: usize,
        /// Memory that is available, in bytes.
        available: u64,
    },
    /// A GPU does not have enough memory for its ranks.
    #[error("{0}")]
    GpuMemory(Box<GpuNeed>),
    /// A table could not be allocated.
    #[error(
        "the table of {feature}, {rows} × {columns}, does not fit into the memory that is left: {error}; lower model.rows_cap or \
         model.dim, or divide the tables among more ranks"
    )]
    TableMemory {
        /// Name of the feature.
        feature: String,
        /// Number of rows that this rank holds.
        rows: usize,
        /// Number of columns that this rank holds.
        columns: usize,
        /// Error of the allocation.
        error: Box<KernelError>,
    },
    /// One process cannot run this many ranks.
    #[error(
        "{ranks} ranks are more than the {most} that one process runs; lower topology.hosts or topology.ranks_per_host"
    )]
    Ranks {
        /// Number of ranks of the run.
        ranks: usize,
        /// Largest number of ranks of a process.
        most: usize,
    },
    /// A layer names a dense parameter that its rank does not hold, which is a defect of this program.
    #[error(
        "this rank does not hold the dense parameter {name}, which one of its layers needs; please report this"
    )]
    NoParameter {
        /// Name of the parameter.
        name: String,
    },
    /// A schedule names a block that the network does not have, which is a defect of this program.
    #[error("the network has no block {name}, which a phase of its schedule runs; please report this")]
    NoBlock {
        /// Name of the block.
        name: spec::model::BlockName,
    },
    /// Copies of the same parameters differ, which is a defect of this program.
    #[error(
        "the dense layers or replicated tables of rank {rank} are not those of rank 0; please report this"
    )]
    Replicas {
        /// The rank whose copy differs.
        rank: usize,
    },
    /// A checkpoint cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The run cannot be resumed from a checkpoint, or cannot save its state.
    #[error("cannot resume: {problem}")]
    Resume {
        /// Description of the problem, and what to do about it.
        problem: String,
    },
    /// The run cannot be carried out as it is configured.
    #[error(transparent)]
    Run(#[from] spec::run::RunError),
    /// The measured numbers are not an affinity, for example because vectors are NaN.
    #[error(transparent)]
    Affinity(#[from] spec::affinity::AffinityError),
    /// The affinity of a model whose vectors have been through towers.
    #[error(
        "affinity is measured between embeddings, but this model's towers have changed them; train a flat model first"
    )]
    AffinityOfTowers,
    /// The pace does not match the step.
    #[error("--compute: {0}")]
    Pace(#[from] spec::pace::PaceError),
    /// A paced run cannot write checkpoints or be resumed, because it computes nothing.
    #[error("a paced run computes nothing, so it cannot write checkpoints or be resumed; use --compute real")]
    PacedState,
    /// A phase of another dataflow than the run's: a defect of this program.
    #[error("the {dataflow} dataflow has no phase for {phase}; please report this")]
    NotInDataflow {
        /// What was to be done.
        phase: String,
        /// Name of the dataflow of the run.
        dataflow: &'static str,
    },
    /// A collective that cannot carry what its phase brings: a defect of this program.
    #[error("{phase}: no buffers are known that this {collective} could carry; please report this")]
    Payload {
        /// Name of the phase.
        phase: String,
        /// Kind of the collective.
        collective: CollectiveKind,
    },
    /// A collective over ranks that the run's dataflow does not group: a defect of this program.
    #[error("the ranks of this run are not divided by {group}; please report this")]
    NoGroup {
        /// The group that was asked for.
        group: Group,
    },
    /// Rows of tables that are larger than memory cannot be kept in their files.
    #[error("rows of tables in {path}: {problem} (--table-store)", path = path.display())]
    TableStore {
        /// File or folder of the rows.
        path: PathBuf,
        /// What went wrong, and what to do.
        problem: String,
    },
    /// The requested split has no samples.
    #[error("there are no samples; give a log with --data, or with --eval")]
    NoSamples,
    /// Samples have no columns by which an evaluation could be broken down.
    #[error("--group and --slice need a log on disk: these samples have no columns; leave them out")]
    NoColumns,
    /// No rank returned a result, which is a defect of this program.
    #[error("no rank returned a result; please report this")]
    NoRank,
    /// A rank failed; all stopped.
    #[error(transparent)]
    Failure(#[from] Box<Failure>),
}

impl From<Error> for CheckpointError {
    fn from(error: Error) -> Self {
        match error {
            Error::Kernel(error) => Self::Memory(error),
            error => Self::Rows { problem: error.to_string() },
        }
    }
}

impl Error {
    /// The error as ranks give it to their launcher: what lies in the data, on the disk or in what was asked for is
    /// marked as an [`ExternalError`], so that nobody need know where all ranks were.
    pub(crate) fn of_rank(self) -> Box<dyn std::error::Error + Send + Sync> {
        match self {
            Self::Kernel(_)
            | Self::Collective(_)
            | Self::NoParameter { .. }
            | Self::NoBlock { .. }
            | Self::Replicas { .. }
            | Self::NotInDataflow { .. }
            | Self::Payload { .. }
            | Self::NoGroup { .. }
            | Self::NoRank
            | Self::Failure(_) => self.into(),
            Self::Data(_)
            | Self::Metrics(_)
            | Self::Diverged { .. }
            | Self::Memory { .. }
            | Self::GpuMemory(_)
            | Self::TableMemory { .. }
            | Self::TableStore { .. }
            | Self::Ranks { .. }
            | Self::Checkpoint(_)
            | Self::Resume { .. }
            | Self::Run(_)
            | Self::Affinity(_)
            | Self::AffinityOfTowers
            | Self::Pace(_)
            | Self::PacedState
            | Self::NoColumns
            | Self::NoSamples => ExternalError(self.into()).into(),
        }
    }
}
