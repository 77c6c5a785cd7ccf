//! Steps whose collectives share the wire: those under way at the same time each get an equal part of it.

use super::{Item, SAME, Span};
use spec::schedule::{Lane, PhaseId};

/// Steps on their way.
struct Simulation<'a> {
    items: &'a [Item<'a>],
    queues: [Queue; Lane::ALL.len()],
    /// By step and operation: whether it has ended.
    done: Vec<bool>,
    spans: Vec<Span>,
}

/// The operations of a lane, step after step.
struct Queue {
    items: Vec<usize>,
    /// How many have begun, over all steps.
    begun: usize,
    /// The operation at work, by step and index, and the seconds it still needs alone.
    working: Option<(usize, usize, f64)>,
}

/// Where all lanes are when a step has ended.
#[derive(Clone, Copy)]
struct LanePositions {
    now: f64,
    /// By lane: how many operations have begun since that step, and the seconds that the last of them still needs.
    lanes: [(usize, Option<f64>); Lane::ALL.len()],
}

/// When every operation of every step begins and ends.
pub(super) fn spans(items: &[Item], steps: usize) -> Vec<Span> {
    let mut simulation = Simulation::new(items, steps);
    simulation.run(steps, false);
    simulation.spans
}

/// Steps that still run once lanes have been found alike at the ends of two: what runs ahead began before that.
const AFTER_ALIKE: usize = 2;

/// The same; fewer than `most` steps if lanes are, at the end of one, where they were at the end of the one before, as they
/// will be at the ends of all further ones. The time between two such ends is given too.
pub(super) fn until_alike(items: &[Item], most: usize) -> (Vec<Span>, Option<f64>) {
    // Lanes run on beyond the last step, so that it shares the wire as others do.
    let mut simulation = Simulation::new(items, most + AFTER_ALIKE);
    let period = simulation.run(most + AFTER_ALIKE, true);
    let mut spans = simulation.spans;
    spans.truncate(most * items.len());
    (spans, period)
}

impl<'a> Simulation<'a> {
    fn new(items: &'a [Item<'a>], steps: usize) -> Self {
        let queue = |lane: Lane| {
            let of_lane = (0..items.len()).filter(|&i| items[i].lane == lane);
            Queue { items: of_lane.collect(), begun: 0, working: None }
        };
        let all = items.len() * steps;
        Self {
            items,
            queues: Lane::ALL.map(queue),
            done: vec![false; all],
            spans: vec![Span::default(); all],
        }
    }

    /// Goes on until all steps have ended, or it is known when all further ones do: what is between their ends.
    fn run(&mut self, steps: usize, until_alike: bool) -> Option<f64> {
        let mut now = 0.0;
        let mut before: Option<LanePositions> = None;
        let mut ended = 0;
        // The step at whose end to stop, and the time between ends.
        let mut alike: Option<(usize, f64)> = None;
        // Until then an operation may not wait because what it comes after lies before the first step.
        let reach =
            self.items.iter().flat_map(|item| item.after).map(|&(_, distance)| distance as usize).max();
        loop {
            for lane in 0..self.queues.len() {
                self.begin(lane, now, steps);
            }
            let working = |queue: &Queue| queue.working.map(|(_, item, _)| item);
            let on_wire =
                self.queues.iter().filter_map(working).filter(|&item| self.items[item].shares).count();
            let slowed = |item: usize| if self.items[item].shares { on_wire as f64 } else { 1.0 };
            let next = self.queues.iter().filter_map(|queue| queue.working);
            let Some(soonest) = next.map(|(_, item, left)| left * slowed(item)).reduce(f64::min) else {
                return alike.map(|(_, period)| period);
            };
            now += soonest;
            for queue in &mut self.queues {
                let Some((step, item, left)) = &mut queue.working else { continue };
                let slow = if self.items[*item].shares { on_wire as f64 } else { 1.0 };
                *left -= soonest / slow;
                // What is left of the soonest is rounding; what never ends has nothing left that is a number.
                if *left <= 1e-12 || left.is_nan() {
                    let index = *step * self.items.len() + *item;
                    self.done[index] = true;
                    self.spans[index].end_s = now;
                    queue.working = None;
                }
            }
            while until_alike
                && ended < steps
                && self.queues.iter().all(|queue| queue.ended() >= (ended + 1) * queue.items.len())
            {
                ended += 1;
                if let Some((last, period)) = alike {
                    if ended == last {
                        self.spans.truncate(ended * self.items.len());
                        return Some(period);
                    }
                    continue;
                }
                let positions = self.lane_positions(now, ended);
                // A lane that has run ahead to the end of all steps is like nothing that goes on.
                let goes_on = self
                    .queues
                    .iter()
                    .all(|queue| queue.begun < queue.items.len() * steps || queue.items.is_empty());
                let comparable = goes_on && ended > reach.unwrap_or(0);
                let like = before.filter(|before| comparable && positions.is_like(before));
                alike = like.map(|before| (ended + AFTER_ALIKE, now - before.now));
                before = Some(positions);
            }
        }
    }

    /// Where lanes are, now that so many steps have ended.
    fn lane_positions(&self, now: f64, steps: usize) -> LanePositions {
        let lane =
            |queue: &Queue| (queue.begun - steps * queue.items.len(), queue.working.map(|(_, _, left)| left));
        LanePositions { now, lanes: Lane::ALL.map(|i| lane(&self.queues[i as usize])) }
    }

    /// Begins the next operation of an idle lane, if all that it comes after has ended.
    fn begin(&mut self, lane: usize, now: f64, steps: usize) {
        let Queue { items, begun, working } = &mut self.queues[lane];
        if working.is_some() || items.is_empty() || *begun == items.len() * steps {
            return;
        }
        let (step, item) = (*begun / items.len(), items[*begun % items.len()]);
        let ended = |&(PhaseId(other), distance): &(PhaseId, u32)| {
            step.checked_sub(distance as usize).is_none_or(|step| self.done[step * self.items.len() + other])
        };
        if self.items[item].after.iter().all(ended) {
            *working = Some((step, item, self.items[item].seconds.max(0.0)));
            *begun += 1;
            self.spans[step * self.items.len() + item].begin_s = now;
        }
    }
}

impl Queue {
    /// How many operations have ended, over all steps.
    fn ended(&self) -> usize {
        self.begun - usize::from(self.working.is_some())
    }
}

impl LanePositions {
    fn is_like(&self, before: &LanePositions) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= SAME * (self.now - before.now);
        self.lanes.iter().zip(&before.lanes).all(|(now, before)| {
            now.0 == before.0
                && match (now.1, before.1) {
                    (Some(now), Some(before)) => close(now, before),
                    (now, before) => now.is_none() && before.is_none(),
                }
        })
    }
}
