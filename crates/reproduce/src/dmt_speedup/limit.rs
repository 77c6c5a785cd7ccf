//! Lower bound of a case's step time: the critical path of its schedule, with computations at their pace and collectives at the
//! speed that was measured on the same links.

use crate::error::{Error, Result};
use planning::measured::collective_seconds;
use planning::{Links, Timeline};
use spec::links::LinkModel;
use spec::pace::Pace;
use spec::run::Run;
use spec::schedule::{PhaseId, Schedule, Task, Work};
use spec::topology::LinkClass;
use spec::volume::BatchSizes;

/// A step, ready to be priced.
pub struct StepLimit {
    schedule: Schedule,
    sizes: BatchSizes,
    ranks: usize,
}

/// Messages between hosts in a step, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Number of messages.
    pub count: u64,
    /// Bytes of all messages.
    pub bytes: u64,
}

impl StepLimit {
    pub fn new(run: &Run) -> Self {
        let schedule = run.schedule(Task::Train);
        let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
        Self { schedule, sizes, ranks: run.topology().ranks() }
    }

    /// The timeline of the slowest rank.
    pub fn priced(&self, pace: &Pace, links: &[LinkModel]) -> Result<Timeline> {
        pace.check(&self.schedule)?;
        let phases = self.schedule.phases();
        let mut collectives = Vec::with_capacity(phases.len());
        for (i, phase) in phases.iter().enumerate() {
            collectives.push(match &phase.work {
                Work::Compute(_) => 0.0,
                Work::Collective(_) => collective_seconds(links, &self.schedule, PhaseId(i), &self.sizes)?,
            });
        }
        let of_rank = |rank: usize| {
            let seconds = phases.iter().zip(&collectives);
            let seconds =
                seconds.map(|(phase, alone)| alone + pace.seconds(&phase.name, rank).unwrap_or(0.0));
            Timeline::new(&self.schedule, &seconds.collect::<Vec<_>>(), Links::Apart)
        };
        let slowest = (0..self.ranks).map(of_rank).max_by(|a, b| a.step_s.total_cmp(&b.step_s));
        slowest.ok_or(Error::NoRanks)
    }

    /// Seconds of communication that computation can hide, if each phase takes `seconds` of its name.
    pub fn hideable_s(&self, seconds: &dyn Fn(&str) -> f64) -> f64 {
        let seconds: Vec<f64> = self.schedule.phases().iter().map(|phase| seconds(&phase.name)).collect();
        Timeline::new(&self.schedule, &seconds, Links::Shared).hideable_s()
    }

    /// Counts messages between hosts and their bytes.
    pub fn messages(&self) -> Messages {
        let deployment = self.schedule.deployment();
        let topology = deployment.placement.topology();
        let mut messages = Messages::default();
        for phase in self.schedule.phases() {
            let Work::Collective(collective) = &phase.work else { continue };
            for from in 0..self.ranks {
                let mut add = |to: usize, bytes: u64| {
                    if bytes > 0 && topology.link(from, to) == LinkClass::Network {
                        messages.bytes += bytes;
                        messages.count += 1;
                    }
                };
                match collective.program(deployment, from) {
                    Some(program) => {
                        let members = collective.members(deployment, from);
                        program.sent().for_each(|part| add(members[part.member], part.len as u64));
                    }
                    None => (0..self.ranks).for_each(|to| {
                        add(to, collective.traffic.between(deployment, &self.sizes, from, to))
                    }),
                }
            }
        }
        messages
    }
}
