//! Ranks as processes.

use crate::launch::{failed, panic_message};
use crate::progress::Rank;
use crate::transport::mpi::{Joined, Started, Watch};
use crate::{CollectiveError, Communicator, Failure, Options};
use kernels::{Device, KernelError};
use spec::topology::Topology;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What only ranks that are processes need to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiOptions {
    /// Whether hosts of the topology must be what MPI finds: processes that share memory. Without this check several
    /// hosts may be pretended on one machine.
    pub check_hosts: bool,
    /// The longest message in bytes, at most and by default 1 GiB: MPI counts in 31 bits. Longer ones go in pieces.
    pub piece: usize,
    /// What must be the same on all ranks, besides the topology and this crate's version: say, the configuration and the
    /// program's version, readable, because it is shown where it differs.
    pub identity: String,
}

impl Default for MpiOptions {
    /// Hosts are checked.
    fn default() -> Self {
        Self { check_hosts: true, piece: 1 << 30, identity: String::new() }
    }
}

/// This process's place in an MPI job.
///
/// Joining comes before launching, so that a process can find out which rank it is and what hosts there are, and let
/// rank 0 prepare something for all.
pub struct MpiJob(Joined);

impl MpiJob {
    /// Joins the job that `mpirun` (or another launcher) started this process in; started without one, the process is a
    /// job of its own. Once in the life of a process.
    ///
    /// With the right to `watch`, which [`watch_if_asked`](crate::watch_if_asked) gives, the process gets a watcher, which
    /// says where it was if it is killed.
    pub fn join(watch: Option<&Watch>) -> Result<Self, CollectiveError> {
        Joined::new(watch).map(Self)
    }

    /// Which rank this process is.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// Processes in the job.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Ranks that share memory with this one, itself included.
    pub fn ranks_here(&self) -> Vec<usize> {
        let lowest = &self.0.hosts;
        (0..self.size()).filter(|&rank| lowest[rank] == lowest[self.rank()]).collect()
    }

    /// The cluster as MPI sees it: processes that share memory are on one host. An error where hosts have different
    /// numbers of ranks, or ranks that do not follow each other.
    pub fn topology(&self) -> Result<Topology, CollectiveError> {
        let lowest = &self.0.hosts;
        let per_host = lowest.iter().take_while(|&&rank| rank == lowest[0]).count();
        let even = lowest.iter().enumerate().all(|(rank, &first)| first == rank / per_host * per_host);
        let topology = Topology::new(lowest.len() / per_host, per_host).ok();
        let uneven = || CollectiveError::UnevenHosts { lowest: lowest.clone() };
        topology.filter(|topology| even && topology.ranks() == lowest.len()).ok_or_else(uneven)
    }

    /// Runs `work` on rank 0 and, once that is done, on the others. Where it fails on rank 0 the others wait until the
    /// launcher ends them, so report the error and exit with it.
    pub fn first_rank_first<T, E: From<CollectiveError>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if self.rank() == 0 {
            let done = work()?;
            self.0.meet()?;
            return Ok(done);
        }
        self.0.meet()?;
        work()
    }

    /// Runs `body` as one rank of `topology`, and gives what it returned. All processes of the job call this, once;
    /// `device` is called with the rank.
    ///
    /// The first rank to fail ends all others, as in [`launch`](crate::launch()), and each of them gives the failure,
    /// with where every rank was that answered. MPI is then left unfinished, since not all may be there to finish it:
    /// report the failure and exit with an error, upon which the launcher (`mpirun`) ends whatever processes still run.
    /// A rank that does not notice for five seconds that the run has ended is ended with all others (`MPI_Abort`).
    pub fn launch<R, E>(
        &self,
        topology: Topology,
        options: &Options,
        mpi: &MpiOptions,
        device: impl FnOnce(usize) -> Result<Device, KernelError>,
        body: impl FnOnce(Communicator) -> Result<R, E>,
    ) -> Result<R, Failure>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let started = self.0.launch(topology, options.wait_limit, mpi);
        let started = started.map_err(|cause| Failure { cause, ranks: Vec::new() })?;
        let (rank, Started { transport, .. }) = (self.rank(), &started);
        let all = || -> Result<R, Box<dyn Error + Send + Sync>> {
            let device = device(rank)?;
            let this = Arc::new(Rank::new(rank, topology, device, transport.clone(), options.wait_limit));
            let result = body(Communicator::world(this.clone())).map_err(Into::into)?;
            this.drain()?;
            transport.leave()?;
            Ok(result)
        };
        // Nothing that the panic may have left half-done is looked at again: the run ends.
        let outcome = match catch_unwind(AssertUnwindSafe(all)) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(transport.fail(|host, phase| failed(rank, host, phase, &*error))),
            Err(panic) => {
                let message = panic_message(&*panic);
                Err(transport.fail(|host, phase| CollectiveError::Panicked { rank, host, phase, message }))
            }
        };
        started.close();
        outcome
    }
}

impl fmt::Debug for MpiJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} processes", self.rank(), self.size())
    }
}
