//! What a step takes by what was measured: a schedule priced by a [`MachineRates`].
//!
//! A computation takes what the ranks of a machine need for it together, on the cores they share, and no less than the busiest
//! of them alone. A collective takes the time of its line. From there
//!
//! ```text
//! step = stretch · max( serial − overlap · (serial − critical path), all that cores have to do )
//! ```
//!
//! where `overlap` says how much of what computation could hide it did hide when it was measured: where ranks keep all cores
//! busy, next to nothing. Reading ahead takes cores, but nobody waits for it. On a GPU the phases that work on the next batch have a
//! queue of their own beside the computations, which are measured while they run: a step is no shorter than these phases.

use crate::simulator::Simulation;
use crate::step::StepGraph;
use crate::system::{Device, Link, NVME, System};
use crate::{Links, Timeline};
use spec::links::{GroupSpan, LinkModel};
use spec::machine_rates::{Amount, Class, MachineRates, MachineRatesError, OperationModel};
use spec::program::Algorithm;
use spec::schedule::{Collective, Group, PhaseId, Schedule, Work};
use spec::topology::LinkClass;
use spec::transport::Transport;
use spec::volume::BatchSizes;

/// A step and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    /// Seconds of each phase alone.
    pub seconds: Vec<f64>,
    /// Seconds of a step in which nothing overlaps.
    pub serial_s: f64,
    /// Seconds of a step in which all overlaps that can: the critical path, with a wire that collectives share.
    pub critical_s: f64,
    /// Seconds that the busiest machine's cores, or GPUs, need for all that they do, and no less than what a GPU does beside.
    pub cores_s: f64,
}

impl Priced {
    /// Seconds of a step where so much of what can be hidden is, and steps take so many times what is accounted for.
    pub fn step_s(&self, overlap: f64, stretch: f64) -> f64 {
        let hideable = (self.serial_s - self.critical_s).max(0.0);
        stretch * (self.serial_s - overlap * hideable).max(self.cores_s)
    }
}

/// Prices a step.
pub fn price(
    calibration: &MachineRates,
    schedule: &Schedule,
    sizes: &BatchSizes,
) -> Result<Priced, MachineRatesError> {
    let topology = schedule.placement().topology();
    let MachineRates { hosts, ranks_per_host, .. } = *calibration;
    if (hosts, ranks_per_host) != (topology.hosts(), topology.ranks_per_host()) {
        return Err(MachineRatesError::Ranks { hosts, ranks_per_host, step: topology });
    }
    let machines = Machines { calibration, ranks: topology.ranks() };
    let on_gpu = calibration.gpu.is_some();
    let mut seconds = Vec::with_capacity(schedule.phases().len());
    let (mut computed, mut communicated, mut beside) = (vec![0.0; machines.count()], 0.0, 0.0);
    for (i, phase) in schedule.phases().iter().enumerate() {
        let id = PhaseId(i);
        seconds.push(match &phase.work {
            Work::Collective(_) => {
                let taken = collective_seconds(&calibration.links, schedule, id, sizes)?;
                communicated += taken;
                taken
            }
            Work::Compute(operation) => {
                let class = schedule.describe(operation).class;
                let Some(rates) = calibration.operation(class) else {
                    // Older calibrations have it in the time of the loss.
                    if class == Class::ReadBack {
                        seconds.push(0.0);
                        continue;
                    }
                    return Err(MachineRatesError::Class { class, phase: phase.name.clone() });
                };
                let of_rank = |rank| rates.seconds(&Amount::of(schedule, id, sizes, rank));
                if on_gpu && phase.ahead {
                    beside += machines.slowest(&of_rank);
                    seconds.push(0.0);
                    continue;
                }
                machines.add(&mut computed, &of_rank);
                machines.slowest(&of_rank)
            }
        });
    }
    if let Some(rates) = calibration.operation(Class::ReadAhead).filter(|_| !on_gpu) {
        machines.add(&mut computed, &|rank| rates.seconds(&Amount::read_ahead(schedule, sizes, rank)));
    }
    let copied = if calibration.transport == Transport::InProcess { communicated } else { 0.0 };
    let timeline = Timeline::new(schedule, &seconds, Links::Shared);
    Ok(Priced {
        serial_s: timeline.serial_s(),
        critical_s: timeline.step_s,
        cores_s: (copied + computed.into_iter().fold(0.0, f64::max)).max(beside),
        seconds,
    })
}

