//! Numbers in text, and the transforms of a schema.
//!
//! ```text
//! -12   3.25   .5   1e-3      are numbers; nan, inf, 0x1f and anything with blanks are not
//! none: x                     log: ln(1 + max(x, 0))
//! ```

use spec::schema::Transform;

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

/// Transforms `x`. The result is not finite if it does not fit into an f32.
pub fn transformed(x: f64, transform: Transform) -> f32 {
    match transform {
        Transform::None => x as f32,
        Transform::Log => x.max(0.0).ln_1p() as f32,
    }
}

/// Parses and transforms numbers, with a table of the logarithms of small counts.
#[derive(Debug)]
pub(crate) struct Numbers {
    logs: Vec<f32>,
}

impl Numbers {
    /// Makes the table of logarithms.
    pub fn new() -> Self {
        Self { logs: (0..TABLE).map(|count| transformed(count as f64, Transform::Log)).collect() }
    }

    /// Parses and transforms `text`. `None` unless the number and the result are finite.
    #[inline]
    pub fn parse(&self, text: &[u8], transform: Transform) -> Option<f32> {
        if transform == Transform::Log
            && let Some(count) = integer(text)
            && let Some(&log) = self.logs.get(count.max(0) as usize)
        {
            return Some(log);
        }
        Some(transformed(finite(text)?, transform)).filter(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests;
