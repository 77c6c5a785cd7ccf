//! Ranks as threads of this process or as processes of an MPI job: joining them, and reporting their failures once.

use crate::control::Control;
use serde::Serialize;
use serde::de::DeserializeOwned;
use spec::run::{AllReduce, Config};
pub use spec::transport::Transport;
use training::Cluster;

/// Reason why the ranks cannot be launched, or which rank reports the failure.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Hosts are to be assumed where nothing finds any.
    #[error(
        "--assume-hosts replaces the hosts that MPI finds, so it needs --transport mpi, or nccl in a process that mpirun started"
    )]
    AssumedHosts,
    /// A build without MPI.
    #[error(
        "this campanile was built without MPI; with the packages openmpi-bin, libopenmpi-dev and libclang-dev \
         (or their like), build it with: cargo build --release --features mpi"
    )]
    NoMpi,
    /// The MPI job cannot be joined.
    #[error("this process cannot join the MPI job")]
    Join(#[source] collectives::CollectiveError),
    /// A collective that failed before the launch.
    #[error(transparent)]
    Collective(#[from] collectives::CollectiveError),
    /// A cluster that is not the one that MPI finds.
    #[error(
        "MPI finds {found} (hosts × ranks), but {hosts} × {ranks} was requested; start that many processes on each host, \
         or pretend with --assume-hosts and both --hosts and --ranks-per-host"
    )]
    OtherHosts {
        /// The cluster that MPI finds.
        found: spec::topology::Topology,
        /// Hosts asked for.
        hosts: usize,
        /// Ranks on each host asked for.
        ranks: usize,
    },
    /// The program itself cannot be read, to tell builds apart.
    #[error("{path}: cannot be read")]
    Executable {
        /// The program.
        path: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// What one rank found out cannot be told to the others.
    #[error("what rank 0 decides cannot be told to the other ranks")]
    Told(#[source] serde_json::Error),
    /// A failure that another rank's process reports.
    #[error("another rank reports why the run ended")]
    ReportedElsewhere,
    /// A failure that this process reports for all ranks.
    #[error(transparent)]
    ReportedForAll(training::Error),
    /// A failure of ranks that are all in this process.
    #[error(transparent)]
    Failed(training::Error),
}

/// Variables by which launchers of MPI jobs tell a process its rank: those of Open MPI, of MPICH, and of what uses PMIx.
const LAUNCHED: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// Joins the job of this process, if it is to be one of several. NCCL joins the processes of an MPI job, if a launcher started this
/// one, and otherwise threads of this process. With `assume_hosts`, hosts are not compared with those that MPI finds.
pub fn join(transport: Transport, assume_hosts: bool) -> Result<Cluster, ClusterError> {
    let launched = LAUNCHED.iter().any(|name| std::env::var_os(name).is_some());
    match transport {
        Transport::InProcess if assume_hosts => Err(ClusterError::AssumedHosts),
        Transport::InProcess => Ok(Cluster::Threads),
        Transport::Nccl if !launched && assume_hosts => Err(ClusterError::AssumedHosts),
        Transport::Nccl if !launched => Ok(Cluster::NcclThreads),
        #[cfg(feature = "mpi")]
        Transport::Mpi | Transport::Nccl => {
            // A process that gets here is no watcher: `watch_if_asked` does not return in a watcher.
            let watch = collectives::watch_if_asked();
            let job = collectives::MpiJob::join(Some(&watch)).map_err(ClusterError::Join)?;
            let device_memory = match transport {
                Transport::Nccl => collectives::DeviceMemory::Nccl,
                _ => collectives::DeviceMemory::default(),
            };
            let options =
                collectives::MpiOptions { check_hosts: !assume_hosts, device_memory, ..Default::default() };
            Ok(Cluster::Processes { job: job.into(), options })
        }
        #[cfg(not(feature = "mpi"))]
        Transport::Mpi | Transport::Nccl => Err(ClusterError::NoMpi),
    }
}

/// Becomes the watcher of a rank and does not return, if a rank of an MPI job started this process as one. To be called first
/// in `main` by programs whose ranks are processes.
pub fn watch_if_asked() {
    #[cfg(feature = "mpi")]
    collectives::watch_if_asked();
}

/// Name and version of the MPI library that this program is linked with; `None` in a build without MPI.
pub fn mpi_library() -> Option<String> {
    #[cfg(feature = "mpi")]
    return Some(collectives::mpi_library_version());
    #[cfg(not(feature = "mpi"))]
    None
}

/// Refuses a device or a transport that this machine does not have, or that lacks the precision, before logs are prepared for a run
/// on it. `what` names the run in errors.
pub(crate) fn check_device(config: &Config, cluster: &Cluster, what: &str) -> Result<(), crate::Error> {
    let check = || {
        let (device, precision) = config.train.check_device()?;
        training::check_transport(cluster, training::resolve_device(device, &precision)?)
    };
    check().map_err(|source| crate::Error::Run { what: what.to_owned(), source })
}

/// Refuses gradients that NCCL shall add up where it does not join the ranks, before logs are prepared.
pub(crate) fn check_all_reduce(config: &Config, cluster: &Cluster, what: &str) -> Result<(), crate::Error> {
    let Some(AllReduce::By(algorithm)) = config.train.all_reduce else { return Ok(()) };
    training::check_all_reduce(cluster, algorithm)
        .map_err(|source| crate::Error::Run { what: what.to_owned(), source })
}

/// Whether ranks are processes.
pub fn is_distributed(cluster: &Cluster) -> bool {
    !cluster.is_one_process()
}

/// Completes what `config` says of the topology by what MPI finds.
pub fn complete_topology(cluster: &Cluster, config: &mut Config) -> Result<(), ClusterError> {
    match cluster {
        Cluster::Threads | Cluster::NcclThreads => {
            let _ = config;
            Ok(())
        }
        #[cfg(feature = "mpi")]
        Cluster::Processes { job, .. } => {
            let topology = &mut config.topology;
            if topology.hosts.is_some() && topology.ranks_per_host.is_some() {
                // Checked at the launch, unless it is to be assumed.
                return Ok(());
            }
            let found = job.topology()?;
            let hosts = topology.hosts.unwrap_or(found.hosts());
            let ranks = topology.ranks_per_host.unwrap_or(found.ranks_per_host());
            if (hosts, ranks) != (found.hosts(), found.ranks_per_host()) {
                return Err(ClusterError::OtherHosts { found, hosts, ranks });
            }
            (topology.hosts, topology.ranks_per_host) = (Some(hosts), Some(ranks));
            Ok(())
        }
    }
}

/// Runs `work` on rank 0 first, and then on the others.
pub fn first_rank_first<T, E: From<collectives::CollectiveError>>(
    cluster: &Cluster,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    match cluster {
        Cluster::Threads | Cluster::NcclThreads => work(),
        #[cfg(feature = "mpi")]
        Cluster::Processes { job, .. } => job.first_rank_first(work),
    }
}

/// Runs `work` on rank 0 alone, and gives all ranks its result. Where it fails, the other ranks wait until the launcher ends them:
/// the caller reports the error and exits.
pub(crate) fn by_first_rank<T: Serialize + DeserializeOwned, E: From<ClusterError>>(
    cluster: &Cluster,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    match cluster {
        Cluster::Threads | Cluster::NcclThreads => work(),
        #[cfg(feature = "mpi")]
        Cluster::Processes { job, .. } if job.rank() == 0 => {
            let found = work()?;
            let text = serde_json::to_string(&found).map_err(ClusterError::Told)?;
            job.first_text(&text).map_err(ClusterError::from)?;
            Ok(found)
        }
        #[cfg(feature = "mpi")]
        Cluster::Processes { job, .. } => {
            let text = job.first_text("").map_err(ClusterError::from)?;
            Ok(serde_json::from_str(&text).map_err(ClusterError::Told)?)
        }
    }
}

/// Waits until all ranks have come here.
pub(crate) fn meet(cluster: &Cluster) -> Result<(), collectives::CollectiveError> {
    match cluster {
        Cluster::Threads | Cluster::NcclThreads => Ok(()),
        #[cfg(feature = "mpi")]
        Cluster::Processes { job, .. } => job.meet(),
    }
}

/// The caller's hold on work of all ranks: one process alone tells what happens.
pub(crate) fn control_of(cluster: &Cluster, control: &Control) -> Control {
    if cluster.has_first_rank() { control.clone() } else { control.silent() }
}

/// Lets all ranks compare what they were started with before they are launched: this program, and `identity`, line by line.
pub fn agree_on(cluster: &mut Cluster, identity: &str) -> Result<(), ClusterError> {
    match cluster {
        Cluster::Threads | Cluster::NcclThreads => {
            let _ = identity;
        }
        #[cfg(feature = "mpi")]
        Cluster::Processes { options, .. } => options.identity = format!("{}\n{identity}", executable()?),
    }
    Ok(())
}

/// Identity of this executable, which differs between builds of the same version.
#[cfg(feature = "mpi")]
fn executable() -> Result<String, ClusterError> {
    // The file that runs, even where another has taken its place since.
    let path = "/proc/self/exe";
    let bytes = std::fs::read(path).map_err(|source| ClusterError::Executable { path, source })?;
    Ok(format!("campanile {}, executable {:08x}", env!("CARGO_PKG_VERSION"), crc32c::crc32c(&bytes)))
}

/// Leaves the report of a failure that all ranks know to one of them.
pub fn report_once(cluster: &Cluster, error: training::Error) -> ClusterError {
    match (cluster, &error) {
        #[cfg(feature = "mpi")]
        (Cluster::Processes { job, .. }, training::Error::Failure(failure)) => {
            match reports(job.rank(), failure) {
                true => ClusterError::ReportedForAll(error),
                false => ClusterError::ReportedElsewhere,
            }
        }
        _ => ClusterError::Failed(error),
    }
}

/// Whether `rank` is the one: the lowest that answers, of those that are not busy computing, since the launcher may end
/// these before they notice.
#[cfg(feature = "mpi")]
fn reports(rank: usize, failure: &collectives::Failure) -> bool {
    use collectives::{Activity, CollectiveError, RankStatus};
    let answer = || failure.ranks.iter().filter(|status| status.answers);
    let heeds = |status: &&RankStatus| matches!(status.activity, Activity::Waiting(_) | Activity::Failed);
    match answer().find(heeds).or(answer().next()) {
        Some(first) => first.rank == rank,
        // Refused at the start: whoever was not started as the others says how.
        None => !matches!(failure.cause, CollectiveError::Elsewhere { .. }),
    }
}
