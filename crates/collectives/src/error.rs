//! What can go wrong between ranks.

use crate::{Failure, Label};
use kernels::KernelError;
use spec::topology::Topology;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a collective could not be carried out. Every one of these ends all ranks.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CollectiveError {
    /// Two ranks met in one collective with calls that do not fit each other.
    #[error("the ranks {members:?} disagree on their collective #{sequence}: {first}; {second}")]
    Mismatch {
        /// The collective's number in its group, from 0.
        sequence: u64,
        /// The group.
        members: Vec<usize>,
        /// The call that arrived earlier.
        first: Box<Call>,
        /// The call that does not fit it.
        second: Box<Call>,
    },
    /// A rank's own arguments do not fit each other.
    #[error("rank {rank}: {operation} (`{label}`): {what}: expected {expected}, got {got}")]
    Arguments {
        /// The rank.
        rank: usize,
        /// The collective.
        operation: &'static str,
        /// Its label.
        label: Label,
        /// What does not fit.
        what: &'static str,
        /// What it should be.
        expected: usize,
        /// What it is.
        got: usize,
    },
    /// A collective was waited for longer than allowed.
    #[error(
        "rank {rank} waited {limit:.1?} in {operation} #{sequence} (`{label}`), the limit; \
         not there: ranks {missing:?}"
    )]
    WaitLimit {
        /// The rank whose patience ended.
        rank: usize,
        /// The collective.
        operation: &'static str,
        /// Its label.
        label: Label,
        /// Its number in its group, from 0.
        sequence: u64,
        /// The limit.
        limit: Duration,
        /// Ranks that have not arrived.
        missing: Vec<usize>,
    },
    /// A rank finished although others needed it in a collective.
    #[error(
        "rank {rank} on host {host} finished in phase `{phase}`, but ranks {waiting:?} need it in \
         {operation} #{sequence} (`{label}`)"
    )]
    LeftEarly {
        /// The rank that finished.
        rank: usize,
        /// Its host.
        host: usize,
        /// The phase it was in last.
        phase: Label,
        /// The collective that lacks it.
        operation: &'static str,
        /// Its label.
        label: Label,
        /// Its number in its group, from 0.
        sequence: u64,
        /// Ranks that are in that collective.
        waiting: Vec<usize>,
    },
    /// A rank returned an error.
    #[error("rank {rank} on host {host} failed in phase `{phase}`: {message}")]
    Failed {
        /// The rank.
        rank: usize,
        /// Its host.
        host: usize,
        /// The phase it was in.
        phase: Label,
        /// Its error, and what that came from.
        message: String,
    },
    /// A rank gave up for a reason that is not of this program: the data, the disk, what the user asked for. Where the
    /// other ranks were does not matter then.
    #[error("{message} (rank {rank} on host {host}, phase `{phase}`)")]
    GaveUp {
        /// The rank.
        rank: usize,
        /// Host of the rank.
        host: usize,
        /// The phase it was in.
        phase: Label,
        /// The reason, and what to do about it.
        message: String,
    },
    /// A rank panicked.
    #[error("rank {rank} on host {host} panicked in phase `{phase}`: {message}")]
    Panicked {
        /// The rank.
        rank: usize,
        /// Its host.
        host: usize,
        /// The phase it was in.
        phase: Label,
        /// What the panic said.
        message: String,
    },
    /// A rank could not be started.
    #[error("rank {rank} could not be started: {message}")]
    Spawn {
        /// The rank.
        rank: usize,
        /// What the system said.
        message: String,
    },
    /// A call of the MPI library failed.
    #[error("rank {rank}: {call} with {peer} for {operation} (`{label}`): {message}")]
    Mpi {
        /// The rank that called.
        rank: usize,
        /// The MPI call.
        call: &'static str,
        /// Who the call was about: a rank, or the whole group.
        peer: Peer,
        /// The collective.
        operation: &'static str,
        /// Its label.
        label: Label,
        /// MPI's own words.
        message: Box<str>,
    },
    /// The job has another number of processes than the cluster has ranks.
    #[error("MPI started {got} processes, but {topology} has {} ranks", .topology.ranks())]
    WorldSize {
        /// The cluster.
        topology: Topology,
        /// Processes that MPI says there are.
        got: usize,
    },
    /// The hosts that MPI sees are not those of the cluster.
    #[error(
        "rank {rank}: MPI says that it shares a host with the ranks {got:?}, but on {topology} these are {expected:?}"
    )]
    Hosts {
        /// The rank that noticed.
        rank: usize,
        /// The cluster.
        topology: Topology,
        /// Ranks of this rank's host by the topology, itself included.
        expected: Vec<usize>,
        /// Ranks with which it shares memory.
        got: Vec<usize>,
    },
    /// A rank was started with something else than rank 0.
    #[error("rank {rank} was started with something else than rank 0:{}", difference(.expected, .got))]
    Differs {
        /// The rank.
        rank: usize,
        /// What rank 0 was started with.
        expected: String,
        /// What this rank was started with.
        got: String,
    },
    /// Hosts with different numbers of ranks, or with ranks that do not follow each other.
    #[error(
        "hosts must have as many ranks each, and ranks that follow each other, but MPI says that ranks 0, 1, … are on \
         the hosts of ranks {lowest:?}; start the job with, say, --map-by ppr:2:node"
    )]
    UnevenHosts {
        /// By rank: the lowest rank that it shares memory with.
        lowest: Vec<usize>,
    },
    /// What another process's rank has reported, in its words.
    #[error("{message}")]
    Elsewhere {
        /// The rank that reported it.
        rank: usize,
        /// What it said.
        message: String,
        /// Whether the rank [gave up](CollectiveError::GaveUp), so that where the others were does not matter.
        gave_up: bool,
    },
    /// A buffer or a sum was refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The run has already ended, by what is inside; this rank is only told.
    #[error("the run has ended: {}", .0.cause)]
    Ended(Arc<Failure>),
}

impl CollectiveError {
    /// Whether a rank gave up for a reason that is not of this program.
    pub fn gave_up(&self) -> bool {
        matches!(self, Self::GaveUp { .. } | Self::Elsewhere { gave_up: true, .. })
    }
}

/// Marks the error of a rank as one that is not of this program: wrapped in this, it is reported without where all ranks
/// were, as [`CollectiveError::GaveUp`].
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Reason(pub Box<dyn std::error::Error + Send + Sync>);

/// The other side of an MPI call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// One rank.
    Rank(usize),
    /// All ranks of a group.
    Group,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Group => write!(f, "its group"),
        }
    }
}

/// One rank's side of a collective, as another rank's call meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The rank that called.
    pub rank: usize,
    /// What it called.
    pub operation: &'static str,
    /// The element type.
    pub element: &'static str,
    /// The call's label.
    pub label: Label,
    /// The phase the rank is in.
    pub phase: Label,
    /// Bytes it sends to the other rank.
    pub sends: usize,
    /// Bytes it expects from the other rank.
    pub expects: usize,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, operation, element, label, phase, sends, expects } = self;
        write!(
            f,
            "rank {rank} called {operation} of {element} (`{label}`) in phase `{phase}`, \
             sending {sends} bytes to the other and expecting {expects} from it"
        )
    }
}

/// The lines of each text that the other does not have.
fn difference(expected: &str, got: &str) -> String {
    let only = |text: &str, other: &str, who: &str| {
        let lines = text.lines().filter(|line| !other.lines().any(|other| other == *line));
        lines.map(|line| format!("\n  {who} {line}")).collect::<String>()
    };
    only(expected, got, "rank 0:") + &only(got, expected, "here:  ")
}
