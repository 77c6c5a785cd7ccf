//! Times of each phase, on every rank and as means over ranks.

use crate::Error;
use crate::step::gather::to_first;
use crate::step::phase_time::PhaseTime;
use collectives::{Communicator, Label, SentBytes};
use serde::Serialize;
use spec::schedule::{Lane, Schedule};
use spec::topology::LinkClass;
use spec::volume::LinkBytes;
use std::collections::BTreeMap;

/// One phase over all steps of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Name of the phase.
    pub name: String,
    /// Lane on which the phase queued.
    pub lane: Lane,
    /// Seconds at work, mean over ranks: computing, or setting up a collective.
    pub busy_s: f64,
    /// Seconds from the start of a collective until the transport had it done, mean over ranks.
    pub communication_s: f64,
    /// Seconds waited for with nothing else to do, mean over ranks.
    pub exposed_s: f64,
    /// Bytes sent by all ranks, as the transport counted them.
    pub sent: LinkBytes,
    /// Times of the phase on each rank.
    pub ranks: Vec<RankTime>,
}

/// One phase on one rank, over all steps of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RankTime {
    /// Seconds at work.
    pub busy_s: f64,
    /// CPU seconds of it; fewer where ranks share cores.
    pub cpu_s: f64,
    /// Seconds under way.
    pub communication_s: f64,
    /// Seconds waited for with nothing else to do.
    pub exposed_s: f64,
}

/// Breakdown of the time of a step, as means over ranks. Work, waiting and gaps between phases add up to the step time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepTime {
    /// Seconds of a step.
    pub step_s: f64,
    /// Seconds at work in it: computing, and setting up collectives.
    pub compute_s: f64,
    /// Seconds that its collectives were under way; those side by side count each.
    pub communication_s: f64,
    /// Seconds waited for them with nothing else to do.
    pub exposed_s: f64,
    /// Exposed communication as a share of the step.
    pub exposed_share: f64,
}

impl StepTime {
    /// The mean step of `steps` steps in `seconds`; `None` where there were none.
    pub fn of(phases: &[PhaseReport], seconds: f64, steps: u64) -> Option<Self> {
        if steps == 0 || seconds <= 0.0 {
            return None;
        }
        // Rows on their way to and from disks are no communication.
        let per_step = |of: fn(&PhaseReport) -> f64| {
            phases.iter().filter(|phase| phase.lane != Lane::Storage).map(of).sum::<f64>() / steps as f64
        };
        let (step_s, exposed_s) = (seconds / steps as f64, per_step(|phase| phase.exposed_s));
        Some(Self {
            step_s,
            compute_s: per_step(|phase| phase.busy_s),
            communication_s: per_step(|phase| phase.communication_s),
            exposed_s,
            exposed_share: exposed_s / step_s,
        })
    }
}

/// Bytes that all ranks have sent so far, for whatever purpose.
pub(crate) fn sent(world: &Communicator) -> Result<LinkBytes, Error> {
    let metered = world.meter();
    let sum = |link| metered.iter().map(|traffic| traffic.sent(link) as f64).sum::<f64>();
    let mut sums = [sum(LinkClass::Host), sum(LinkClass::Network)];
    world.all_reduce_f64(&Label::from("report"), &mut sums)?;
    Ok(LinkBytes { host: sums[0] as u64, network: sums[1] as u64 })
}

/// The mean over ranks of what each has.
pub(crate) fn mean(world: &Communicator, mine: f64) -> Result<f64, Error> {
    let mut sum = [mine];
    world.all_reduce_f64(&Label::from("report"), &mut sum)?;
    Ok(sum[0] / world.size() as f64)
}

/// Bytes that one rank has sent, by label.
#[derive(Debug, Default)]
pub(crate) struct SentByLabel(BTreeMap<String, LinkBytes>);

impl SentByLabel {
    /// Bytes that this rank has sent so far.
    pub fn of(world: &Communicator) -> Self {
        let sent = |of: &SentBytes| LinkBytes {
            host: of.sent(LinkClass::Host),
            network: of.sent(LinkClass::Network),
        };
        Self(world.meter().iter().map(|of| (of.label.as_str().to_owned(), sent(of))).collect())
    }

    /// Bytes that were sent since `before`.
    pub fn less(mut self, before: &Self) -> Self {
        for (label, sent) in &mut self.0 {
            let before = before.get(label);
            sent.host -= before.host;
            sent.network -= before.network;
        }
        self
    }

    /// Adds bytes to these.
    pub fn add(&mut self, more: &Self) {
        for (label, sent) in &more.0 {
            let sum = self.0.entry(label.clone()).or_default();
            sum.host += sent.host;
            sum.network += sent.network;
        }
    }

    fn get(&self, label: &str) -> LinkBytes {
        self.0.get(label).copied().unwrap_or_default()
    }
}

/// Brings together what every rank measured of every phase, on rank 0; nothing elsewhere. Bytes that were sent `aside`, by
/// evaluations between the steps, are not counted.
pub(crate) fn report(
    world: &Communicator,
    schedule: &Schedule,
    times: &[PhaseTime],
    aside: &SentByLabel,
) -> Result<Vec<PhaseReport>, Error> {
    const COLUMNS: usize = 6;
    let metered = SentByLabel::of(world).less(aside);
    let mut mine = Vec::with_capacity(times.len() * COLUMNS);
    for (phase, time) in schedule.phases().iter().zip(times) {
        let sent = metered.get(&phase.name);
        mine.extend([
            time.busy.as_secs_f64(),
            time.cpu.as_secs_f64(),
            time.communication.as_secs_f64(),
            time.exposed.as_secs_f64(),
            sent.host as f64,
            sent.network as f64,
        ]);
    }
    let all = to_first(world, &Label::from("report"), &mine, &vec![mine.len(); world.size()])?;
    if world.rank() != 0 {
        return Ok(Vec::new());
    }
    let of_phase = |(i, phase): (usize, &spec::schedule::Phase)| {
        let of_ranks = all.chunks_exact(mine.len()).map(|rank| &rank[i * COLUMNS..(i + 1) * COLUMNS]);
        let sum = |column: usize| of_ranks.clone().map(|numbers| numbers[column]).sum::<f64>();
        let mean = |column: usize| sum(column) / world.size() as f64;
        PhaseReport {
            name: phase.name.clone(),
            lane: phase.lane,
            busy_s: mean(0),
            communication_s: mean(2),
            exposed_s: mean(3),
            sent: LinkBytes { host: sum(4) as u64, network: sum(5) as u64 },
            ranks: of_ranks
                .map(|n| RankTime { busy_s: n[0], cpu_s: n[1], communication_s: n[2], exposed_s: n[3] })
                .collect(),
        }
    };
    Ok(schedule.phases().iter().enumerate().map(of_phase).collect())
}
