//! The best throughput for every amount of memory.

use super::tally::Found;

/// Points of which none has another that needs no more memory and is as fast, ordered by both.
///
/// It is exact as long as no more than [`Front::MOST`] points are on it at any time. Beyond that, of those whose memory differs by
/// about 1 % only the fastest stays, and [`Front::is_thinned`] says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Front {
    points: Vec<Found>,
    thinned: bool,
}

/// Bins of memory in an octave, where points are thinned.
const BINS: f64 = 64.0;

impl Front {
    /// The most points that it keeps.
    pub const MOST: usize = 4096;

    /// The points, from little memory to much.
    pub fn points(&self) -> &[Found] {
        &self.points
    }

    /// Whether points were left out.
    pub fn is_thinned(&self) -> bool {
        self.thinned
    }

    /// Adds a point, if it is on the front.
    pub fn add(&mut self, found: Found) {
        let (memory, speed) = (found.outcome.memory_bytes, found.outcome.samples_per_s);
        // The fastest of those that need no more.
        let below = self.points.partition_point(|kept| kept.outcome.memory_bytes <= memory);
        if let Some(kept) = below.checked_sub(1).map(|at| &self.points[at]) {
            let same = kept.outcome.memory_bytes == memory && kept.outcome.samples_per_s == speed;
            if kept.outcome.samples_per_s > speed
                || (kept.outcome.samples_per_s == speed && !same)
                || (same && kept.index <= found.index)
            {
                return;
            }
        }
        let first = self.points.partition_point(|kept| kept.outcome.memory_bytes < memory);
        let beaten =
            self.points[first..].iter().take_while(|kept| kept.outcome.samples_per_s <= speed).count();
        self.points.splice(first..first + beaten, [found]);
        if self.points.len() > Self::MOST {
            self.thin();
        }
    }

    /// Adds the points of another.
    pub fn merge(&mut self, other: &Front) {
        self.thinned |= other.thinned;
        for &found in &other.points {
            self.add(found);
        }
    }

    /// Keeps the fastest of every bin: 64 octaves have as many bins as may stay.
    fn thin(&mut self) {
        self.thinned = true;
        let bin = |found: &Found| (found.outcome.memory_bytes.max(1.0).log2().min(63.9) * BINS) as u32;
        let mut kept: Vec<Found> = Vec::with_capacity(Self::MOST);
        for &found in &self.points {
            match kept.last_mut() {
                Some(last) if bin(last) == bin(&found) => *last = found,
                _ => kept.push(found),
            }
        }
        self.points = kept;
    }
}
