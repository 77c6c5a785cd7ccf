//! Rounding of numbers from 0 up to 2²², without instructions that only some machines have.

use crate::op::codec::Dice;

/// From here to twice of it floats are the whole numbers: an addition rounds to nearest even, and the lower bits are the result.
const WHOLE: f32 = 8_388_608.0;

/// Rounds numbers that are not negative to whole ones.
pub(super) trait Rounding: Copy {
    /// Rounds the number of lane `lane`.
    fn round(self, x: f32, lane: usize) -> u32;

    /// Rounding where lane 0 has the value that lies `values` further on.
    fn further(self, values: usize) -> Self;
}

/// To nearest even.
#[derive(Clone, Copy)]
pub(super) struct Nearest;

impl Rounding for Nearest {
    #[inline(always)]
    fn round(self, x: f32, _: usize) -> u32 {
        (x + WHOLE).to_bits() & 0x007f_ffff
    }

    #[inline(always)]
    fn further(self, _: usize) -> Self {
        self
    }
}

/// Up or down by a random number; the value in lane 0 has the offset `first`.
#[derive(Clone, Copy)]
pub(super) struct Random {
    pub dice: Dice,
    pub first: u32,
}

impl Rounding for Random {
    #[inline(always)]
    fn round(self, x: f32, lane: usize) -> u32 {
        let nearest = (x + WHOLE) - WHOLE;
        let floor = if nearest > x { nearest - 1.0 } else { nearest };
        let die = self.dice.throw(self.first.wrapping_add(lane as u32)) as i32 as f32;
        let up = if die < (x - floor) * 16_777_216.0 { 1.0 } else { 0.0 };
        (floor + up + WHOLE).to_bits() & 0x007f_ffff
    }

    #[inline(always)]
    fn further(self, values: usize) -> Self {
        Self { first: self.first.wrapping_add(values as u32), ..self }
    }
}