/// The step that a calibration predicts, in seconds.
pub fn step_s(
    calibration: &MachineRates,
    schedule: &Schedule,
    sizes: &BatchSizes,
) -> Result<f64, MachineRatesError> {
    let priced = price(calibration, schedule, sizes)?;
    Ok(priced.step_s(calibration.overlap, calibration.stretch))
}

/// The cluster that was measured, as far as that says: its ranks, and the fastest rates seen. A rank has so much memory.
pub fn system(name: &str, calibration: &MachineRates, memory_bytes: f64) -> System {
    let fastest = |of: &dyn Fn(&OperationModel) -> Option<f64>| {
        calibration.operations.iter().filter_map(of).fold(1.0, f64::max)
    };
    let over = |span: GroupSpan| {
        let links = calibration.links.iter().filter(|link| link.group == span);
        Link { bytes_per_s: links.map(|link| link.bytes_per_s).fold(1.0, f64::max), util: 1.0 }
    };
    System {
        name: name.into(),
        nodes: calibration.hosts,
        devices_per_node: calibration.ranks_per_host,
        device: Device {
            f64_flops: 0.0,
            f32_flops: fastest(&|operation| operation.flops_per_s),
            f16_flops: 0.0,
            i8_ops: 0.0,
            flops_util: 1.0,
            memory_bytes,
            memory_bytes_per_s: fastest(&|operation| operation.bytes_per_s),
            memory_util: 1.0,
        },
        intra: over(GroupSpan::Host),
        inter: over(GroupSpan::Peers),
        all_reduce_intra_share: 0.0,
        storage_bytes_per_s: NVME,
    }
}

/// A step of a schedule as a calibration predicts it: its phases on their lanes, so that the step takes what is predicted.
pub fn simulate(
    calibration: &MachineRates,
    schedule: &Schedule,
    batch: usize,
) -> Result<(StepGraph, Simulation), MachineRatesError> {
    let sizes = BatchSizes::typical(schedule.model(), schedule.placement(), batch);
    let priced = price(calibration, schedule, &sizes)?;
    // What ranks wait for cores, and what no phase accounts for, is spread over all phases alike.
    let stretched = match priced.critical_s {
        0.0 => 1.0,
        critical_s => priced.step_s(calibration.overlap, calibration.stretch) / critical_s,
    };
    let seconds: Vec<f64> = priced.seconds.iter().map(|seconds| stretched * seconds).collect();
    let timeline = Timeline::new(schedule, &seconds, Links::Shared);
    let step = StepGraph::of_schedule(schedule, batch);
    let simulation = Simulation::of(&step, seconds, timeline, true);
    Ok((step, simulation))
}

/// Ranks by the machine they share.
struct Machines<'a> {
    calibration: &'a MachineRates,
    ranks: usize,
}

impl Machines<'_> {
    fn count(&self) -> usize {
        self.ranks.div_ceil(self.calibration.ranks_per_machine)
    }

    fn ranks_of(&self, machine: usize) -> std::ops::Range<usize> {
        let each = self.calibration.ranks_per_machine;
        machine * each..self.ranks.min((machine + 1) * each)
    }

    /// Seconds that the cores of a machine need for what its ranks have to do.
    fn on_cores(&self, machine: usize, of_rank: &dyn Fn(usize) -> f64) -> f64 {
        let MachineRates { threads, cores, .. } = *self.calibration;
        let together: f64 = self.ranks_of(machine).map(of_rank).sum();
        together * threads as f64 / cores as f64
    }

    fn add(&self, sums: &mut [f64], of_rank: &dyn Fn(usize) -> f64) {
        sums.iter_mut().enumerate().for_each(|(machine, sum)| *sum += self.on_cores(machine, of_rank));
    }

    /// Until the last rank of the last machine is done, where cores are shared out evenly.
    fn slowest(&self, of_rank: &dyn Fn(usize) -> f64) -> f64 {
        let busiest = (0..self.ranks).map(of_rank).fold(0.0, f64::max);
        (0..self.count()).map(|machine| self.on_cores(machine, of_rank)).fold(busiest, f64::max)
    }
}

