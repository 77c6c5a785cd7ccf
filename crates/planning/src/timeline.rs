//! When the phases of a step begin and end, if each takes a given time by itself.
//!
//! A lane works through its phases in issue order, lanes run side by side, and steps follow each other; a phase begins when
//! its lane is free and all that it comes after have ended:
//!
//! ```text
//! begin(p, i) = max( end of the phase before p on its lane, end(q, i − d) for every (q, d) that p comes after )
//! ```
//!
//! After a few steps the time between two ends of a step no longer changes. That time is the schedule's critical path, if
//! lanes do not get into each other's way ([`Links::Apart`]). They do where two collectives cross hosts at the same time: if
//! each of them alone keeps the links busy, both take twice as long together ([`Links::Shared`]).

use spec::schedule::{Group, Lane, Schedule, Work};

/// A step in its steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeline {
    /// Seconds from the end of a step to the end of the next.
    pub step_s: f64,
    /// Seconds of computation in it.
    pub compute_s: f64,
    /// Seconds of communication in it, overlapped or not.
    pub communication_s: f64,
}

/// What becomes of two collectives that cross hosts at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Each goes on as if it were alone: a step takes no less than that.
    Apart,
    /// They share the wire: only computation hides communication.
    Shared,
}

/// Steps until the period is steady; a dependency reaches one step back, so few are enough.
const SETTLING: usize = 8;
/// Steps over which it is then measured.
const MEASURED: usize = 8;

impl Timeline {
    /// The step of `schedule` whose phases take `seconds`, one number for each.
    ///
    /// # Panics
    /// If there is not a number for every phase.
    pub fn new(schedule: &Schedule, seconds: &[f64], links: Links) -> Self {
        let phases = schedule.phases();
        assert_eq!(phases.len(), seconds.len(), "one time for every phase");
        let ends = Simulation::new(schedule, seconds, links).run();
        let sum = |compute: bool| {
            let all = phases.iter().zip(seconds);
            let of_kind = all.filter(|(phase, _)| matches!(phase.work, Work::Compute(_)) == compute);
            of_kind.map(|(_, seconds)| seconds).sum()
        };
        Self {
            step_s: (ends[SETTLING + MEASURED - 1] - ends[SETTLING - 1]) / MEASURED as f64,
            compute_s: sum(true),
            communication_s: sum(false),
        }
    }

    /// Seconds of a step in which nothing overlaps.
    pub fn serial_s(&self) -> f64 {
        self.compute_s + self.communication_s
    }

    /// Seconds of communication that overlap can hide.
    pub fn hideable_s(&self) -> f64 {
        (self.serial_s() - self.step_s).max(0.0)
    }
}

const LANES: [Lane; 3] = [Lane::Compute, Lane::Exchange, Lane::Gradients];

/// Steps on their way.
struct Simulation<'a> {
    schedule: &'a Schedule,
    seconds: &'a [f64],
    /// Whether a phase shares the wire with others of its kind.
    shares: Vec<bool>,
    queues: [Queue; 3],
    /// By step and phase.
    done: Vec<Vec<bool>>,
}

/// The phases of a lane, step after step.
struct Queue {
    phases: Vec<usize>,
    /// How many have begun, over all steps.
    begun: usize,
    /// The phase at work, its step, and the seconds it still needs.
    working: Option<(usize, usize, f64)>,
}

impl<'a> Simulation<'a> {
    fn new(schedule: &'a Schedule, seconds: &'a [f64], links: Links) -> Self {
        let phases = schedule.phases();
        let hosts = schedule.placement().topology().hosts();
        let wide_groups =
            schedule.deployment().dataflow.sptt().is_some_and(|s| s.groups().hosts_per_group() > 1);
        let shares = phases.iter().map(|phase| match &phase.work {
            _ if links == Links::Apart => false,
            Work::Compute(_) => false,
            Work::Collective(collective) => match collective.group {
                Group::World | Group::Across | Group::Peers => hosts > 1,
                Group::Group => wide_groups,
                Group::Host => false,
            },
        });
        let queue = |lane: Lane| {
            let of_lane = (0..phases.len()).filter(|&i| phases[i].lane == lane);
            Queue { phases: of_lane.collect(), begun: 0, working: None }
        };
        Self {
            schedule,
            seconds,
            shares: shares.collect(),
            queues: LANES.map(queue),
            done: vec![vec![false; phases.len()]; SETTLING + MEASURED],
        }
    }

