//! Ranks of a command: `--transport`, and who reports a failure that all of them know.

use anyhow::{Error, Result, ensure};
pub use campanile::Transport;
use campanile::cluster::{self, ClusterError};
pub use campanile::cluster::{agree_on, complete_topology, report_once};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use spec::program::Algorithm;
use std::time::Duration;
use training::Cluster;

#[derive(clap::Args, Clone, Debug)]
pub struct TransportArgs {
    /// What connects the ranks: in-process (ranks are threads of this process), mpi (each rank is a process that mpirun started)
    /// or nccl (NCCL moves memory between ranks with a GPU each, which are processes if mpirun started this one, and else threads)
    #[arg(long, value_name = "HOW", default_value = "in-process", help_heading = "Cluster")]
    #[arg(value_parser = transports())]
    pub transport: Transport,
    /// Accept --hosts and --ranks-per-host even where MPI reports other hosts, to try a cluster on one machine
    #[arg(long, help_heading = "Cluster")]
    pub assume_hosts: bool,
}

fn transports() -> impl TypedValueParser<Value = Transport> {
    let named = |transport: Transport, help: &'static str| PossibleValue::new(transport.name()).help(help);
    PossibleValuesParser::new([
        named(Transport::InProcess, "Ranks are threads of this process"),
        named(Transport::Mpi, "Ranks are the processes of an MPI job"),
        named(
            Transport::Nccl,
            "NCCL moves memory between ranks with a GPU each: threads, or the processes of an MPI job",
        ),
    ])
    .try_map(|text| text.parse::<Transport>().map_err(Error::msg))
}

impl TransportArgs {
    /// Joins the job of this process, if it is to be one of several.
    pub fn join(&self) -> Result<Cluster> {
        Ok(cluster::join(self.transport, self.assume_hosts)?)
    }
}

/// Refuses NCCL for a command that measures ranks without GPUs.
pub fn without_nccl(transport: &TransportArgs, all_reduce: Option<Algorithm>) -> Result<()> {
    ensure!(
        transport.transport != Transport::Nccl,
        "--transport nccl joins ranks on GPUs, and this command measures ranks on CPUs; use in-process or mpi"
    );
    ensure!(
        all_reduce != Some(Algorithm::Nccl),
        "--all-reduce nccl needs ranks on GPUs, and this command measures ranks on CPUs; use another all-reduce, such as direct"
    );
    Ok(())
}

/// What `error` says of the ranks, if it is about them.
pub fn of_ranks(error: &Error) -> Option<&ClusterError> {
    match error.downcast_ref() {
        Some(campanile::Error::Cluster(error)) => Some(error),
        _ => error.downcast_ref(),
    }
}

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
