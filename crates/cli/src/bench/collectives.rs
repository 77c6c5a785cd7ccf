//! `campanile bench collectives`: times of collectives, as PARAM measures them (Neo, appendix A): a sweep of sizes, or the
//! replay of one step's collectives without its arithmetic.

mod file;
mod flight;
pub mod ranks;
mod replay;
mod replay_report;
pub mod sweep;
pub mod sweep_report;
mod trial;

use crate::cluster::{TransportArgs, agree_on, complete_topology, without_nccl};
use crate::logs::parse_bytes;
use crate::progress::Console;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use spec::links::GroupSpan;
use spec::program::Algorithm;
use spec::run::{Config, TopologyConfig};
use spec::schedule::CollectiveKind;
use spec::topology::Topology;
use std::path::PathBuf;
use sweep::Sweep;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    transport: TransportArgs,
    /// Number of hosts [default: 2]
    #[arg(long, value_name = "H", conflicts_with = "replay")]
    hosts: Option<usize>,
    /// Number of ranks on each host; a rank is one worker of the run: a thread, or a process with --transport mpi [default:
    /// 2]
    #[arg(long, value_name = "L", conflicts_with = "replay")]
    ranks_per_host: Option<usize>,
    /// Collectives to measure [default: all four]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "replay")]
    collectives: Vec<Kind>,
    /// Algorithm of the all-reduces: direct, ring, recursive-doubling or two-level [default: direct]
    #[arg(long, value_name = "ALGORITHM", conflicts_with = "replay")]
    all_reduce: Option<Algorithm>,
    /// Groups to measure them in: all ranks, those of a host, or those of equal index on all hosts [default: all three]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "replay")]
    groups: Vec<Over>,
    /// Smallest size: bytes that a rank sends, or reduces, in all [default: 1KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "replay")]
    from: Option<u64>,
    /// Largest size; each size is four times the one before [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "replay")]
    to: Option<u64>,
    /// Measure the collectives of one step instead, in the same order and sizes, from the output of `campanile schedule …
    /// --json` or schedule.json of a run folder
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Replay one collective at a time: wait for each before the next starts
    #[arg(long, requires = "replay")]
    serial: bool,
    /// Number of measurements of each collective; the time of the slowest rank counts
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 5)]
    warm_up: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Collectives by name.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// Every rank sends every rank something else
    AllToAll,
    /// Every rank gets the sum of all
    AllReduce,
    /// Every rank gets its part of the sum of all
    ReduceScatter,
    /// Every rank gets what every rank has
    AllGather,
}

/// Circles by name.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Over {
    /// All ranks
    World,
    /// Ranks of a host, on all hosts at once
    Host,
    /// Ranks of equal index on all hosts, for all indices at once
    Peers,
}

/// The largest size of a sweep.
const MAX_BYTES: u64 = 4 << 30;

/// Numbers of measurements.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub measured: usize,
    pub warm_up: usize,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let most = 1_000_000;
    ensure!((1..=most).contains(&args.rounds), "--rounds {}: use 1 to {most}", args.rounds);
    ensure!(args.warm_up <= most, "--warm-up {}: use at most {most}", args.warm_up);
    let rounds = Rounds { measured: args.rounds, warm_up: args.warm_up };
    without_nccl(&args.transport, args.all_reduce)?;
    let mut cluster = args.transport.join()?;
    if let Some(path) = &args.replay {
        let file = file::read(path)?;
        let written = crate::schedule::to_json(&file.schedule, file.run.batch, &file.config);
        agree_on(&mut cluster, &format!("replay, {rounds:?}, serial {}\n{written}", args.serial))?;
        let replayed = replay::run(&file, rounds, args.serial, &cluster, console)?;
        cluster.leave()?;
        return replayed.map_or(Ok(()), |replayed| replay_report::print(&file, &replayed, rounds, args.json));
    }
    let mut config = Config::default();
    (config.topology.hosts, config.topology.ranks_per_host) = (args.hosts, args.ranks_per_host);
    complete_topology(&cluster, &mut config)?;
    let sweep = args.sweep(rounds, &config.topology)?;
    agree_on(&mut cluster, &format!("{sweep:?}"))?;
    let swept = sweep::run(&sweep, &cluster, console)?;
    cluster.leave()?;
    swept.map_or(Ok(()), |swept| sweep_report::print(&sweep, &swept, args.json))
}

impl Args {
    /// The sweep that the flags describe, checked.
    fn sweep(&self, rounds: Rounds, cluster: &TopologyConfig) -> Result<Sweep> {
        let topology = Topology::new(cluster.hosts.unwrap_or(2), cluster.ranks_per_host.unwrap_or(2))?;
        let (from, to) = (self.from.unwrap_or(1 << 10), self.to.unwrap_or(16 << 20));
        ensure!(
            from >= 4 && from.is_multiple_of(4),
            "--from {from}: use a multiple of 4 bytes, the size of a float"
        );
        ensure!(from <= to, "--from {from} --to {to}: the smallest size is larger than the largest");
        ensure!(to <= MAX_BYTES, "--to {to}: use at most {MAX_BYTES} bytes per rank");
        let sizes = std::iter::successors(Some(from), |size| Some(4 * size)).take_while(|&size| size <= to);
        let kinds: Vec<CollectiveKind> = chosen(&self.collectives).into_iter().map(Kind::kind).collect();
        let mut spans: Vec<GroupSpan> = chosen(&self.groups).into_iter().map(Over::span).collect();
        // Among one rank nothing travels.
        spans.retain(|span| span.members(topology) > 1);
        ensure!(
            !spans.is_empty(),
            "{topology} ranks: no group that was requested has more than one rank; use more hosts or ranks"
        );
        ensure!(
            self.all_reduce.is_none() || kinds.contains(&CollectiveKind::AllReduce),
            "--all-reduce names the algorithm of all-reduces, and --collectives asks for none; leave --all-reduce out"
        );
        let algorithms = vec![self.all_reduce.unwrap_or_default()];
        let sizes = sizes.map(|size| size as usize).collect();
        Ok(Sweep { topology, kinds, algorithms, spans, sizes, rounds })
    }
}

/// The named values, in the order of `all`; everything where none is named.
fn chosen<T: ValueEnum + Copy + PartialEq>(named: &[T]) -> Vec<T> {
    T::value_variants().iter().copied().filter(|one| named.is_empty() || named.contains(one)).collect()
}

impl Kind {
    fn kind(self) -> CollectiveKind {
        match self {
            Kind::AllToAll => CollectiveKind::AllToAll,
            Kind::AllReduce => CollectiveKind::AllReduce,
            Kind::ReduceScatter => CollectiveKind::ReduceScatter,
            Kind::AllGather => CollectiveKind::AllGather,
        }
    }
}

impl Over {
    fn span(self) -> GroupSpan {
        match self {
            Over::World => GroupSpan::World,
            Over::Host => GroupSpan::Host,
            Over::Peers => GroupSpan::Peers,
        }
    }
}
