//! Axes: which numbers to mark, and how to write them.
//!
//! Marks are multiples of 1, 2 or 5 times a power of ten.

/// Values beyond this are left out of charts: they would make differences overflow.
const LARGEST: f64 = 1e30;
/// Values below this are drawn as zero: powers of ten would vanish.
const SMALLEST: f64 = 1e-30;

/// Whether a chart can show a value.
pub fn shown(value: f64) -> bool {
    value.abs() <= LARGEST
}

/// A range of values with marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Smallest value of the axis.
    pub low: f64,
    /// Largest value of the axis.
    pub high: f64,
    /// Distance between two marks.
    pub step: f64,
}

impl Axis {
    /// An axis from the smallest value to the largest, with about `marks` of them.
    pub fn over(values: impl Iterator<Item = f64>, marks: usize) -> Self {
        let range = values.filter(|v| shown(*v)).fold(None, |range, v| match range {
            None => Some((v, v)),
            Some((low, high)) => Some((v.min(low), v.max(high))),
        });
        let zeroed = |value: f64| if value.abs() < SMALLEST { 0.0 } else { value };
        let (low, high) = range.map_or((0.0, 1.0), |(low, high)| (zeroed(low), zeroed(high)));
        // Equal values, or nearly so, get room of their own size: marks must differ as numbers.
        let least = low.abs().max(high.abs()) * 1e-6;
        let (low, high) = match high - low {
            span if span > least => (low, high),
            _ if low == 0.0 && high == 0.0 => (0.0, 1.0),
            _ => (low - low.abs() * 0.1, high + high.abs() * 0.1),
        };
        Self { low, high, step: step((high - low) / marks.max(1) as f64) }
    }

    /// Whether an axis over these values had better begin at zero: they lie on one side of it, and not far away.
    pub fn is_near_zero(values: impl Iterator<Item = f64>) -> bool {
        let (low, high) = values
            .filter(|v| shown(*v))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (v.min(low), v.max(high)));
        low >= 0.0 && low <= 0.5 * high
    }

    /// Extends the axis so that it begins and ends at marks.
    pub fn rounded(self) -> Self {
        let low = (self.low / self.step + 1e-9).floor() * self.step;
        let high = (self.high / self.step - 1e-9).ceil() * self.step;
        Self { low, high, ..self }
    }

    /// The marked values.
    pub fn marks(&self) -> Vec<f64> {
        let first = (self.low / self.step - 1e-6).ceil() as i64;
        let last = (self.high / self.step + 1e-6).floor() as i64;
        (first..=last).map(|i| i as f64 * self.step).collect()
    }

    /// A mark as text: `0.45`, `200 k`, `5e-6`, with the digits that tell it from the next.
    pub fn label(&self, mark: f64) -> String {
        let largest = self.low.abs().max(self.high.abs());
        let prefixes = [(" T", 1e12), (" G", 1e9), (" M", 1e6), (" k", 1e3)];
        let (prefix, factor) =
            prefixes.into_iter().find(|(_, factor)| largest >= 2.0 * factor).unwrap_or(("", 1.0));
        let digits = |step: f64| (-(step * 1.000_001).log10().floor()).clamp(0.0, 12.0) as usize;
        if mark.abs() < self.step / 2.0 {
            "0".into()
        } else if digits(self.step / factor) > 4 || largest >= 1e16 {
            let digits = digits(self.step / 10f64.powf(mark.abs().log10().floor()));
            format!("{mark:.digits$e}")
        } else {
            format!("{:.1$}{prefix}", mark / factor, digits(self.step / factor))
        }
    }
}

/// The one of 1, 2, 5 × 10ᵏ that is next to `about`.
fn step(about: f64) -> f64 {
    let power = 10f64.powf(about.log10().floor());
    power
        * match about / power {
            m if m < 1.5 => 1.0,
            m if m < 3.5 => 2.0,
            m if m < 7.5 => 5.0,
            _ => 10.0,
        }
}

#[cfg(test)]
mod tests;