/// What a collective takes alone, by the line of its algorithm and span; nothing among one rank.
///
/// # Panics
/// If the phase is a computation.
pub fn collective_seconds(
    links: &[LinkModel],
    schedule: &Schedule,
    id: PhaseId,
    sizes: &BatchSizes,
) -> Result<f64, MachineRatesError> {
    let phase = &schedule.phases()[id.0];
    let Work::Collective(collective) = &phase.work else { panic!("{} is no collective", phase.name) };
    let topology = schedule.placement().topology();
    let Some(span) = span(collective.group, schedule)? else { return Ok(0.0) };
    let members = span.members(topology);
    if members == 1 {
        return Ok(0.0);
    }
    let kind = collective.kind;
    let algorithm = collective.algorithm;
    let of = |link: &LinkModel| (link.collective, link.algorithm, link.group);
    let link = links.iter().find(|link| of(link) == (kind, algorithm, span));
    let missing = || match (algorithm, phase.name.clone()) {
        (Algorithm::Direct, phase) => MachineRatesError::Collective { collective: kind, span, phase },
        (algorithm, phase) => MachineRatesError::Algorithm { algorithm, span, phase },
    };
    let link = link.ok_or_else(missing)?;
    if link.ranks != members {
        let measured = link.ranks;
        return Err(MachineRatesError::Members { collective: kind, span, measured, members });
    }
    Ok(link.seconds(size(schedule, collective, span, sizes)))
}

/// The span that a group of a step is; `None` where it is a single rank.
fn span(group: Group, schedule: &Schedule) -> Result<Option<GroupSpan>, MachineRatesError> {
    let hosts = schedule.placement().topology().hosts();
    let hosts_per_group = schedule.deployment().dataflow.sptt().map_or(1, |s| s.groups().hosts_per_group());
    match group {
        Group::World => Ok(Some(GroupSpan::World)),
        Group::Host => Ok(Some(GroupSpan::Host)),
        Group::Across => Ok(Some(GroupSpan::Peers)),
        Group::Tower if hosts_per_group == 1 => Ok(Some(GroupSpan::Host)),
        Group::Peers if hosts_per_group == 1 => Ok(Some(GroupSpan::Peers)),
        Group::Tower if hosts_per_group == hosts => Ok(Some(GroupSpan::World)),
        Group::Peers if hosts_per_group == hosts => Ok(None),
        Group::Tower | Group::Peers => Err(MachineRatesError::Groups { hosts_per_group, hosts }),
    }
}

/// Bytes of a rank, as a sweep of sizes counts them: with what it keeps, and were all ranks as busy as the busiest host, or
/// inside hosts as the busiest rank, is in sending or receiving.
fn size(schedule: &Schedule, collective: &Collective, span: GroupSpan, sizes: &BatchSizes) -> f64 {
    let traffic = &collective.traffic;
    if let Some(bytes) = traffic.reduced_bytes() {
        return bytes as f64;
    }
    let deployment = schedule.deployment();
    let topology = deployment.placement.topology();
    let (members, per_host) = (span.members(topology), topology.ranks_per_host());
    // Ranks that share what is scarce, and how many of a rank's parts cross it.
    let (link, sharing, crossing) = match span {
        // Among the ranks of one host nothing crosses hosts.
        GroupSpan::World if topology.hosts() == 1 => (LinkClass::Host, 1, members - 1),
        GroupSpan::World => (LinkClass::Network, per_host, members - per_host),
        GroupSpan::Peers => (LinkClass::Network, per_host, members - 1),
        GroupSpan::Host => (LinkClass::Host, 1, members - 1),
    };
    let mut loads = vec![(0u64, 0u64); topology.ranks() / sharing];
    for from in 0..topology.ranks() {
        for to in (0..topology.ranks()).filter(|&to| topology.link(from, to) == link) {
            let bytes = traffic.between(deployment, sizes, from, to);
            loads[from / sharing].0 += bytes;
            loads[to / sharing].1 += bytes;
        }
    }
    let most = loads.into_iter().map(|(out, into)| out.max(into)).max().unwrap_or(0);
    most as f64 / sharing as f64 * members as f64 / crossing.max(1) as f64
}

#[cfg(test)]
mod tests;
