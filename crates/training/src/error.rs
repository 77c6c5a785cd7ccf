//! What can go wrong on a rank.

use crate::checkpoint::CheckpointError;
use crate::metrics::MetricError;
use crate::run::memory::MemoryNeed;
use collectives::{CollectiveError, ExternalError, Failure};
use data::DataError;
use kernels::KernelError;
use spec::schedule::{CollectiveKind, Group};

/// Why a rank, and with it the run, stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Data that does not fit the model.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An operation was refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A collective failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// Predictions that cannot be scored.
    #[error(transparent)]
    Metrics(#[from] MetricError),
    /// The loss is no longer a number: the learning rate is too high, or the data is broken.
    #[error(
        "the loss of step {step} is {loss}; lower the learning rates (optimizer.*.rate.peak), or check the data"
    )]
    Diverged {
        /// The step, from 0.
        step: u64,
        /// Loss of that step.
        loss: f64,
    },
    /// A run that the machine has no room for.
    #[error(
        "{ranks} rank(s) on this machine need {} of memory and {:.1} GB are free: {need}; lower {}",
        crate::run::memory::size(need.total()), *available as f64 / 1e9, need.parts()[0].remedy
    )]
    Memory {
        /// What the run needs.
        need: Box<MemoryNeed>,
        /// Ranks on this machine.
        ranks: usize,
        /// What there is.
        available: u64,
    },
    /// More ranks than one process runs.
    #[error(
        "{ranks} ranks are more than the {most} that one process runs; lower topology.hosts or topology.ranks_per_host"
    )]
    Ranks {
        /// Ranks asked for.
        ranks: usize,
        /// The most there may be.
        most: usize,
    },
    /// Copies of the same parameters that differ: a defect of this program.
    #[error(
        "the dense layers or replicated tables of rank {rank} are not those of rank 0; please report this"
    )]
    Replicas {
        /// The rank whose copy differs.
        rank: usize,
    },
    /// A checkpoint that cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A run that cannot go on from a checkpoint, or keep its state.
    #[error("checkpoint: {problem}")]
    Resume {
        /// What is wrong.
        problem: String,
    },
    /// Numbers that are no affinity: vectors that are no longer numbers.
    #[error(transparent)]
    Affinity(#[from] spec::affinity::AffinityError),
    /// The affinity of a model whose vectors have been through towers.
    #[error(
        "affinity is measured between embeddings, but this model's towers have changed them; train a flat model first"
    )]
    AffinityOfTowers,
    /// Times that do not fit the step.
    #[error("compute: {0}")]
    Pace(#[from] spec::pace::PaceError),
    /// A run that computes nothing has no state worth keeping, and none to go on from.
    #[error("a paced run computes nothing: it neither writes checkpoints nor goes on from one")]
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
    /// A split without samples was asked for.
    #[error("there are no samples; give a log with --data, or with --eval")]
    NoSamples,
    /// No rank ran: a defect of this program.
    #[error("no rank gave a result; please report this")]
    NoRank,
    /// A rank failed; all stopped.
    #[error(transparent)]
    Failure(#[from] Box<Failure>),
}

impl Error {
    /// The error as ranks give it to their launcher: what lies in the data, on the disk or in what was asked for is
    /// marked as an [`ExternalError`], so that nobody need know where all ranks were.
    pub(crate) fn of_rank(self) -> Box<dyn std::error::Error + Send + Sync> {
        match self {
            Self::Kernel(_)
            | Self::Collective(_)
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
            | Self::Ranks { .. }
            | Self::Checkpoint(_)
            | Self::Resume { .. }
            | Self::Affinity(_)
            | Self::AffinityOfTowers
            | Self::Pace(_)
            | Self::PacedState
            | Self::NoSamples => ExternalError(self.into()).into(),
        }
    }
}
