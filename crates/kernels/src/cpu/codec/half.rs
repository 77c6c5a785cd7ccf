//! Codecs without header: f32 as it is, bf16 by plain loops, f16 by the machine's conversions where it has them.

use super::lanes::{LANES, Lanes};
use super::round::{Random, Rounding};
use super::{Put, RowCodec, Shape};
use crate::op::codec::Dice;

/// The identity.
#[derive(Clone, Copy)]
pub(super) struct F32;

/// IEEE half precision.
#[derive(Clone, Copy)]
pub(super) struct F16;

/// The upper half of an f32.
#[derive(Clone, Copy)]
pub(super) struct Bf16;

impl RowCodec for F32 {
    #[inline(always)]
    fn encode<L: Lanes>(self, _: Shape, from: &[f32], _: Option<Dice>, _: u32, to: &mut [u8]) -> bool {
        to.copy_from_slice(bytemuck::cast_slice(from));
        true
    }

    #[inline(always)]
    fn decode<L: Lanes>(self, _: Shape, from: &[u8], to: &mut [f32], put: impl Put) {
        for (to, from) in to.iter_mut().zip(from.as_chunks::<4>().0) {
            put.put_one(to, f32::from_ne_bytes(*from));
        }
    }
}

impl RowCodec for F16 {
    #[inline(always)]
    fn encode<L: Lanes>(
        self,
        _: Shape,
        from: &[f32],
        dice: Option<Dice>,
        offset: u32,
        to: &mut [u8],
    ) -> bool {
        let (chunks, tail) = from.as_chunks::<LANES>();
        let (to, last) = to.as_chunks_mut::<{ 2 * LANES }>();
        match dice {
            None => {
                for (values, to) in chunks.iter().zip(to) {
                    *to = L::halves(L::load(values));
                }
            }
            Some(dice) => {
                for (i, (values, to)) in chunks.iter().zip(to).enumerate() {
                    *to = L::halves(on_grid::<L>(L::load(values), Random { dice, offset }, i * LANES));
                }
            }
        }
        if !tail.is_empty() {
            let values = L::load_some(tail, L::splat(0.0));
            let rounded = match dice {
                None => values,
                Some(dice) => on_grid::<L>(values, Random { dice, offset }, chunks.len() * LANES),
            };
            last.copy_from_slice(&L::halves(rounded)[..2 * tail.len()]);
        }
        true
    }

    #[inline(always)]
    fn decode<L: Lanes>(self, _: Shape, from: &[u8], to: &mut [f32], put: impl Put) {
        let (chunks, tail) = to.as_chunks_mut::<LANES>();
        let (from, last) = from.as_chunks::<{ 2 * LANES }>();
        for (to, from) in chunks.iter_mut().zip(from) {
            put.put::<L>(to, L::of_halves(from));
        }
        if !tail.is_empty() {
            let mut halves = [0; 2 * LANES];
            halves[..last.len()].copy_from_slice(last);
            put.put_some::<L>(tail, L::of_halves(&halves));
        }
    }
}

impl RowCodec for Bf16 {
    #[inline(always)]
    fn encode<L: Lanes>(
        self,
        _: Shape,
        from: &[f32],
        dice: Option<Dice>,
        offset: u32,
        to: &mut [u8],
    ) -> bool {
        let all = to.as_chunks_mut::<2>().0.iter_mut().zip(from);
        match dice {
            None => all.for_each(|(to, value)| *to = to_bf16(*value).to_ne_bytes()),
            Some(dice) => all.enumerate().for_each(|(i, (to, value))| {
                *to = to_bf16_at_random(*value, dice.throw(offset.wrapping_add(i as u32))).to_ne_bytes();
            }),
        }
        true
    }

    #[inline(always)]
    fn decode<L: Lanes>(self, _: Shape, from: &[u8], to: &mut [f32], put: impl Put) {
        for (to, from) in to.iter_mut().zip(from.as_chunks::<2>().0) {
            put.put_one(to, f32::from_bits(u32::from(u16::from_ne_bytes(*from)) << 16));
        }
    }
}

/// The upper 16 bits, rounded to nearest even; a NaN keeps them and is made quiet, so that none becomes an infinity.
#[inline(always)]
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let bits = if value.is_nan() { bits | 0x0040_0000 } else { rounded };
    (bits >> 16) as u16
}

/// The upper 16 bits, rounded away from zero if the lower ones are above the random number.
#[inline(always)]
fn to_bf16_at_random(value: f32, die: u32) -> u16 {
    let bits = value.to_bits();
    let up = if (die as i32) < ((bits & 0xffff) << 8) as i32 { 0x1_0000 } else { 0 };
    let bits = if value.is_nan() { bits | 0x0040_0000 } else { bits.wrapping_add(up) };
    (bits >> 16) as u16
}

/// Neighbours of the values among those of f16, and of those that f16 would have with more bits of exponent.
#[inline(always)]
fn on_grid<L: Lanes>(values: L::F, rounding: impl Rounding, first: usize) -> L::F {
    const MANTISSA: u32 = 10;
    const NORMAL: u32 = (127 - 14) << 23;
    let bits = L::bits(values);
    let exponent = L::and(bits, L::splat_bits(0x7f80_0000));
    let clamped = L::max_bits(exponent, L::splat_bits(NORMAL));
    let inverse = L::of_bits(L::sub_bits(L::splat_bits((254 + MANTISSA) << 23), clamped));
    let magnitude = L::of_bits(L::and(bits, L::splat_bits(0x7fff_ffff)));
    let units = L::floats(rounding.round::<L>(L::mul(magnitude, inverse), first));
    let unit = L::of_bits(L::sub_bits(clamped, L::splat_bits(MANTISSA << 23)));
    let sign = L::and(bits, L::splat_bits(0x8000_0000));
    let on_grid = L::or(L::bits(L::mul(units, unit)), sign);
    // Infinities and NaNs stay.
    L::of_bits(L::if_more(exponent, L::splat_bits(0x7f7f_ffff), bits, on_grid))
}
