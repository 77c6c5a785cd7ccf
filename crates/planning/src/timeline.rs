//! When the phases of a step begin and end, if each takes a given time.
//!
//! ```text
//! begin(p, i) = max( end of the phase before p on its lane, end(q, i − d) for every (q, d) that p comes after )
//! end(p, i)   = begin(p, i) + seconds(p)
//! ```
//!
//! A lane works through its phases in issue order, lanes run side by side, and steps follow each other; after a few of
//! them the time between two ends of a step no longer changes. That time is the schedule's critical path: the limit of
//! a step whose lanes do not get into each other's way.

use spec::schedule::{Lane, Phase, Schedule, Work};

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

/// Steps until the period is steady; a dependency reaches one step back, so few are enough.
const SETTLING: usize = 8;
/// Steps over which it is then measured.
const MEASURED: usize = 8;

impl Timeline {
    /// The step of `schedule` whose phases take `seconds`, one number for each.
    ///
    /// # Panics
    /// If there is not a number for every phase.
    pub fn new(schedule: &Schedule, seconds: &[f64]) -> Self {
        let phases = schedule.phases();
        assert_eq!(phases.len(), seconds.len(), "one time for every phase");
        let mut free = [0.0f64; 3];
        let mut before = vec![0.0f64; phases.len()];
        let (mut end, mut settled) = (0.0f64, 0.0);
        for step in 0..SETTLING + MEASURED {
            if step == SETTLING {
                settled = end;
            }
            let mut ends = before.clone();
            for (i, phase) in phases.iter().enumerate() {
                let waits = phase.after.iter().map(|&(other, distance)| match distance {
                    0 => ends[other.0],
                    _ => before[other.0],
                });
                let lane = &mut free[lane_index(phase.lane)];
                let begin = waits.fold(*lane, f64::max);
                *lane = begin + seconds[i];
                ends[i] = *lane;
                end = end.max(*lane);
            }
            before = ends;
        }
        let sum = |which: fn(&Phase) -> bool| {
            phases.iter().zip(seconds).filter(|(phase, _)| which(phase)).map(|(_, seconds)| seconds).sum()
        };
        Self {
            step_s: (end - settled) / MEASURED as f64,
            compute_s: sum(|phase| matches!(phase.work, Work::Compute(_))),
            communication_s: sum(|phase| matches!(phase.work, Work::Collective(_))),
        }
    }

    /// Seconds in which only communication goes on.
    pub fn exposed_s(&self) -> f64 {
        (self.step_s - self.compute_s).max(0.0)
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

fn lane_index(lane: Lane) -> usize {
    match lane {
        Lane::Compute => 0,
        Lane::Exchange => 1,
        Lane::Gradients => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::run::Config;
    use spec::schedule::{Operation, Task};

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
        let timeline = Timeline::new(&schedule, &seconds);
        assert!((timeline.step_s - seconds.iter().sum::<f64>()).abs() < 1e-9);
        assert_eq!(timeline.exposed_s(), 0.0);
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
            Timeline::new(&schedule, &times(&schedule, of)).step_s
        };
        assert!((step(2.0) - 3.0).abs() < 1e-9);
        assert!((step(5.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn step_lies_between_its_busiest_lane_and_the_sum_of_all() {
        let schedule = schedule();
        let seconds: Vec<f64> = (0..schedule.phases().len()).map(|i| 1.0 + ((i * 7) % 5) as f64).collect();
        let timeline = Timeline::new(&schedule, &seconds);
        for lane in [Lane::Compute, Lane::Exchange, Lane::Gradients] {
            let phases = schedule.phases().iter().zip(&seconds);
            let busy: f64 = phases.filter(|(phase, _)| phase.lane == lane).map(|(_, s)| s).sum();
            assert!(timeline.step_s >= busy - 1e-9, "{lane}");
        }
        assert!(timeline.step_s < timeline.serial_s() && timeline.hideable_s() > 0.0);
    }
}
