//! Where the ranks of a command live: `--transport`.

#[cfg(feature = "mpi")]
use anyhow::Context;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use spec::run::Config;
use std::fmt;
use std::time::Duration;
use training::Cluster;

#[derive(clap::Args, Clone, Debug)]
pub struct TransportArgs {
    /// What joins the ranks: in-process (they are threads of this process) or mpi (each is a process that mpirun started)
    #[arg(long, value_enum, value_name = "HOW", default_value = "in-process", help_heading = "Cluster")]
    pub transport: Transport,
    /// Take --hosts and --ranks-per-host as given, even where MPI finds other hosts: pretends a cluster on one machine
    #[arg(long, help_heading = "Cluster")]
    pub assume_hosts: bool,
}

/// What joins ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Ranks are threads of this process
    InProcess,
    /// Ranks are the processes of an MPI job
    Mpi,
}

/// This process's place among the ranks, before they are launched.
pub struct Place {
    #[cfg(feature = "mpi")]
    job: Option<collectives::MpiJob>,
    #[cfg(feature = "mpi")]
    assume_hosts: bool,
}

impl TransportArgs {
    /// Joins the job of this process, if it is to be one of several.
    pub fn join(&self) -> Result<Place> {
        ensure!(
            self.transport == Transport::Mpi || !self.assume_hosts,
            "--assume-hosts is about what MPI finds; it needs --transport mpi"
        );
        #[cfg(feature = "mpi")]
        return Ok(Place {
            job: match self.transport {
                Transport::InProcess => None,
                Transport::Mpi => {
                    // Such a process is no watcher: `main` would not have come here.
                    let watch = collectives::watch_if_asked();
                    Some(collectives::MpiJob::join(Some(&watch)).context("joining the MPI job")?)
                }
            },
            assume_hosts: self.assume_hosts,
        });
        #[cfg(not(feature = "mpi"))]
        {
            ensure!(
                self.transport == Transport::InProcess,
                "this campanile was built without MPI; with the packages openmpi-bin, libopenmpi-dev and libclang-dev \
                 (or their like), build it with: cargo build --release --features mpi"
            );
            Ok(Place {})
        }
    }
}

#[cfg(feature = "mpi")]
impl Place {
    /// Whether ranks are processes.
    pub fn is_distributed(&self) -> bool {
        self.job.is_some()
    }

    /// Whether this process reports for all.
    pub fn has_first_rank(&self) -> bool {
        self.job.as_ref().is_none_or(|job| job.rank() == 0)
    }

    /// Completes what `config` says of the topology by what MPI finds.
    pub fn complete_topology(&self, config: &mut Config) -> Result<()> {
        let (Some(job), topology) = (&self.job, &mut config.topology) else { return Ok(()) };
        if topology.hosts.is_some() && topology.ranks_per_host.is_some() {
            // Checked at the launch, unless it is to be assumed.
            return Ok(());
        }
        let found = job.topology()?;
        let hosts = topology.hosts.unwrap_or(found.hosts());
        let ranks = topology.ranks_per_host.unwrap_or(found.ranks_per_host());
        ensure!(
            (hosts, ranks) == (found.hosts(), found.ranks_per_host()),
            "MPI finds {found} (hosts × ranks), but {hosts} × {ranks} was asked for; start as many processes on each host, or \
             pretend with --assume-hosts and both --hosts and --ranks-per-host"
        );
        (topology.hosts, topology.ranks_per_host) = (Some(hosts), Some(ranks));
        Ok(())
    }

    /// Runs `work` on rank 0 first, and then on the others.
    pub fn first_rank_first<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.job {
            None => work(),
            Some(job) => job.first_rank_first(work),
        }
    }

    /// The ranks, which must all have been started with what `identity` says, line by line.
    pub fn cluster(self, identity: &str) -> Result<Cluster> {
        let Some(job) = self.job else { return Ok(Cluster::Threads) };
        let identity = format!("{}\n{identity}", executable()?);
        let check_hosts = !self.assume_hosts;
        let options = collectives::MpiOptions { check_hosts, identity, ..Default::default() };
        Ok(Cluster::Processes { job, options })
    }
}

#[cfg(not(feature = "mpi"))]
impl Place {
    pub fn is_distributed(&self) -> bool {
        false
    }

    pub fn has_first_rank(&self) -> bool {
        true
    }

    pub fn complete_topology(&self, _: &mut Config) -> Result<()> {
        Ok(())
    }

    pub fn first_rank_first<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work()
    }

    pub fn cluster(self, _: &str) -> Result<Cluster> {
        Ok(Cluster::Threads)
    }
}

/// This program, so that another build of the same version is told from it.
#[cfg(feature = "mpi")]
fn executable() -> Result<String> {
    // The file that runs, even where another has taken its place since.
    let path = "/proc/self/exe";
    let bytes = std::fs::read(path).with_context(|| format!("{path}: cannot be read"))?;
    Ok(format!("campanile {}, executable {:08x}", env!("CARGO_PKG_VERSION"), crc32c::crc32c(&bytes)))
}

/// A failure that another rank's process reports.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))]
#[derive(Debug)]
pub struct ReportedElsewhere;

impl fmt::Display for ReportedElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another rank reports why the run ended")
    }
}

impl std::error::Error for ReportedElsewhere {}

/// Keeps this process until the one that reports has done so: the launcher ends all others as soon as one exits with an
/// error, so the reporter is the first to exit.
pub fn leave_time_to_report() {
    std::thread::sleep(Duration::from_secs(3));
}

/// How long a rank other than the first keeps an error to itself. Errors before the launch are mostly those of all ranks:
/// the first reports its own and exits, upon which the launcher ends the others. Whoever still lives then has an error of
/// its own to report.
const FIRST_RANK_REPORTS: Duration = Duration::from_secs(6);

/// Variables by which launchers tell a process its rank: Open MPI, MPICH and Slurm.
const RANK_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Lets the first rank of a job report an error that the others may share. Returns at once on the first rank, and in a
/// process that no launcher started.
pub fn let_first_rank_report() {
    let rank = RANK_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
    if rank.is_some_and(|rank| rank != "0") {
        std::thread::sleep(FIRST_RANK_REPORTS);
    }
}

/// A failure that this process reports for all ranks, at once.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))]
#[derive(Debug)]
pub struct ReportedForAll(training::Error);

impl fmt::Display for ReportedForAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ReportedForAll {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Leaves the report of a failure that all ranks know to one of them.
pub fn report_once(cluster: &Cluster, error: training::Error) -> anyhow::Error {
    match (cluster, &error) {
        #[cfg(feature = "mpi")]
        (Cluster::Processes { job, .. }, training::Error::Failure(failure)) => {
            match reports(job.rank(), failure) {
                true => ReportedForAll(error).into(),
                false => ReportedElsewhere.into(),
            }
        }
        _ => error.into(),
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
