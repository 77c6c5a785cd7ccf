//! A schedule bound to a batch, as its busiest rank sees it.

use super::alike::Alike;
use super::{Compute, ComputeClass, Op, OperationName, Period, Reduction, StepGraph, Transfer, Work};
use spec::program::{Program, Units};
use spec::schedule::{Collective, CollectiveKind, Group, Operation, Phase, PhaseId, Schedule};
use spec::topology::LinkClass;
use spec::volume::{BatchSizes, Traffic};
use std::borrow::Cow;

impl StepGraph {
    /// The step of a schedule for a typical global batch of `batch` samples. Each phase has the volumes of the rank that is
    /// busiest in it, so an uneven placement shows.
    pub fn of_schedule(schedule: &Schedule, batch: usize) -> Self {
        let sizes = BatchSizes::typical(schedule.model(), schedule.placement(), batch);
        let bound = Bound {
            schedule,
            ranks: schedule.placement().topology().ranks(),
            exchanging: Alike::in_exchanges(schedule.deployment(), &sizes),
            computing: Alike::in_computations(schedule.deployment(), &sizes),
            sizes,
        };
        let operations =
            schedule.phases().iter().enumerate().map(|(i, phase)| bound.operation(PhaseId(i), phase));
        Self { samples: batch as f64, period: Period::Steady, operations: operations.collect() }
    }
}

/// A schedule and the sizes of its batch.
struct Bound<'a> {
    schedule: &'a Schedule,
    sizes: BatchSizes,
    ranks: usize,
    exchanging: Alike,
    computing: Alike,
}

