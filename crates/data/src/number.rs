//! Numbers in text, and the transforms of a schema.
//!
//! ```text
//! -12   3.25   .5   1e-3      are numbers; nan, inf, 0x1f and anything with blanks are not
//! none: x                     log: ln(1 + max(x, 0))            others: see `spec::schema::LearntStep`
//! ```

mod input;

pub use input::Input;

use spec::schema::LearntStep;

/// Number of counts whose logarithm is in a table.
const TABLE: usize = 4096;

/// Parses a whole number of at most 18 digits, which cannot overflow.
#[inline]
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// Parses a finite number.
pub fn finite(text: &[u8]) -> Option<f64> {
    if let Some(value) = integer(text) {
        return Some(value as f64);
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Bits of a finite number in an order that is that of numbers: keys of equal numbers are equal, and a larger number has a
/// larger key.
pub(crate) fn ordered_key(x: f64) -> u64 {
    // Adding 0 makes −0 the same as 0.
    let bits = (x + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Number of a key in [`Samples`](crate::Samples) whose ids are numbers; `None` for a missing number.
pub fn of_ordered_key(key: u64) -> Option<f64> {
    (key != MISSING_KEY).then(|| f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key }))
}

/// Key for a missing number among ordered keys. No finite number has it.
pub(crate) const MISSING_KEY: u64 = u64::MAX;

/// Parses and transforms numbers, with a table of the logarithms of small counts.
#[derive(Debug)]
pub(crate) struct Numbers {
    logs: Vec<f32>,
}

impl Numbers {
    /// Makes the table of logarithms.
    pub fn new() -> Self {
        Self { logs: (0..TABLE).map(|count| LearntStep::Log.apply(count as f64) as f32).collect() }
    }

    /// Parses and transforms `text`. `None` unless the number and the result are finite.
    #[inline]
    pub fn parse(&self, text: &[u8], input: &Input) -> Option<f32> {
        if input.is_log()
            && let Some(count) = integer(text)
            && let Some(&log) = self.logs.get(count.max(0) as usize)
        {
            return Some(log);
        }
        input.number(finite(text)?)
    }
}

#[cfg(test)]
mod tests;
