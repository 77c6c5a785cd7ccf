//! Cluster of a run: ranks that are threads of this process, or processes of an MPI job.

use collectives::{CollectiveError, Communicator, Failure, Options, launch, launch_over_nccl};
#[cfg(feature = "mpi")]
use collectives::{DeviceMemory, MpiJob, MpiOptions};
use kernels::{Device, KernelError};
use spec::run::Run;
use spec::topology::Topology;
use std::error::Error;
#[cfg(feature = "mpi")]
use std::sync::Arc;

/// Where the ranks of a run are, and how they communicate. Clones share the MPI job.
#[derive(Clone, Debug, Default)]
pub enum Cluster {
    /// All ranks are threads of this process.
    #[default]
    Threads,
    /// All ranks are threads of this process with a GPU each, between which NCCL moves memory.
    NcclThreads,
    /// This process is one rank of an MPI job.
    #[cfg(feature = "mpi")]
    Processes {
        /// MPI job that this process has joined.
        job: Arc<MpiJob>,
        /// Options of the MPI job.
        options: MpiOptions,
    },
}

impl Cluster {
    /// Whether all ranks are threads of this process.
    pub fn is_one_process(&self) -> bool {
        matches!(self, Cluster::Threads | Cluster::NcclThreads)
    }

    /// Whether NCCL moves memory between the GPUs of the ranks.
    pub fn uses_nccl(&self) -> bool {
        match self {
            Cluster::Threads => false,
            Cluster::NcclThreads => true,
            #[cfg(feature = "mpi")]
            Cluster::Processes { options, .. } => options.device_memory == DeviceMemory::Nccl,
        }
    }

    /// Whether rank 0 is here: whoever has it reports for all.
    pub fn has_first_rank(&self) -> bool {
        match self {
            Cluster::Threads | Cluster::NcclThreads => true,
            #[cfg(feature = "mpi")]
            Cluster::Processes { job, .. } => job.rank() == 0,
        }
    }

    /// World rank of this process, where a process is one rank; `None` where all ranks are here.
    pub(crate) fn own_rank(&self) -> Option<usize> {
        match self {
            Cluster::Threads | Cluster::NcclThreads => None,
            #[cfg(feature = "mpi")]
            Cluster::Processes { job, .. } => Some(job.rank()),
        }
    }

    /// Ranks that share this machine, whatever hosts are pretended.
    pub fn ranks_here(&self, topology: Topology) -> Vec<usize> {
        match self {
            Cluster::Threads | Cluster::NcclThreads => (0..topology.ranks()).collect(),
            #[cfg(feature = "mpi")]
            Cluster::Processes { job, .. } => {
                job.ranks_here().into_iter().filter(|&rank| rank < topology.ranks()).collect()
            }
        }
    }

    /// Ends the use of the ranks after a success on all of them. The last clone of an MPI job to leave waits for all ranks and
    /// finalizes MPI, without which `mpirun` reports an error. After a failure a process exits without leaving, since the other
    /// ranks may be gone.
    pub fn leave(self) -> Result<(), CollectiveError> {
        match self {
            Cluster::Threads | Cluster::NcclThreads => Ok(()),
            #[cfg(feature = "mpi")]
            Cluster::Processes { job, .. } => Arc::into_inner(job).map_or(Ok(()), MpiJob::finish),
        }
    }

    /// Runs `body` on every rank that lives in this process, each on the device that `devices` makes for it, and gives
    /// what they returned: the results of all ranks where they are threads, else that of this process's rank. Ranks may be
    /// launched several times, one launch after the other.
    pub fn launch<T: Send, E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        topology: Topology,
        options: &Options,
        devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
        body: impl Fn(Communicator) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, Box<Failure>> {
        match self {
            Cluster::Threads => launch(topology, options, devices, body),
            Cluster::NcclThreads => launch_over_nccl(topology, options, devices, body),
            #[cfg(feature = "mpi")]
            Cluster::Processes { job, options: mpi } => {
                job.launch(topology, options, mpi, devices, body).map(|result| vec![result])
            }
        }
        .map_err(Box::new)
    }
}

/// Threads of each rank: as the run says, or the machine's cores shared out.
pub fn threads(run: &Run, cluster: &Cluster) -> usize {
    run.threads.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / cluster.ranks_here(run.topology()).len().max(1)).max(1)
    })
}
