//! Codecs without header: f32 as it is, bf16 by integer arithmetic, f16 by the machine's conversions where it has them.

use super::round::{Random, Rounding};
use super::{Put, RowCodec};
use crate::cpu::level::{Level, from_f16, to_f16};
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

/// Values that are converted on their way to another place.
const PIECE: usize = 256;

impl RowCodec for F32 {
    #[inline(always)]
    fn encode(self, _: Level, row: &[f32], _: Option<Dice>, _: u32, to: &mut [u8]) -> bool {
        to.copy_from_slice(bytemuck::cast_slice(row));
        true
    }

    #[inline(always)]
    fn decode<P: Put>(self, _: Level, from: &[u8], row: &mut [f32]) {
        for (to, from) in row.iter_mut().zip(from.as_chunks::<4>().0) {
            P::put(to, f32::from_ne_bytes(*from));
        }
    }
}

impl RowCodec for F16 {
    #[inline(always)]
    fn encode(self, level: Level, row: &[f32], dice: Option<Dice>, offset: u32, to: &mut [u8]) -> bool {
        let Some(dice) = dice else {
            to_f16(level, row, to);
            return true;
        };
        for (i, (row, to)) in row.chunks(PIECE).zip(to.chunks_mut(2 * PIECE)).enumerate() {
            let (mut values, first) = ([0.0; PIECE], offset.wrapping_add((i * PIECE) as u32));
            for (lane, (to, value)) in values.iter_mut().zip(row).enumerate() {
                *to = on_f16_grid(*value, Random { dice, first }, lane);
            }
            to_f16(level, &values[..row.len()], to);
        }
        true
    }

    #[inline(always)]
    fn decode<P: Put>(self, level: Level, from: &[u8], row: &mut [f32]) {
        for (row, from) in row.chunks_mut(PIECE).zip(from.chunks(2 * PIECE)) {
            let mut values = [0.0; PIECE];
            from_f16(level, from, &mut values[..row.len()]);
            row.iter_mut().zip(values).for_each(|(to, value)| P::put(to, value));
        }
    }
}

impl RowCodec for Bf16 {
    #[inline(always)]
    fn encode(self, _: Level, row: &[f32], dice: Option<Dice>, offset: u32, to: &mut [u8]) -> bool {
        let all = to.as_chunks_mut::<2>().0.iter_mut().zip(row);
        match dice {
            None => all.for_each(|(to, value)| *to = to_bf16(*value).to_ne_bytes()),
            Some(dice) => all.enumerate().for_each(|(i, (to, value))| {
                *to = to_bf16_at_random(*value, dice.throw(offset.wrapping_add(i as u32))).to_ne_bytes();
            }),
        }
        true
    }

    #[inline(always)]
    fn decode<P: Put>(self, _: Level, from: &[u8], row: &mut [f32]) {
        for (to, from) in row.iter_mut().zip(from.as_chunks::<2>().0) {
            P::put(to, f32::from_bits(u32::from(u16::from_ne_bytes(*from)) << 16));
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

/// A neighbour of the value among those of f16, and of those that f16 would have with more bits of exponent.
#[inline(always)]
fn on_f16_grid(value: f32, rounding: impl Rounding, lane: usize) -> f32 {
    const MANTISSA: u32 = 10;
    const NORMAL: u32 = (127 - 14) << 23;
    let bits = value.to_bits();
    let exponent = (bits & 0x7f80_0000).max(NORMAL);
    let inverse = f32::from_bits(((254 + MANTISSA) << 23) - exponent);
    let units = rounding.round(f32::from_bits(bits & 0x7fff_ffff) * inverse, lane);
    let magnitude = units as i32 as f32 * f32::from_bits(exponent - (MANTISSA << 23));
    let on_grid = f32::from_bits(magnitude.to_bits() | bits & 0x8000_0000);
    if bits & 0x7f80_0000 == 0x7f80_0000 { value } else { on_grid }
}