    /// When each step has ended.
    fn run(mut self) -> Vec<f64> {
        let (mut now, mut ends) = (0.0, vec![0.0f64; self.done.len()]);
        loop {
            for lane in 0..self.queues.len() {
                self.begin(lane);
            }
            let working = |queue: &Queue| queue.working.map(|(phase, ..)| phase);
            let on_wire = self.queues.iter().filter_map(working).filter(|&phase| self.shares[phase]).count();
            let slowed = |phase: usize| if self.shares[phase] { on_wire as f64 } else { 1.0 };
            let next = self.queues.iter().filter_map(|queue| queue.working);
            let Some(soonest) = next.map(|(phase, _, left)| left * slowed(phase)).reduce(f64::min) else {
                return ends;
            };
            now += soonest;
            for queue in &mut self.queues {
                let Some((phase, step, left)) = &mut queue.working else { continue };
                let slow = if self.shares[*phase] { on_wire as f64 } else { 1.0 };
                *left -= soonest / slow;
                // What is left of the soonest is rounding.
                if *left <= 1e-12 {
                    self.done[*step][*phase] = true;
                    ends[*step] = now;
                    queue.working = None;
                }
            }
        }
    }

    /// Begins the next phase of an idle lane, if all that it comes after has ended.
    fn begin(&mut self, lane: usize) {
        let Queue { phases, begun, working } = &mut self.queues[lane];
        if working.is_some() || phases.is_empty() || *begun == phases.len() * self.done.len() {
            return;
        }
        let (step, phase) = (*begun / phases.len(), phases[*begun % phases.len()]);
        let after = &self.schedule.phases()[phase].after;
        let ended = |&(other, distance): &(spec::schedule::PhaseId, u32)| {
            step.checked_sub(distance as usize).is_none_or(|step| self.done[step][other.0])
        };
        if after.iter().all(ended) {
            *working = Some((phase, step, self.seconds[phase].max(0.0)));
            *begun += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::run::Config;
    use spec::schedule::{Operation, Phase, Task};

    fn schedule() -> Schedule {
        Config::default().check().expect("the default run").schedule(Task::Train)
    }

    /// Seconds by the name of a phase.
    fn times(schedule: &Schedule, of: impl Fn(&Phase) -> f64) -> Vec<f64> {
        schedule.phases().iter().map(of).collect()
    }

    #[test]
    fn computation_alone_takes_its_sum() {
        let schedule = schedule();
        let seconds = times(&schedule, |phase| if phase.lane == Lane::Compute { 0.5 } else { 0.0 });
        let timeline = Timeline::new(&schedule, &seconds, Links::Apart);
        assert!((timeline.step_s - seconds.iter().sum::<f64>()).abs() < 1e-9);
        assert_eq!(timeline.hideable_s(), 0.0);
    }

    #[test]
    fn pooled_exchange_hides_behind_the_bottom_and_no_further() {
        let schedule = schedule();
        let bottom = |phase: &Phase| {
            let operation = Work::Compute(Operation::Forward(spec::model::Block::Bottom));
            if phase.work == operation { 3.0 } else { 0.0 }
        };
        let step = |exchange: f64| {
            let of = |phase: &Phase| if phase.name == "pooled exchange" { exchange } else { bottom(phase) };
            Timeline::new(&schedule, &times(&schedule, of), Links::Shared).step_s
        };
        assert!((step(2.0) - 3.0).abs() < 1e-9);
        assert!((step(5.0) - 5.0).abs() < 1e-9);
    }

    /// The last reduction and the gradients of vectors are under way together: neither is hidden by the other.
    #[test]
    fn lanes_share_the_wire() {
        let time = |phase: &Phase| match phase.name.as_str() {
            "gradient exchange" => 2.0,
            name if name.starts_with("reduce bucket") => 1.0,
            _ => 0.0,
        };
        let sum = |schedule: &Schedule| times(schedule, time).iter().sum::<f64>();
        let two_hosts = schedule();
        let step = Timeline::new(&two_hosts, &times(&two_hosts, time), Links::Shared).step_s;
        assert!((step - sum(&two_hosts)).abs() < 1e-9, "{step}");
        let apart = Timeline::new(&two_hosts, &times(&two_hosts, time), Links::Apart).step_s;
        assert!(apart < step, "{apart}");
        let mut config = Config::default();
        config.topology.hosts = Some(1);
        let one_host = config.check().expect("a run").schedule(Task::Train);
        assert!(Timeline::new(&one_host, &times(&one_host, time), Links::Shared).step_s < sum(&one_host));
    }

    #[test]
    fn step_lies_between_its_busiest_lane_and_the_sum_of_all() {
        let schedule = schedule();
        let seconds: Vec<f64> = (0..schedule.phases().len()).map(|i| 1.0 + ((i * 7) % 5) as f64).collect();
        let timeline = Timeline::new(&schedule, &seconds, Links::Apart);
        for lane in [Lane::Compute, Lane::Exchange, Lane::Gradients] {
            let phases = schedule.phases().iter().zip(&seconds);
            let busy: f64 = phases.filter(|(phase, _)| phase.lane == lane).map(|(_, s)| s).sum();
            assert!(timeline.step_s >= busy - 1e-9, "{lane}");
        }
        assert!(timeline.step_s < timeline.serial_s() && timeline.hideable_s() > 0.0);
    }
}
