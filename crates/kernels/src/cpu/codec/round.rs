//! Rounding of numbers from 0 up to 2²², without instructions that only some machines have.

use super::lanes::Lanes;
use crate::op::codec::Dice;

/// From here to twice of it floats are the whole numbers: an addition rounds to nearest even, and the lower bits are the result.
const WHOLE: f32 = 8_388_608.0;

/// Rounds numbers that are not negative to whole ones.
pub(super) trait Rounding: Copy {
    /// Rounds the numbers of the values from `first` on, counted from the start of the row.
    fn round<L: Lanes>(self, x: L::F, first: usize) -> L::I;
}

/// To nearest even.
#[derive(Clone, Copy)]
pub(super) struct Nearest;

impl Rounding for Nearest {
    #[inline(always)]
    fn round<L: Lanes>(self, x: L::F, _: usize) -> L::I {
        L::and(L::bits(L::add(x, L::splat(WHOLE))), L::splat_bits(0x007f_ffff))
    }
}

/// Up or down by a random number.
#[derive(Clone, Copy)]
pub(super) struct Random {
    pub dice: Dice,
    /// Offset of the first value of the row.
    pub offset: u32,
}

impl Rounding for Random {
    #[inline(always)]
    fn round<L: Lanes>(self, x: L::F, first: usize) -> L::I {
        let nearest = L::sub(L::add(x, L::splat(WHOLE)), L::splat(WHOLE));
        let floor = L::if_less(x, nearest, L::sub(nearest, L::splat(1.0)), nearest);
        let offset = L::splat_bits(self.offset.wrapping_add(first as u32));
        let die = L::floats(self.throw::<L>(L::add_bits(offset, L::count())));
        let fraction = L::mul(L::sub(x, floor), L::splat(16_777_216.0));
        let up = L::if_less(die, fraction, L::splat(1.0), L::splat(0.0));
        Nearest.round::<L>(L::add(floor, up), first)
    }
}

impl Random {
    /// Random numbers of 24 bits, as [`ground::random::word`] gives them one by one.
    #[inline(always)]
    fn throw<L: Lanes>(self, offset: L::I) -> L::I {
        let [low, high] = self.dice.halves().map(L::splat_bits);
        let x = L::add_bits(low, L::mul_bits(offset, L::splat_bits(0x9e37_79b9)));
        let x = L::mul_bits(L::xor(x, L::right::<16>(x)), L::splat_bits(0x7feb_352d));
        let x = L::xor(x, high);
        let x = L::mul_bits(L::xor(x, L::right::<15>(x)), L::splat_bits(0x846c_a68b));
        L::right::<8>(L::xor(x, L::right::<16>(x)))
    }
}
