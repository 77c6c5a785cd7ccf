//! What a step of a case takes at least: its schedule's critical path, with computations at their pace and collectives at the
//! speed that was measured on the same links.

use anyhow::{Context, Result, ensure};
use planning::{Links, Timeline};
use spec::links::{Circle, LinkModel};
use spec::pace::Pace;
use spec::run::Run;
use spec::schedule::{Collective, CollectiveKind, Group, PhaseId, Schedule, Task, Work};
use spec::topology::LinkClass;
use spec::volume::{BatchSizes, Traffic};

/// A step, ready to be priced.
pub struct Step {
    schedule: Schedule,
    sizes: BatchSizes,
    ranks: usize,
}

/// Messages between hosts in a step, of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    pub count: u64,
    pub bytes: u64,
}

impl Step {
    pub fn new(run: &Run) -> Self {
        let schedule = run.schedule(Task::Train);
        let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
        Self { schedule, sizes, ranks: run.topology().ranks() }
    }

    /// The timeline of the rank that needs longest.
    pub fn priced(&self, pace: &Pace, links: &[LinkModel]) -> Result<Timeline> {
        pace.check(&self.schedule)?;
        let phases = self.schedule.phases();
        let mut collectives = Vec::with_capacity(phases.len());
        for (i, phase) in phases.iter().enumerate() {
            collectives.push(match &phase.work {
                Work::Compute(_) => 0.0,
                Work::Collective(collective) => self.seconds(PhaseId(i), collective, links)?,
            });
        }
        let of_rank = |rank: usize| {
            let seconds = phases.iter().zip(&collectives);
            let seconds =
                seconds.map(|(phase, alone)| alone + pace.seconds(&phase.name, rank).unwrap_or(0.0));
            Timeline::new(&self.schedule, &seconds.collect::<Vec<_>>(), Links::Apart)
        };
        let slowest = (0..self.ranks).map(of_rank).max_by(|a, b| a.step_s.total_cmp(&b.step_s));
        slowest.context("a cluster has ranks")
    }

    /// Seconds of communication that computation can hide, if phases take the times which were measured, by name.
    pub fn hideable_s(&self, seconds: &dyn Fn(&str) -> f64) -> f64 {
        let seconds: Vec<f64> = self.schedule.phases().iter().map(|phase| seconds(&phase.name)).collect();
        Timeline::new(&self.schedule, &seconds, Links::Shared).hideable_s()
    }

    /// What a collective takes alone.
    fn seconds(&self, id: PhaseId, collective: &Collective, links: &[LinkModel]) -> Result<f64> {
        let topology = self.schedule.deployment().placement.topology();
        let circle = match collective.group {
            Group::World => Circle::World,
            Group::Host | Group::Group => Circle::Host,
            Group::Across | Group::Peers => Circle::Peers,
        };
        let members = match circle {
            Circle::World => topology.ranks(),
            Circle::Host => topology.ranks_per_host(),
            Circle::Peers => topology.hosts(),
        };
        if members == 1 {
            return Ok(0.0);
        }
        let link = links.iter().find(|link| link.collective == collective.kind && link.group == circle);
        let link = link.with_context(|| {
            format!("no speed was measured for {} over {circle} ({})", collective.kind, self.name(id))
        })?;
        ensure!(
            link.ranks == members,
            "the speed of {} over {circle} was measured among {} ranks, this step has {members}",
            collective.kind,
            link.ranks
        );
        Ok(link.seconds(self.size(collective, members)))
    }

    fn name(&self, id: PhaseId) -> &str {
        &self.schedule.phases()[id.0].name
    }

    /// Bytes of a rank, as the sweep of sizes counts them: with what it keeps, and were all ranks as busy as the busiest host, or
    /// inside hosts as the busiest rank, is in sending or receiving.
    fn size(&self, collective: &Collective, members: usize) -> f64 {
        let Collective { traffic, group, .. } = collective;
        match traffic {
            Traffic::AllReduce { elements, bytes } => return (*elements as u64 * bytes) as f64,
            Traffic::GroupAllReduce { elements, bytes } => {
                return elements.iter().max().map_or(0.0, |&most| (most as u64 * bytes) as f64);
            }
            _ => {}
        }
        let deployment = self.schedule.deployment();
        let topology = deployment.placement.topology();
        let per_host = topology.ranks_per_host();
        // Ranks that share what is scarce, and how many of a rank's parts cross it.
        let (link, sharing, crossing) = match group {
            Group::World => (LinkClass::Network, per_host, members - per_host),
            Group::Across | Group::Peers => (LinkClass::Network, per_host, members - 1),
            Group::Host | Group::Group => (LinkClass::Host, 1, members - 1),
        };
        let mut loads = vec![(0u64, 0u64); self.ranks / sharing];
        for from in 0..self.ranks {
            for to in (0..self.ranks).filter(|&to| topology.link(from, to) == link) {
                let bytes = traffic.between(deployment, &self.sizes, from, to);
                loads[from / sharing].0 += bytes;
                loads[to / sharing].1 += bytes;
            }
        }
        let most = loads.into_iter().map(|(out, into)| out.max(into)).max().unwrap_or(0);
        most as f64 / sharing as f64 * members as f64 / crossing.max(1) as f64
    }

    /// What crosses between hosts, and in how many messages.
    pub fn messages(&self) -> Messages {
        let deployment = self.schedule.deployment();
        let topology = deployment.placement.topology();
        let mut messages = Messages::default();
        for phase in self.schedule.phases() {
            let Work::Collective(Collective { kind, traffic, .. }) = &phase.work else { continue };
            // A reduction goes there and back.
            let parts = if *kind == CollectiveKind::AllReduce { 2 } else { 1 };
            for from in 0..self.ranks {
                for to in (0..self.ranks).filter(|&to| topology.link(from, to) == LinkClass::Network) {
                    let bytes = traffic.between(deployment, &self.sizes, from, to);
                    messages.bytes += bytes;
                    messages.count += if bytes > 0 { parts } else { 0 };
                }
            }
        }
        messages
    }
}
