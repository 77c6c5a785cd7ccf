//! Launches ranks as processes of an MPI job.

use crate::launch::{failed, panic_message};
use crate::progress::Endpoint;
use crate::transport::mpi::{Joined, Mpi, Started, Watch};
use crate::transport::nccl::{NcclMover, Seat};
use crate::transport::staged::{Route, Staged};
use crate::transport::{Mover, Transport};
use crate::{CollectiveError, Communicator, Failure, Options};
use kernels::{Bytes, Device, KernelError, Nccl};
use spec::topology::Topology;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Options of a launch under MPI, in addition to [`Options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiOptions {
    /// Whether to check that the ranks of each host of the topology share memory according to MPI. Without the check one
    /// machine can stand for several hosts. Default: true.
    pub check_hosts: bool,
    /// Longest MPI message in bytes; longer data is sent in pieces of this size. Default and maximum: 1 GiB, since MPI
    /// counts in 31 bits.
    pub piece: usize,
    /// Text that must be the same on all ranks, besides the topology and the version of this crate: for example the
    /// configuration and the version of the program, one item per line. An error shows the lines that differ.
    pub identity: String,
    /// What moves memory of GPUs between ranks. Default: staged.
    pub device_memory: DeviceMemory,
}

/// What moves memory of GPUs between the ranks of an MPI job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceMemory {
    /// Through page-locked memory of the host, with any MPI library.
    #[default]
    Staged,
    /// By MPI itself, which must be built with CUDA: other MPI libraries crash when they read the address of a GPU.
    Direct,
    /// By NCCL, between ranks with a GPU each. MPI moves host memory, and what ranks need to find each other.
    Nccl,
}

impl Default for MpiOptions {
    /// Options that check hosts, send pieces of 1 GiB, have an empty identity and stage the memory of GPUs.
    fn default() -> Self {
        Self {
            check_hosts: true,
            piece: 1 << 30,
            identity: String::new(),
            device_memory: DeviceMemory::Staged,
        }
    }
}

/// Name and version of the MPI library that this program is linked with, in a line. May be asked for without joining a job.
pub fn mpi_library_version() -> String {
    let said = mpi::environment::library_version().unwrap_or_default().replace('\0', "");
    said.lines()
        .next()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .unwrap_or("of unknown version")
        .to_owned()
}

/// The MPI job that this process belongs to.
///
/// A process joins the job before it is launched as a rank, so that it can learn its rank and the hosts, and rank 0 can
/// prepare something for all ranks. The job may be launched several times, one after the other. A process that has nothing left
/// to do calls [`MpiJob::finish`]; after a failure it exits without that, with an error code.
pub struct MpiJob(Joined);

impl MpiJob {
    /// Joins the job in which `mpirun` (or another launcher) started this process. A process that was started without a
    /// launcher is a job of one rank. May be called once per process.
    ///
    /// With `watch`, which [`watch_if_asked`](crate::watch_if_asked) returns, the process gets a watcher: a second process
    /// that reports the last phase and collective of the rank if the rank is killed.
    pub fn join(watch: Option<&Watch>) -> Result<Self, CollectiveError> {
        Joined::new(watch).map(Self)
    }

    /// World rank of this process.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// Number of processes in the job.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Ranks that share memory with this one, this one included.
    pub fn ranks_here(&self) -> Vec<usize> {
        let lowest = &self.0.hosts;
        (0..self.size()).filter(|&rank| lowest[rank] == lowest[self.rank()]).collect()
    }

    /// Topology of the cluster according to MPI: processes that share memory are on one host. Fails with
    /// [`CollectiveError::UnevenHosts`] if hosts have different numbers of ranks, or ranks that are not consecutive.
    pub fn topology(&self) -> Result<Topology, CollectiveError> {
        let lowest = &self.0.hosts;
        let per_host = lowest.iter().take_while(|&&rank| rank == lowest[0]).count();
        let even = lowest.iter().enumerate().all(|(rank, &first)| first == rank / per_host * per_host);
        let topology = Topology::new(lowest.len() / per_host, per_host).ok();
        let uneven = || CollectiveError::UnevenHosts { lowest: lowest.clone() };
        topology.filter(|topology| even && topology.ranks() == lowest.len()).ok_or_else(uneven)
    }

    /// Runs `work` on rank 0 and, once that has succeeded, on the other ranks. If it fails on rank 0 the other ranks wait
    /// until the launcher ends them, so the caller should report the error and exit with an error code.
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

    /// Waits until all processes of the job have called this method, without a limit.
    pub fn meet(&self) -> Result<(), CollectiveError> {
        self.0.meet()
    }

    /// Returns the text that rank 0 has passed, on all ranks, once all processes of the job have called this method, without a
    /// limit. Texts of other ranks are ignored.
    pub fn first_text(&self, mine: &str) -> Result<String, CollectiveError> {
        self.0.first_text(mine)
    }

    /// Finalizes MPI once all processes of the job have called this method, without a limit.
    pub fn finish(self) -> Result<(), CollectiveError> {
        self.0.finish()
    }

    /// Runs `body` as one rank of `topology`, on the device that `device` makes for that rank, and returns the result. All
    /// processes of the job must call this method, and may do so again after a launch that succeeded.
    ///
    /// The first rank to fail ends all others, as in [`launch`](crate::launch()). Each rank returns the failure, with the
    /// status of every rank that answered. MPI is then not finalized, since some ranks may be gone: the caller should
    /// report the failure and exit with an error code, upon which the launcher (`mpirun`) ends all processes. A rank
    /// that does not notice the end of the run within 5 s is ended together with all others by `MPI_Abort`.
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
        // Kept until the cause of a failure is known to all: other ranks may notice when this one lets go of its transport.
        let mut kept = None;
        let all = || -> Result<R, Box<dyn Error + Send + Sync>> {
            let device = device(rank)?;
            let seat = Seat { rank, ranks: topology.ranks(), wait_limit: options.wait_limit };
            let connection = connection(transport, &device, mpi.device_memory, seat)?;
            let endpoint = Arc::new(Endpoint::new(rank, topology, device, connection, options.wait_limit));
            kept = Some(endpoint.clone());
            let result = body(Communicator::world(endpoint.clone())).map_err(Into::into)?;
            endpoint.drain()?;
            transport.leave()?;
            Ok(result)
        };
        // Values that the panic may have left half-changed are not used again: the run ends.
        let outcome = match catch_unwind(AssertUnwindSafe(all)) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(transport.fail(|host, phase| failed(rank, host, phase, &*error))),
            Err(panic) => {
                let message = panic_message(&*panic);
                Err(transport.fail(|host, phase| CollectiveError::Panicked { rank, host, phase, message }))
            }
        };
        drop(kept);
        self.0.close(started, outcome.is_ok());
        outcome
    }
}

/// Transport of a rank on this device.
fn connection(
    mpi: &Arc<Mpi>,
    device: &Device,
    device_memory: DeviceMemory,
    seat: Seat,
) -> Result<Transport, KernelError> {
    if Bytes::new(device.for_exchange()).is_on_host() {
        return Ok(Transport::of(mpi));
    }
    let staged = |route| -> Arc<dyn Mover> { Arc::new(Staged::new(mpi.clone(), mpi.clone(), route)) };
    let mover = match device_memory {
        DeviceMemory::Staged => staged(Route::Staged),
        DeviceMemory::Direct => staged(Route::Direct),
        DeviceMemory::Nccl => {
            Arc::new(NcclMover::new(mpi.clone(), mpi.clone(), Arc::new(Nccl::load()?), seat))
        }
    };
    Ok(Transport { control: mpi.clone(), mover })
}

impl fmt::Debug for MpiJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} processes", self.rank(), self.size())
    }
}
