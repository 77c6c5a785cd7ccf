//! Errors of collectives and of launching ranks.

use crate::{CollectiveStatus, Failure, Label};
use kernels::KernelError;
use spec::topology::Topology;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Reason why a collective, or the launch of the ranks, failed. Each of these errors ends the run on all ranks.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CollectiveError {
    /// Two ranks made calls for the same collective that do not match: other operation, element type or number of bytes.
    #[error("the ranks {members:?} disagree on their collective #{sequence}: {first}; {second}")]
    Mismatch {
        /// Number of the collective in its group, from 0.
        sequence: u64,
        /// World ranks of the group.
        members: Vec<usize>,
        /// Call that arrived earlier.
        first: Box<Call>,
        /// Call that does not match the earlier one.
        second: Box<Call>,
    },
    /// The arguments that one rank passed to a collective do not match each other.
    #[error(
        "rank {rank}: invalid arguments of {operation} (`{label}`): {what}: expected {expected}, got {got}"
    )]
    Arguments {
        /// World rank of the caller.
        rank: usize,
        /// Name of the collective.
        operation: &'static str,
        /// Label of the collective.
        label: Label,
        /// Quantity that is wrong, such as "send counts".
        what: &'static str,
        /// Required value, or the least one.
        expected: usize,
        /// Value that was passed.
        got: usize,
    },
    /// A rank waited in a collective longer than [`Options::wait_limit`](crate::Options::wait_limit).
    #[error(
        "rank {rank} waited {limit:.1?}, the limit, in {operation} #{sequence} (`{label}`); missing: ranks {missing:?}"
    )]
    WaitLimit {
        /// World rank of the rank that waited.
        rank: usize,
        /// Name of the collective.
        operation: &'static str,
        /// Label of the collective.
        label: Label,
        /// Number of the collective in its group, from 0.
        sequence: u64,
        /// Longest time that a rank may wait.
        limit: Duration,
        /// World ranks of the members that had not joined the collective.
        missing: Vec<usize>,
    },
    /// A rank finished although other ranks still needed it in a collective.
    #[error(
        "rank {rank} on host {host} finished in phase `{phase}`, but ranks {waiting:?} need it in \
         {operation} #{sequence} (`{label}`)"
    )]
    LeftEarly {
        /// World rank of the rank that finished.
        rank: usize,
        /// Host of the rank that finished.
        host: usize,
        /// Last phase of the rank that finished.
        phase: Label,
        /// Name of the collective that cannot complete.
        operation: &'static str,
        /// Label of the collective.
        label: Label,
        /// Number of the collective in its group, from 0.
        sequence: u64,
        /// World ranks of the members that have joined the collective.
        waiting: Vec<usize>,
    },
    /// The body of a rank returned an error.
    #[error("rank {rank} on host {host} failed in phase `{phase}`: {message}")]
    Failed {
        /// World rank of the rank that failed.
        rank: usize,
        /// Host of the rank that failed.
        host: usize,
        /// Phase in which the rank failed.
        phase: Label,
        /// Error of the rank and the chain of its sources, on one line.
        message: String,
    },
    /// A rank returned an [`ExternalError`]: the cause lies outside the program (the data, the disk, the user's request), so
    /// the message does not list what the other ranks were doing.
    #[error("{message} (rank {rank} on host {host}, phase `{phase}`)")]
    GaveUp {
        /// World rank of the rank that gave up.
        rank: usize,
        /// Host of the rank that gave up.
        host: usize,
        /// Phase in which the rank gave up.
        phase: Label,
        /// Description of the problem, and what to do about it.
        message: String,
    },
    /// The body of a rank panicked.
    #[error("rank {rank} on host {host} panicked in phase `{phase}`: {message}")]
    Panicked {
        /// World rank of the rank that panicked.
        rank: usize,
        /// Host of the rank that panicked.
        host: usize,
        /// Phase in which the rank panicked.
        phase: Label,
        /// Message of the panic.
        message: String,
    },
    /// The thread of a rank, or the thread that serves MPI, could not be started.
    #[error("rank {rank} could not be started: {message}")]
    Spawn {
        /// World rank of the rank that could not be started.
        rank: usize,
        /// Reason, in the words of the operating system where it gave one.
        message: String,
    },
    /// A call of the MPI library failed.
    #[error("rank {rank}: {call} with {remote} failed in {operation} (`{label}`): {message}")]
    Mpi {
        /// World rank of the caller.
        rank: usize,
        /// Name of the MPI function, such as "MPI_Isend".
        call: &'static str,
        /// Other side of the call: one rank, or all ranks of the group.
        remote: Remote,
        /// Name of the collective that made the call.
        operation: &'static str,
        /// Label of the collective.
        label: Label,
        /// Error message of the MPI library.
        message: Box<str>,
    },
    /// The MPI job has a number of processes that differs from the number of ranks of the cluster.
    #[error(
        "MPI started {got} processes, but {topology} has {0} ranks; start {0} processes, or describe the cluster that was \
         started", .topology.ranks()
    )]
    WorldSize {
        /// Cluster that the run was configured for.
        topology: Topology,
        /// Number of processes in the MPI job.
        got: usize,
    },
    /// The ranks that share a machine according to MPI are not those that share a host in the configured cluster.
    #[error(
        "rank {rank}: according to MPI it shares a host with the ranks {got:?}, but on {topology} these are {expected:?}; \
         describe the cluster that was started"
    )]
    Hosts {
        /// World rank of the rank that found the difference.
        rank: usize,
        /// Cluster that the run was configured for.
        topology: Topology,
        /// Ranks on the host of `rank` according to the topology, `rank` included.
        expected: Vec<usize>,
        /// Ranks that share memory with `rank` according to MPI, `rank` included.
        got: Vec<usize>,
    },
    /// A rank was started with another topology, version or configuration than rank 0.
    #[error("rank {rank} was started with something else than rank 0:{}", difference(.expected, .got))]
    Differs {
        /// World rank of the rank that differs.
        rank: usize,
        /// Description of what rank 0 was started with, one item per line.
        expected: String,
        /// Description of what this rank was started with, one item per line.
        got: String,
    },
    /// The hosts of the MPI job have different numbers of ranks, or ranks that are not consecutive.
    #[error(
        "all hosts must have the same number of ranks, and their ranks must be consecutive; by MPI the lowest rank on the \
         host of each rank 0, 1, … is {lowest:?}; start the job with, for example, mpirun --map-by ppr:2:node"
    )]
    UnevenHosts {
        /// Lowest rank that shares memory with a rank, for each rank in order.
        lowest: Vec<usize>,
    },
    /// The GPU of a rank waited for other ranks longer than [`Options::wait_limit`](crate::Options::wait_limit).
    #[error(
        "rank {rank}: NCCL has waited for other ranks for {limit:.1?}, the limit{}; a rank does not take part",
        .last.as_ref().map_or(String::new(), |last| format!(", in {last} or before"))
    )]
    DeviceWaitLimit {
        /// World rank of the rank that waited.
        rank: usize,
        /// Collective that the rank had started last.
        last: Option<Box<CollectiveStatus>>,
        /// Longest time that a rank may wait.
        limit: Duration,
    },
    /// Two ranks use one GPU, which NCCL does not allow.
    #[error(
        "ranks {first} and {second} both use GPU {gpu} of their host, but NCCL needs a GPU for each rank; start at most as many ranks \
         on a host as it has GPUs, or use --transport in-process or mpi, with which ranks may share a GPU"
    )]
    SharedGpu {
        /// World rank of the first rank on the GPU.
        first: usize,
        /// World rank of another rank on the GPU.
        second: usize,
        /// Number of the GPU on its host.
        gpu: usize,
    },
    /// An error that a rank in another process reported.
    #[error("{message}")]
    Elsewhere {
        /// World rank of the rank that reported the error.
        rank: usize,
        /// Message of the error on that rank.
        message: String,
        /// Whether the error on that rank was [`CollectiveError::GaveUp`].
        gave_up: bool,
    },
    /// The device refused a buffer or a sum.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The run had already ended with this failure when the rank made its call.
    #[error("the run has ended: {}", .0.cause)]
    Ended(Arc<Failure>),
}

