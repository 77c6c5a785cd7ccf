//! Unsigned integers of 8, 4 and 2 bits: `x ≈ scale · code + minimum` (Eq. 1 of Yang et al., 2020).
//!
//! `code = round((x/4 − minimum/4) · (4 / scale))`: quarters, so that neither a difference overflows nor an inverse becomes
//! subnormal. The error is at most half a scale, plus a few units in the last place of the minimum and of the range.

use super::{SMALLEST_SCALE, rounds_up};

/// Values from here on need a reduced scale, so that the largest code is not decoded to an infinity.
pub(crate) const HUGE: f32 = f32::MAX / 2.0;
/// Factor of a reduced scale.
pub(crate) const REDUCED: f32 = 1.0 - 2.0 * f32::EPSILON;

/// Largest code of `bits` bits.
#[inline(always)]
pub(crate) fn most(bits: usize) -> f32 {
    ((1u32 << bits) - 1) as f32
}

/// Values that a row can be decoded to: `low + scale · code`.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Distance between neighbours; 0 if all values of the row are equal.
    pub scale: f32,
    /// Smallest value of the row; never a negative zero.
    pub low: f32,
    /// A quarter of the smallest value.
    pub quarter: f32,
    /// Four divided by the scale, or 0.
    pub inverse: f32,
    /// Largest code.
    pub most: f32,
}

impl Grid {
    /// Grid of codes of `bits` bits, for a row of finite values between `low` and `high`.
    pub fn new(bits: usize, low: f32, high: f32) -> Self {
        let most = most(bits);
        let low = low + 0.0;
        let mut scale = (high * 0.5 - low * 0.5) / (most * 0.5);
        if scale < SMALLEST_SCALE {
            scale = SMALLEST_SCALE;
        }
        if high >= HUGE {
            scale *= REDUCED;
        }
        let constant = high == low;
        Self {
            scale: if constant { 0.0 } else { scale },
            low,
            quarter: low * 0.25,
            inverse: if constant { 0.0 } else { 4.0 / scale },
            most,
        }
    }

    /// Code of a value of the row, to nearest even, or at random if it has a random number.
    pub fn encoded(&self, value: f32, die: Option<u32>) -> u8 {
        let place = ((value * 0.25 - self.quarter) * self.inverse).min(self.most);
        let code = match die {
            None => place.round_ties_even(),
            Some(die) if rounds_up(place - place.floor(), die) => place.floor() + 1.0,
            Some(_) => place.floor(),
        };
        code as u8
    }
}
