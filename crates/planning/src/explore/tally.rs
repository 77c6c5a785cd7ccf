//! Tally of many outcomes, in a fixed amount of memory.

use super::distribution::Distribution;
use super::evaluate::Outcome;
use super::front::Front;
use std::collections::BTreeMap;

/// An outcome, and the number of its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The point's number in its space.
    pub index: usize,
    /// Outcome of the point.
    pub outcome: Outcome,
}

/// The best of some points.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Best {
    /// Best of the points that fit.
    pub within_memory: Option<Found>,
    /// Best of all points, if memory were free.
    pub memory_free: Option<Found>,
}

/// Points that were refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refused {
    /// Number of points that do not fit, by the largest part of their memory.
    pub too_big: BTreeMap<&'static str, u64>,
    /// Points that cannot be.
    pub impossible: u64,
    /// Number of the first impossible point, and the reason.
    pub first: Option<(usize, String)>,
}

/// Tally of the outcomes of many points.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// Points that were looked at.
    pub count: u64,
    /// Points that do not fit or cannot be, by reason.
    pub refused: Refused,
    /// The best of all.
    pub best: Best,
    /// The fastest that fit, best first; as many as were asked for.
    pub top: Vec<Found>,
    /// Throughput against memory.
    pub front: Front,
    /// Seconds of a step, of all that could be priced.
    pub times: Distribution,
    top_most: usize,
}

impl Found {
    /// Faster, or as fast and earlier: so that results do not hang on the order in which points are looked at.
    pub fn beats(&self, other: &Found) -> bool {
        let speeds = (self.outcome.samples_per_s, other.outcome.samples_per_s);
        speeds.0 > speeds.1 || (speeds.0 == speeds.1 && self.index < other.index)
    }

    fn or_better(self, other: Option<Found>) -> Option<Found> {
        Some(other.filter(|other| !self.beats(other)).unwrap_or(self))
    }
}

impl Best {
    /// Takes note of a point.
    pub fn add(&mut self, found: Found) {
        self.memory_free = found.or_better(self.memory_free);
        if found.outcome.fits {
            self.within_memory = found.or_better(self.within_memory);
        }
    }

    /// The better of both.
    pub fn merge(&mut self, other: &Best) {
        self.memory_free =
            other.memory_free.map_or(self.memory_free, |found| found.or_better(self.memory_free));
        self.within_memory =
            other.within_memory.map_or(self.within_memory, |found| found.or_better(self.within_memory));
    }
}

impl Refused {
    /// Number of points that do not fit.
    pub fn too_big(&self) -> u64 {
        self.too_big.values().sum()
    }

    fn merge(&mut self, other: Refused) {
        for (part, count) in other.too_big {
            *self.too_big.entry(part).or_default() += count;
        }
        self.impossible += other.impossible;
        self.first = match (self.first.take(), other.first) {
            (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
            (a, b) => a.or(b),
        };
    }
}

impl Tally {
    /// An empty tally that will keep so many of the fastest points.
    pub fn new(top: usize) -> Self {
        Self {
            count: 0,
            refused: Refused::default(),
            best: Best::default(),
            top: Vec::new(),
            front: Front::default(),
            times: Distribution::default(),
            top_most: top,
        }
    }

    /// Takes note of a point.
    pub fn add(&mut self, index: usize, outcome: &Result<Outcome, String>) {
        self.count += 1;
        match outcome {
            Ok(outcome) => {
                let found = Found { index, outcome: *outcome };
                self.best.add(found);
                self.front.add(found);
                self.times.add(outcome.iteration_s);
                match outcome.too_big {
                    Some(part) => *self.refused.too_big.entry(part).or_default() += 1,
                    None => self.add_top(found),
                }
            }
            Err(why) => {
                self.refused.impossible += 1;
                if self.refused.first.as_ref().is_none_or(|(first, _)| index < *first) {
                    self.refused.first = Some((index, why.clone()));
                }
            }
        }
    }

    fn add_top(&mut self, found: Found) {
        let at = self.top.partition_point(|kept| kept.beats(&found));
        if at < self.top_most {
            self.top.truncate(self.top_most - 1);
            self.top.insert(at, found);
        }
    }

    /// Adds what another has seen.
    pub fn merge(&mut self, other: Tally) {
        self.count += other.count;
        self.refused.merge(other.refused);
        self.best.merge(&other.best);
        self.front.merge(&other.front);
        self.times.merge(&other.times);
        for found in other.top {
            self.add_top(found);
        }
    }
}
