//! Rows of 8-bit codes: `minimum + scale · code` with codes from 0 to 255.
//!
//! A row is stored as its codes, then its scale, then its minimum, both f32: the layout that PyTorch's `embedding_bag_byte` reads. Scale
//! and minimum follow from the smallest and the largest weight whenever a row is written, so that no weight is cut off. A row with a
//! weight that is not finite, or of a range that is not, becomes NaN as a whole: the loss shows it at the next step.
//!
//! Loops are counted and have no closures, so that they become vector instructions of whatever processor they are compiled for.

use crate::row_store::RowRounding;
use ground::random::word;
use ground::table_format::TableFormat;

/// Bytes behind the codes.
pub(crate) const EXTRA: usize = TableFormat::INT8_EXTRA;
/// The largest code.
const MOST: f32 = 255.0;
/// 2²³, the first number next to which there are no fractions.
const WHOLE: f32 = 8_388_608.0;
/// Weights of which the smallest and the largest are kept side by side.
const LANES: usize = 16;

/// Scale and minimum of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub scale: f32,
    pub minimum: f32,
}

impl Range {
    /// The range that a stored row names.
    #[inline(always)]
    pub(crate) fn of(row: &[u8]) -> Self {
        let at = row.len() - EXTRA;
        let float = |at: usize| f32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
        Self { scale: float(at), minimum: float(at + size_of::<f32>()) }
    }

    /// The weight of a code: two roundings, the same on every device.
    #[inline(always)]
    pub(crate) fn weight(self, code: u8) -> f32 {
        self.minimum + self.scale * f32::from(code)
    }

    /// The range of some weights.
    #[inline(always)]
    fn covering(weights: &[f32]) -> Self {
        let Some(&first) = weights.first() else { return Self { scale: 0.0, minimum: 0.0 } };
        let (mut least, mut most, mut finite) = ([first; LANES], [first; LANES], [true; LANES]);
        let (whole, rest) = weights.as_chunks::<LANES>();
        for chunk in whole {
            for lane in 0..LANES {
                let x = chunk[lane];
                least[lane] = if x < least[lane] { x } else { least[lane] };
                most[lane] = if x > most[lane] { x } else { most[lane] };
                finite[lane] &= x.abs() <= f32::MAX;
            }
        }
        for lane in 0..rest.len() {
            let x = rest[lane];
            least[lane] = if x < least[lane] { x } else { least[lane] };
            most[lane] = if x > most[lane] { x } else { most[lane] };
            finite[lane] &= x.abs() <= f32::MAX;
        }
        let (mut minimum, mut maximum, mut all_finite) = (first, first, true);
        for lane in 0..LANES {
            minimum = if least[lane] < minimum { least[lane] } else { minimum };
            maximum = if most[lane] > maximum { most[lane] } else { maximum };
            all_finite &= finite[lane];
        }
        let scale = (maximum - minimum) / MOST;
        if !all_finite || scale > f32::MAX {
            return Self { scale: 0.0, minimum: f32::NAN };
        }
        // Weights that differ by less than a normal float are one weight; there is one zero.
        Self { scale: if scale < f32::MIN_POSITIVE { 0.0 } else { scale }, minimum: minimum + 0.0 }
    }
}

/// The weights of a stored row.
#[inline(always)]
pub(crate) fn decode(row: &[u8], to: &mut [f32]) {
    let range = Range::of(row);
    let count = to.len().min(row.len() - EXTRA);
    let (codes, to) = (&row[..count], &mut to[..count]);
    for i in 0..count {
        to[i] = range.weight(codes[i]);
    }
}

/// Stores a row of weights.
#[inline(always)]
pub(crate) fn encode(from: &[f32], RowRounding { bits, first_column }: RowRounding, row: &mut [u8]) {
    let range = Range::covering(from);
    let (codes, extra) = row.split_at_mut(from.len());
    extra[..4].copy_from_slice(&range.scale.to_le_bytes());
    extra[4..].copy_from_slice(&range.minimum.to_le_bytes());
    let steps = if range.scale > 0.0 { 1.0 / range.scale } else { 0.0 };
    let (minimum, count) = (range.minimum, from.len().min(codes.len()));
    let (from, codes) = (&from[..count], &mut codes[..count]);
    match bits {
        None => {
            for i in 0..count {
                // Next to 2²³ there are no fractions: the addition rounds to the nearest whole number, ties to even.
                codes[i] = code((from[i] - minimum) * steps + WHOLE - WHOLE);
            }
        }
        Some(bits) => {
            for i in 0..count {
                // Of [0, 1), with 24 bits.
                let chance = (word(bits, first_column.wrapping_add(i as u32)) >> 8) as f32 / 16_777_216.0;
                codes[i] = code((from[i] - minimum) * steps + chance);
            }
        }
    }
}

/// The whole part of a number of steps, as a code.
#[inline(always)]
fn code(steps: f32) -> u8 {
    // In this order NaN becomes 0, and the conversion meets no number that it would have to check.
    let above = if steps > 0.0 { steps } else { 0.0 };
    let inside = if above < MOST { above } else { MOST };
    inside as i32 as u8
}