impl CollectiveError {
    /// Whether the cause lies outside the program: a rank [gave up](CollectiveError::GaveUp), here or in another process.
    pub fn gave_up(&self) -> bool {
        matches!(self, Self::GaveUp { .. } | Self::Elsewhere { gave_up: true, .. })
    }
}

/// Marks the error of a rank as caused from outside the program (the data, the disk, the user's request). The run then ends
/// with [`CollectiveError::GaveUp`], whose message does not list what all ranks were doing.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ExternalError(pub Box<dyn std::error::Error + Send + Sync>);

/// Other side of an MPI call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// One rank, by its world rank.
    Rank(usize),
    /// All ranks of the caller's group.
    Group,
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Group => write!(f, "the ranks of its group"),
        }
    }
}

/// Call of one rank for a collective, compared with the call of another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// World rank of the caller.
    pub rank: usize,
    /// Name of the collective.
    pub operation: &'static str,
    /// Name of the element type, such as "f32".
    pub element: &'static str,
    /// Label of the collective.
    pub label: Label,
    /// Phase that the caller is in.
    pub phase: Label,
    /// Bytes that the caller sends to the other rank.
    pub sends: usize,
    /// Bytes that the caller expects from the other rank.
    pub expects: usize,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, operation, element, label, phase, sends, expects } = self;
        write!(
            f,
            "rank {rank} called {operation} of {element} (`{label}`) in phase `{phase}`, \
             sending {sends} bytes to the other rank and expecting {expects} bytes from it"
        )
    }
}

/// Lists the lines of each text that the other text does not have.
fn difference(expected: &str, got: &str) -> String {
    let only = |text: &str, other: &str, who: &str| {
        let lines = text.lines().filter(|line| !other.lines().any(|other| other == *line));
        lines.map(|line| format!("\n  {who} {line}")).collect::<String>()
    };
    only(expected, got, "rank 0:") + &only(got, expected, "here:  ")
}
