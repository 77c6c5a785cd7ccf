//! One step's collectives without the arithmetic: a loop over the phases of its schedule.
//!
//! A collective is started where the schedule puts it, and waited for when a phase that depends on it comes up. A step
//! begins when everything of the one before has arrived. After each, the same collectives go one by one, so that what
//! each takes alone is measured under the same conditions.

use super::Rounds;
use super::file::ReplayedStep;
use super::flight::Flight;
use super::ranks::{on_ranks, slowest};
use crate::progress::{Console, Unit};
use crate::text::median;
use anyhow::{Result, ensure};
use collectives::{Communicator, Label};
use planning::{Links, Timeline};
use spec::schedule::{Phase, PhaseId, Work};
use spec::topology::LinkClass;
use spec::volume::LinkBytes;
use std::time::Instant;
use training::{Cluster, Communicators};

/// Times of a replay: medians over rounds, each of the slowest rank.
pub struct Replayed {
    pub collectives: Vec<One>,
    /// Seconds of a step from its first collective to its last; `None` where collectives ran one by one.
    pub step_s: Option<f64>,
    /// Seconds of all collectives one by one.
    pub serial_s: f64,
    /// The step's critical path, if computations take no time and each collective as long as alone.
    pub critical_path_s: f64,
}

/// Bytes and times of one collective.
pub struct One {
    pub phase: PhaseId,
    /// Bytes of the rank that sends most, as the transport counted them.
    pub most: LinkBytes,
    /// Bytes that all ranks send.
    pub total: LinkBytes,
    /// Seconds from the start until completion was noticed, beside other collectives; `None` where all ran one by one.
    pub in_flight_s: Option<f64>,
    /// Seconds of the collective alone.
    pub alone_s: f64,
}

/// Replays a step on all ranks. The process of rank 0 gets the result.
pub fn run(
    step: &ReplayedStep,
    rounds: Rounds,
    serial: bool,
    cluster: &Cluster,
    console: Console,
) -> Result<Option<Replayed>> {
    on_ranks(cluster, step.run.topology(), bytes_needed(step), |world| {
        let communicators = Communicators::new(world, &step.run.dataflow)?;
        Replay::new(step, &communicators)?.run(rounds, serial, console)
    })
}

/// Bytes that the busiest rank needs, about: what it sends, what arrives, blocks to be summed, and their sum.
fn bytes_needed(step: &ReplayedStep) -> u64 {
    let (deployment, ranks) = (step.schedule.deployment(), step.run.topology().ranks());
    let of_rank = |rank: usize| {
        let collectives = step.schedule.phases().iter().filter_map(|phase| match &phase.work {
            Work::Compute(_) => None,
            Work::Collective(collective) => Some(&collective.traffic),
        });
        let sent = collectives.flat_map(|traffic| {
            (0..ranks).map(move |other| {
                let block = |from, to| traffic.block(deployment, &step.sizes, from, to);
                block(rank, other).saturating_add(block(other, rank))
            })
        });
        sent.fold(0, u64::saturating_add)
    };
    (0..ranks).map(of_rank).max().unwrap_or(0).saturating_mul(2)
}

/// A step being replayed by one rank.
struct Replay<'a> {
    step: &'a ReplayedStep,
    world: &'a Communicator,
    /// Collectives by phase; `None` for computations.
    flights: Vec<Option<Flight<'a>>>,
    between: Label,
}

impl<'a> Replay<'a> {
    fn new(step: &'a ReplayedStep, communicators: &'a Communicators) -> Result<Self> {
        let flight = |phase: &Phase| match &phase.work {
            Work::Compute(_) => Ok(None),
            Work::Collective(one) => {
                Flight::new(step, &phase.name, one, communicators.of(one.group)?).map(Some)
            }
        };
        let flights = step.schedule.phases().iter().map(flight).collect::<Result<Vec<_>>>()?;
        Ok(Self { step, world: communicators.world(), flights, between: "between rounds".into() })
    }

