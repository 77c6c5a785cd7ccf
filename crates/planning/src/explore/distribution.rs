//! Distribution of times, in a fixed number of bins.

/// Counts of times in bins that are equal on a logarithmic scale: 64 a decade, from a nanosecond to a million seconds. What a
/// bin holds differs by less than 4 %; the smallest and the largest time are exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    bins: Vec<u64>,
    count: u64,
    least: f64,
    most: f64,
}

const PER_DECADE: f64 = 64.0;
const DECADES: f64 = 15.0;
const FIRST: f64 = 1e-9;

impl Default for Distribution {
    fn default() -> Self {
        let bins = vec![0; (PER_DECADE * DECADES) as usize];
        Self { bins, count: 0, least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Distribution {
    /// Counts a time; below and above all bins it is in the first or last.
    pub fn add(&mut self, seconds: f64) {
        let at = (seconds.max(FIRST) / FIRST).log10() * PER_DECADE;
        let last = self.bins.len() - 1;
        self.bins[(at as usize).min(last)] += 1;
        self.count += 1;
        (self.least, self.most) = (self.least.min(seconds), self.most.max(seconds));
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Distribution) {
        for (count, other) in self.bins.iter_mut().zip(&other.bins) {
            *count += other;
        }
        self.count += other.count;
        (self.least, self.most) = (self.least.min(other.least), self.most.max(other.most));
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest and the largest, if there are any.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.count > 0).then_some((self.least, self.most))
    }

    /// The cumulative distribution: times, and the part of all that takes no longer; only where it rises.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let Some((least, most)) = self.range() else { return Vec::new() };
        let mut sum = 0;
        let mut curve = vec![(least, 0.0)];
        for (bin, &count) in self.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
            sum += count;
            let end = FIRST * 10f64.powf((bin + 1) as f64 / PER_DECADE);
            curve.push((end.clamp(least, most), sum as f64 / self.count as f64));
        }
        curve
    }

    /// The time that a part of all does not exceed, to within its bin.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let curve = self.cumulative();
        curve.iter().find(|(_, below)| *below >= part).or(curve.last()).map(|(seconds, _)| *seconds)
    }
}
