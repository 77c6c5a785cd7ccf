//! When the operations of a step begin and end, if each takes a given time by itself.
//!
//! A lane works through its operations in issue order, lanes run side by side, and steps follow each other; an operation
//! begins when its lane is free and all that it comes after have ended:
//!
//! ```text
//! begin(p, i) = max( end of the operation before p on its lane, end(q, i − d) for every (q, d) that p comes after )
//! ```
//!
//! In the mean the time between two ends of a step is that of the circle of dependencies that takes most for each step that it
//! spans, if lanes do not get into each other's way ([`Links::Apart`]): after a few steps it no longer changes, or does so by
//! turns. Lanes do get into each other's way where two collectives cross hosts at the same time: if each of them alone keeps
//! the links busy, both take twice as long together ([`Links::Shared`]).

mod circle;
#[cfg(test)]
mod random;
mod sharing;
pub mod text;

use spec::schedule::{Distance, Group, Lane, PhaseId, Schedule, Work};

/// A step on its lanes.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Seconds from the end of a step to the end of the next.
    pub step_s: f64,
    /// Seconds of computation in it.
    pub compute_s: f64,
    /// Seconds of communication in it, overlapped or not.
    pub communication_s: f64,
    /// When each operation of a step begins and ends; 0 is when its first begins. What works ahead does so for the next step.
    pub spans: Vec<Span>,
}

/// When an operation is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// Start, in seconds.
    pub begin_s: f64,
    /// End, in seconds.
    pub end_s: f64,
}

/// An operation, as far as time is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Lane in which the operation queues.
    pub lane: Lane,
    /// Operations that this one waits for, and how many steps back.
    pub after: &'a [(PhaseId, Distance)],
    /// Whether the operation is a computation.
    pub computes: bool,
    /// Whether the operation shares the links between hosts with others.
    pub shares: bool,
    /// Seconds that the operation takes by itself.
    pub seconds: f64,
}

/// How collectives that cross hosts at the same time affect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Each goes on as if it were alone: a step takes no less than that.
    Apart,
    /// Collectives share the links: only computation hides communication.
    Shared,
}

/// Steps until the period is steady, where none repeats the one before it sooner.
const SETTLING: usize = 8;
/// Steps over which it is then measured, where some share the wire.
const MEASURED: usize = 8;
/// Two times are the same if they differ by no more than this part of a step.
const SAME: f64 = 1e-12;

impl Timeline {
    /// The step of `schedule`, in its steady state, whose phases take `seconds`, one number for each.
    ///
    /// # Panics
    /// If there is not a number for every phase.
    pub fn new(schedule: &Schedule, seconds: &[f64], links: Links) -> Self {
        let phases = schedule.phases();
        assert_eq!(phases.len(), seconds.len(), "one time for every phase");
        let hosts = schedule.placement().topology().hosts();
        let wide_groups =
            schedule.deployment().dataflow.sptt().is_some_and(|s| s.groups().hosts_per_group() > 1);
        let crosses = |work: &Work<_>| match work {
            Work::Compute(_) => false,
            Work::Collective(collective) => match collective.group {
                Group::World | Group::Across | Group::Peers => hosts > 1,
                Group::Tower => wide_groups,
                Group::Host => false,
            },
        };
        let items = phases.iter().zip(seconds).map(|(phase, &seconds)| Item {
            lane: phase.lane,
            after: &phase.after,
            computes: phase.lane == Lane::Compute,
            shares: links == Links::Shared && crosses(&phase.work),
            seconds,
        });
        Self::steady(&items.collect::<Vec<_>>())
    }

    /// A step among others like it, in the steady state.
    pub fn steady(items: &[Item]) -> Self {
        if items.is_empty() {
            return Self::of(items, 0.0, &[]);
        }
        let most = SETTLING + MEASURED;
        let shares = items.iter().any(|item| item.shares);
        let (spans, period) =
            if shares { sharing::until_alike(items, most) } else { apart_until_alike(items, most) };
        let steps = spans.len() / items.len();
        if !last_end(&spans).is_finite() {
            return Self::of(items, f64::INFINITY, &spans[..items.len()]);
        }
        let end = |step: usize, item: usize| spans[step * items.len() + item].end_s;
        let unsettled = || {
            if !shares {
                return circle::period(items);
            }
            // The slowest operation sets the pace; others may still be living on a lead that it will use up.
            let growth = (0..items.len()).map(|item| end(steps - 1, item) - end(SETTLING - 1, item));
            growth.fold(0.0, f64::max) / (steps - SETTLING) as f64
        };
        let serial: f64 = items.iter().map(|item| item.seconds.max(0.0)).sum();
        // A step never takes longer than all of it one after the other.
        let step_s = period.unwrap_or_else(unsettled).min(serial);
        Self::of(items, step_s, &spans[(steps - 1) * items.len()..])
    }