    fn run(mut self, rounds: Rounds, serial: bool, console: Console) -> Result<Replayed> {
        let phases = self.step.schedule.phases();
        let steps = rounds.warm_up + rounds.measured;
        let progress =
            console.of_rank(self.world.rank()).progress("replaying", steps as u64, Unit::Count("steps"));
        // By round: the time of every phase beside the others, that of the step, and the time of every phase alone.
        let mut times: Vec<Vec<f64>> = Vec::new();
        for round in 0..steps {
            let mut own = if serial { Vec::new() } else { self.together()? };
            own.extend(self.one_by_one()?);
            let own = slowest(self.world, &self.between, &own)?;
            if round >= rounds.warm_up {
                times.push(own);
            }
            progress.advance(1);
        }
        drop(progress);
        let medians = |at: usize| median(&mut times.iter().map(|round| round[at]).collect::<Vec<_>>());
        let first_alone = if serial { 0 } else { phases.len() + 1 };
        let alone: Vec<f64> = (0..phases.len()).map(|i| medians(first_alone + i)).collect();
        let sums = times.iter().map(|round| round[first_alone..].iter().sum());
        let sent = self.sent_by_all()?;
        let collectives = (0..phases.len()).zip(sent).filter(|(i, _)| self.flights[*i].is_some());
        Ok(Replayed {
            collectives: collectives
                .map(|(i, (most, total))| One {
                    phase: PhaseId(i),
                    most,
                    total,
                    in_flight_s: (!serial).then(|| medians(i)),
                    alone_s: alone[i],
                })
                .collect(),
            step_s: (!serial).then(|| medians(phases.len())),
            serial_s: median(&mut sums.collect::<Vec<f64>>()),
            critical_path_s: Timeline::new(&self.step.schedule, &alone, Links::Apart).step_s,
        })
    }

    /// Replays one step. Returns the time of every collective from start to completion, and last the time of the step.
    fn together(&mut self) -> Result<Vec<f64>> {
        self.world.barrier(&self.between)?;
        self.world.reset_meter();
        let began = Instant::now();
        for (i, phase) in self.step.schedule.phases().iter().enumerate() {
            for (before, _) in phase.after.iter().filter(|(_, steps_back)| *steps_back == 0) {
                self.wait(before.0)?;
            }
            if let Some(flight) = &mut self.flights[i] {
                self.world.enter(&flight.label);
                flight.start()?;
            }
            // Outstanding collectives take their next step.
            self.world.progress()?;
        }
        for i in 0..self.flights.len() {
            self.wait(i)?;
        }
        let total = began.elapsed().as_secs_f64();
        self.check_bytes()?;
        let meter = self.world.meter();
        let in_flight = |flight: &Option<Flight>| {
            let metered = flight.as_ref().and_then(|f| meter.iter().find(|t| t.label == f.label));
            metered.map_or(0.0, |traffic| traffic.in_flight.as_secs_f64())
        };
        Ok(self.flights.iter().map(in_flight).chain([total]).collect())
    }

    /// Runs the collectives of a step one by one, and returns the time of each.
    fn one_by_one(&mut self) -> Result<Vec<f64>> {
        self.world.reset_meter();
        let mut times = vec![0.0; self.flights.len()];
        for (time, flight) in times.iter_mut().zip(&mut self.flights) {
            let Some(flight) = flight else { continue };
            self.world.enter(&flight.label);
            self.world.barrier(&self.between)?;
            let began = Instant::now();
            flight.start()?;
            flight.wait()?;
            *time = began.elapsed().as_secs_f64();
        }
        self.check_bytes()?;
        Ok(times)
    }

    fn wait(&mut self, phase: usize) -> Result<()> {
        self.flights[phase].as_mut().map_or(Ok(()), Flight::wait)
    }

    /// Bytes that this rank sent in every phase since the meter was reset.
    fn metered(&self) -> Vec<LinkBytes> {
        let meter = self.world.meter();
        let sent = |flight: &Option<Flight>| {
            let metered = flight.as_ref().and_then(|f| meter.iter().find(|t| t.label == f.label));
            let sent = |link| metered.map_or(0, |traffic| traffic.sent(link));
            LinkBytes { host: sent(LinkClass::Host), network: sent(LinkClass::Network) }
        };
        self.flights.iter().map(sent).collect()
    }

    /// Refuses a step that sent other numbers of bytes than its schedule says.
    fn check_bytes(&self) -> Result<()> {
        let (schedule, rank) = (&self.step.schedule, self.world.rank());
        for (i, got) in self.metered().into_iter().enumerate() {
            let expected = schedule.sent(PhaseId(i), &self.step.sizes, rank);
            ensure!(
                got == expected,
                "rank {rank} sent {} + {} bytes inside its host and between hosts in {}, but the schedule predicts {} + \
                 {}; please report this",
                got.host,
                got.network,
                schedule.phases()[i].name,
                expected.host,
                expected.network
            );
        }
        Ok(())
    }

    /// What was sent in every phase of the last round: by the rank that sent most, and by all.
    fn sent_by_all(&self) -> Result<Vec<(LinkBytes, LinkBytes)>> {
        let own = self.metered().into_iter().flat_map(|sent| [sent.host as f64, sent.network as f64]);
        let mut total: Vec<f64> = own.collect();
        let most = slowest(self.world, &self.between, &total)?;
        self.world.all_reduce_f64(&self.between, &mut total)?;
        let of = |pair: &[f64]| LinkBytes { host: pair[0] as u64, network: pair[1] as u64 };
        Ok(most.chunks(2).map(of).zip(total.chunks(2).map(of)).collect())
    }
}

#[cfg(test)]
mod tests;
