//! A sweep of sizes, for each collective in each group.

use super::Rounds;
use super::ranks::{on_ranks, slowest};
use super::trial::Trial;
use crate::progress::{Console, Unit};
use crate::text::median;
use anyhow::Result;
use collectives::{Communicator, Label};
use serde::Serialize;
use spec::links::{GroupSpan, LinkModel, described};
use spec::placement::share;
use spec::program::Algorithm;
use spec::schedule::CollectiveKind;
use spec::topology::{LinkClass, Topology};
use std::fmt;
use std::time::Instant;
use training::Cluster;

/// Collectives, groups and sizes to measure.
#[derive(Debug)]
pub struct Sweep {
    pub topology: Topology,
    pub kinds: Vec<CollectiveKind>,
    /// Algorithms of all-reduces; other collectives are direct.
    pub algorithms: Vec<Algorithm>,
    pub spans: Vec<GroupSpan>,
    /// Bytes that a rank sends, or reduces, including those it keeps for itself.
    pub sizes: Vec<usize>,
    pub rounds: Rounds,
}

/// A collective in a group.
#[derive(Clone, Copy)]
struct Measured {
    kind: CollectiveKind,
    algorithm: Algorithm,
    span: GroupSpan,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", described(self.kind, self.algorithm), self.span)
    }
}

/// Measurements of one collective of one size in one group.
#[derive(Serialize)]
pub struct Point {
    pub collective: CollectiveKind,
    pub algorithm: Algorithm,
    pub group: GroupSpan,
    /// Ranks of each group.
    pub ranks: usize,
    pub bytes: usize,
    pub median_s: f64,
    pub min_s: f64,
    /// Algorithm bandwidth: bytes of a rank over the median time.
    pub algorithm_bytes_per_s: f64,
    /// Bus bandwidth: algorithm bandwidth times the bytes that cross a link for each byte of a rank, as NCCL's tests count it.
    pub bus_bytes_per_s: f64,
    /// Bytes between hosts, from all ranks, as the transport counted them.
    pub network_bytes: u64,
    /// Bytes of the longest message.
    pub message_bytes: usize,
    /// Number of messages that a rank sends to others.
    pub messages: usize,
}

/// Measurements of a sweep, and the latency and bandwidth fitted to them.
pub struct Swept {
    pub points: Vec<Point>,
    pub links: Vec<LinkModel>,
}

/// Measures a sweep on all ranks. The process of rank 0 gets the result.
pub fn run(sweep: &Sweep, cluster: &Cluster, console: Console) -> Result<Option<Swept>> {
    let largest = sweep.sizes.last().copied().unwrap_or(0) as u64;
    // What is sent, what arrives, blocks to be summed and their sum; to verify, both once more.
    on_ranks(cluster, sweep.topology, largest.saturating_mul(6), |world| sweep.on_rank(world, console))
}

impl Sweep {
    /// Measures on one rank. All ranks of the world must call it.
    pub fn on_rank(&self, world: &Communicator, console: Console) -> Result<Swept> {
        let measured: Vec<Measured> = self.measured().collect();
        let measurements = measured.len() * self.sizes.len();
        let console = console.of_rank(world.rank());
        let progress = console.progress("measuring collectives", measurements as u64, Unit::Count("sizes"));
        let (topology, label, rank) = (self.topology, Label::from("split"), world.rank());
        let (host, index) = (topology.host_of(rank), rank % topology.ranks_per_host());
        let (of_host, of_peers) = (world.split(&label, host, index)?, world.split(&label, index, host)?);
        let mut swept = Swept { points: Vec::with_capacity(measurements), links: Vec::new() };
        for each in measured {
            let Measured { kind, algorithm, span } = each;
            let group = match span {
                GroupSpan::World => world,
                GroupSpan::Host => &of_host,
                GroupSpan::Peers => &of_peers,
            };
            let first = swept.points.len();
            for &bytes in &self.sizes {
                swept.points.push(self.measure(world, group, each, bytes)?);
                progress.at(swept.points.len() as u64, &each.to_string());
            }
            let line = swept.points[first..].iter().map(|p| (p.bytes as f64, p.median_s));
            let line: Vec<(f64, f64)> = line.collect();
            let line = planning::fit::link(kind, span, group.size(), &line);
            swept.links.extend(line.map(|line| LinkModel { algorithm, ..line }));
        }
        Ok(swept)
    }

    /// What is measured at every size, in order.
    fn measured(&self) -> impl Iterator<Item = Measured> {
        self.kinds.iter().flat_map(move |&kind| {
            let algorithms = match kind {
                CollectiveKind::AllReduce => &self.algorithms,
                _ => &[Algorithm::Direct][..],
            };
            let of = move |&algorithm| self.spans.iter().map(move |&span| Measured { kind, algorithm, span });
            algorithms.iter().flat_map(of)
        })
    }

    fn measure(
        &self,
        world: &Communicator,
        group: &Communicator,
        each: Measured,
        bytes: usize,
    ) -> Result<Point> {
        let Measured { kind, algorithm, span } = each;
        let (measured, between) = (Label::from(each.to_string()), Label::from("between rounds"));
        let (elements, ranks) = (bytes / size_of::<f32>(), group.size());
        let mut trial = Trial::new(group, kind, algorithm, elements)?;
        trial.call(&measured)?;
        trial.verify()?;
        for _ in 0..self.rounds.warm_up {
            trial.call(&measured)?;
        }
        world.reset_meter();
        let mut times = Vec::with_capacity(self.rounds.measured);
        for _ in 0..self.rounds.measured {
            world.barrier(&between)?;
            let began = Instant::now();
            trial.call(&measured)?;
            times.extend(slowest(world, &between, &[began.elapsed().as_secs_f64()])?);
        }
        let meter = world.meter();
        let sent = meter.iter().find(|traffic| traffic.label == measured);
        let mut sent = [sent.map_or(0.0, |traffic| traffic.sent(LinkClass::Network) as f64)];
        world.all_reduce_f64(&between, &mut sent)?;
        let median_s = median(&mut times); // sorts them
        let algorithm_bytes_per_s = bytes as f64 / median_s;
        // An all-reduce is a reduce-scatter and an all-gather.
        let exchanges = if kind == CollectiveKind::AllReduce { 2 } else { 1 };
        let by_program = if algorithm == Algorithm::Direct { None } else { trial.sent() };
        let (messages, message_bytes) = by_program
            .unwrap_or((exchanges * (ranks - 1), size_of::<f32>() * share(elements, ranks, 0).len()));
        Ok(Point {
            collective: kind,
            algorithm,
            group: span,
            ranks,
            bytes,
            median_s,
            min_s: times[0],
            algorithm_bytes_per_s,
            bus_bytes_per_s: algorithm_bytes_per_s * (exchanges * (ranks - 1)) as f64 / ranks as f64,
            network_bytes: sent[0] as u64 / self.rounds.measured as u64,
            message_bytes,
            messages,
        })
    }
}