    /// A single step, from its first beginning to its last end.
    pub fn once(items: &[Item]) -> Self {
        let spans =
            if items.iter().any(|item| item.shares) { sharing::spans(items, 1) } else { apart(items, 1) };
        Self::of(items, last_end(&spans), &spans)
    }

    fn of(items: &[Item], step_s: f64, spans: &[Span]) -> Self {
        let sum = |computes: bool| {
            let of_kind = items.iter().filter(|item| item.computes == computes);
            of_kind.fold(0.0, |sum, item| sum + item.seconds.max(0.0))
        };
        let first = spans.iter().map(|span| span.begin_s).fold(f64::INFINITY, f64::min);
        let moved = |span: &Span| Span { begin_s: span.begin_s - first, end_s: span.end_s - first };
        Self {
            step_s,
            compute_s: sum(true),
            communication_s: sum(false),
            spans: spans.iter().map(moved).collect(),
        }
    }

    /// Seconds of a step in which nothing overlaps.
    pub fn serial_s(&self) -> f64 {
        self.compute_s + self.communication_s
    }

    /// Seconds of communication that overlap hides.
    pub fn hideable_s(&self) -> f64 {
        self.communication_s - self.exposed_s()
    }

    /// Seconds in which nothing is computed.
    pub fn exposed_s(&self) -> f64 {
        (self.step_s - self.compute_s).clamp(0.0, self.communication_s)
    }
}

fn last_end(spans: &[Span]) -> f64 {
    spans.iter().map(|span| span.end_s).fold(0.0, f64::max)
}

/// Steps one after the other, with nothing shared: in issue order, all that an operation waits for is known.
fn apart(items: &[Item], steps: usize) -> Vec<Span> {
    let mut spans = Vec::with_capacity(items.len() * steps);
    let mut free = [0.0; Lane::ALL.len()];
    for step in 0..steps {
        push_apart(items, step, &mut free, &mut spans);
    }
    spans
}

/// The same; fewer than `most` steps, if the last one is like the one before it, as all further ones would be: then also the
/// time between them.
fn apart_until_alike(items: &[Item], most: usize) -> (Vec<Span>, Option<f64>) {
    // What is further back is not compared.
    let comparable = items.iter().flat_map(|item| item.after).all(|&(_, distance)| distance <= 1);
    let mut spans = Vec::with_capacity(items.len() * most.min(4));
    let mut free = [0.0; Lane::ALL.len()];
    for step in 0..most {
        push_apart(items, step, &mut free, &mut spans);
        let period = if step > 0 && comparable {
            period(&spans[(step - 1) * items.len()..], items.len())
        } else {
            None
        };
        if period.is_some() {
            return (spans, period);
        }
    }
    (spans, None)
}

/// One more step. A phase may come after one that is issued later, of the step before; so steps are gone through whole.
fn push_apart(items: &[Item], step: usize, free: &mut [f64; Lane::ALL.len()], spans: &mut Vec<Span>) {
    for item in items {
        let mut begin = free[item.lane as usize];
        for &(PhaseId(other), distance) in item.after {
            if let Some(earlier) = step.checked_sub(distance as usize) {
                begin = begin.max(spans[earlier * items.len() + other].end_s);
            }
        }
        let end = begin + item.seconds.max(0.0);
        spans.push(Span { begin_s: begin, end_s: end });
        free[item.lane as usize] = end;
    }
}

/// By how much the second of two steps is the first, moved; nothing if it is another.
fn period(two: &[Span], count: usize) -> Option<f64> {
    let (before, now) = two.split_at(count);
    let moved = last_end(now) - last_end(before);
    let alike =
        before.iter().zip(now).all(|(before, now)| (now.end_s - before.end_s - moved).abs() <= SAME * moved);
    alike.then_some(moved)
}

#[cfg(test)]
mod tests;