impl Bound<'_> {
    fn operation(&self, id: PhaseId, phase: &Phase) -> Op {
        Op {
            label: OperationName { layer: None, action: Cow::Owned(phase.name.clone()) },
            lane: phase.lane,
            after: phase.after.clone(),
            ahead: phase.ahead,
            part: self.schedule.part(phase),
            work: match &phase.work {
                spec::schedule::Work::Compute(operation) => Work::Compute(self.compute(id, operation)),
                spec::schedule::Work::Collective(collective) => self.collective(collective),
            },
        }
    }

    fn compute(&self, id: PhaseId, operation: &Operation) -> Compute {
        let ranks = &self.computing.first;
        let most = |of: &dyn Fn(usize) -> u64| ranks.iter().map(|&rank| of(rank)).max().unwrap_or(0) as f64;
        // By FLOPs go matrix products, by bytes and ids go lookups and updates of tables.
        let class = match self.schedule.describe(operation).class.goes_by() {
            [true, ..] => ComputeClass::Gemm,
            [_, true, true] => ComputeClass::Embedding,
            _ => ComputeClass::Other,
        };
        Compute {
            class,
            flops: most(&|rank| self.schedule.flops(id, &self.sizes, rank)),
            bytes: most(&|rank| self.schedule.memory(id, &self.sizes, rank)),
            operand: 4.0,
        }
    }

    fn collective(&self, collective: &Collective) -> Work {
        let deployment = self.schedule.deployment();
        let topology = deployment.placement.topology();
        let groups = deployment.dataflow.sptt().map(|sptt| sptt.groups());
        let (hosts, per_host) = (topology.hosts(), topology.ranks_per_host());
        let (members, nodes) = match collective.group {
            Group::World => (topology.ranks(), hosts),
            Group::Host => (per_host, 1),
            Group::Across => (hosts, hosts),
            Group::Tower => groups.map_or((1, 1), |groups| (groups.size(), groups.hosts_per_group())),
            Group::Peers => groups.map_or((1, 1), |groups| (groups.count(), groups.count())),
        };
        let kind = collective.kind;
        match kind {
            CollectiveKind::AllToAll => {
                let (bytes, between_nodes) = self.busiest(&collective.traffic);
                Work::Transfer(Transfer { kind, members, nodes, bytes, between_nodes })
            }
            CollectiveKind::AllReduce => {
                let vector = |bytes| Transfer::of_vector(kind, members, nodes, bytes);
                Work::Reduction(Box::new(self.all_reduce(collective, vector)))
            }
            CollectiveKind::AllGather if matches!(collective.traffic, Traffic::ToCopies { .. }) => {
                // What all copies have, one behind another.
                let (deployment, traffic) = (self.schedule.deployment(), &collective.traffic);
                let block = |rank: usize| traffic.block(deployment, &self.sizes, rank, rank);
                let of_group = |rank: usize| traffic.receivers(deployment, rank).into_iter().map(block).sum();
                // The first rank of each group speaks for it.
                let firsts = groups.map_or(vec![0], |groups| groups.peers(0).collect());
                let bytes: u64 = firsts.into_iter().map(of_group).max().unwrap_or(0);
                Work::Transfer(Transfer::of_vector(kind, members, nodes, bytes as f64))
            }
            CollectiveKind::ReduceScatter | CollectiveKind::AllGather => {
                let (bytes, _) = self.busiest(&collective.traffic);
                // A rank's parts for all others are all but one of the vector's.
                let others = (members.max(2) - 1) as f64;
                let vector = Transfer::of_vector(kind, members, nodes, bytes * members as f64 / others);
                Work::Reduction(Box::new(self.scattered(collective, vector)))
            }
        }
    }

    /// All-reduce in the group whose vector is longest; `vector` describes a vector of so many encoded bytes.
    fn all_reduce(&self, collective: &Collective, vector: impl Fn(f64) -> Transfer) -> Reduction {
        let (deployment, traffic) = (self.schedule.deployment(), &collective.traffic);
        let length = |&rank: &usize| traffic.reduced(deployment, rank).map(|vector| vector.elements);
        let rank = (0..self.ranks).max_by_key(length).unwrap_or(0);
        let units = traffic.reduced(deployment, rank).map(|vector| vector.units(traffic.codec()));
        let units = units.unwrap_or_default();
        let hosts = self.hosts(&collective.members(deployment, rank));
        let Collective { algorithm, compensation, .. } = *collective;
        let program = |me| Program::all_reduce(algorithm, &units, &hosts, me, compensation);
        Reduction::new(vector(units.bytes(0..units.count()) as f64), &units, &hosts, program)
    }

    /// Reduce-scatter or all-gather of vectors in the group that has most of them.
    fn scattered(&self, collective: &Collective, vector: Transfer) -> Reduction {
        let (deployment, traffic) = (self.schedule.deployment(), &collective.traffic);
        let block = |from: usize, to: usize| traffic.block(deployment, &self.sizes, from, to) as usize;
        let rank = (0..self.ranks).max_by_key(|&rank| block(rank, rank)).unwrap_or(0);
        let shards = deployment.summed_by(rank).iter();
        let widths: Vec<usize> = shards.map(|shard| shard.columns.len()).collect();
        let sample = Units::of_vectors(traffic.codec(), &widths, 1);
        let of_sample = sample.bytes(0..sample.count()).max(1);
        let members = collective.members(deployment, rank);
        let (mut shares, mut end) = (Vec::with_capacity(members.len()), 0);
        for &member in &members {
            let bytes = match collective.kind {
                CollectiveKind::ReduceScatter => block(rank, member),
                _ => block(member, rank),
            };
            let begin = end;
            end += bytes / of_sample * sample.count();
            shares.push(begin..end);
        }
        let units = Units::of_vectors(traffic.codec(), &widths, end / sample.count().max(1));
        let program = |me| match collective.kind {
            CollectiveKind::ReduceScatter => Program::reduce_scatter(&units, &shares, me),
            _ => Program::all_gather(&units, &shares, me),
        };
        Reduction::new(vector, &units, &self.hosts(&members), program)
    }

    /// Hosts of ranks.
    fn hosts(&self, ranks: &[usize]) -> Vec<usize> {
        let topology = self.schedule.placement().topology();
        ranks.iter().map(|&rank| topology.host_of(rank)).collect()
    }

    /// Bytes of the rank that sends or receives most, and of the one that sends or receives most between hosts.
    fn busiest(&self, traffic: &Traffic) -> (f64, f64) {
        if let Traffic::ToHolders { .. } | Traffic::ToSamples { .. } = traffic {
            return self.busiest_of_world(traffic);
        }
        let deployment = self.schedule.deployment();
        let topology = deployment.placement.topology();
        let mut all = vec![(0u64, 0u64); self.ranks];
        let mut between = vec![(0u64, 0u64); self.ranks];
        for from in 0..self.ranks {
            for to in traffic.receivers(deployment, from) {
                let bytes = traffic.between(deployment, &self.sizes, from, to);
                let away = if topology.link(from, to) == LinkClass::Network { bytes } else { 0 };
                all[from].0 += bytes;
                all[to].1 += bytes;
                between[from].0 += away;
                between[to].1 += away;
            }
        }
        let most =
            |loads: Vec<(u64, u64)>| loads.into_iter().map(|(out, into)| out.max(into)).max().unwrap_or(0);
        (most(all) as f64, most(between) as f64)
    }

    /// The same where every rank sends to every other: what goes between two classes is counted once for all their pairs.
    fn busiest_of_world(&self, traffic: &Traffic) -> (f64, f64) {
        let deployment = self.schedule.deployment();
        let topology = deployment.placement.topology();
        let Alike { class_of, first, count } = &self.exchanging;
        let block = |from: usize, to: usize| traffic.block(deployment, &self.sizes, from, to);
        // By class: what a rank has for all ranks, and gets from all, itself included. A rank may keep ids that it sends to no
        // other rank of its class.
        let (mut out, mut into) = (vec![0u64; first.len()], vec![0u64; first.len()]);
        for (c, &from) in first.iter().enumerate() {
            for (d, &to) in first.iter().enumerate() {
                if c == d {
                    let other = (from + 1..self.ranks).find(|&rank| class_of[rank] == c);
                    let others = other.map_or(0, |other| (count[c] - 1) * block(from, other));
                    out[c] += block(from, from) + others;
                    into[c] += block(from, from) + others;
                    continue;
                }
                let bytes = block(from, to);
                out[c] += count[d] * bytes;
                into[d] += count[c] * bytes;
            }
        }
        let (mut all, mut between) = (0, 0);
        for host in 0..topology.hosts() {
            let mates: Vec<usize> = topology.ranks_of(host).collect();
            for &rank in &mates {
                let (out, into, own) = (out[class_of[rank]], into[class_of[rank]], block(rank, rank));
                all = all.max(out - own).max(into - own);
                let inside: (u64, u64) = (
                    mates.iter().map(|&mate| block(rank, mate)).sum(),
                    mates.iter().map(|&mate| block(mate, rank)).sum(),
                );
                between = between.max(out - inside.0).max(into - inside.1);
            }
        }
        (all as f64, between as f64)
    }
}
