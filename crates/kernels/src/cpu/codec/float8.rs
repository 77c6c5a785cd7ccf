//! Floats of 8 bits with a scale for each row, by integer arithmetic on the bits of f32.

use super::round::{Nearest, Random, Rounding};
use super::{LANES, Put, RowCodec};
use crate::cpu::level::Level;
use crate::op::codec::Dice;
use crate::reference::codec::float8::{Format, inverse};

/// Codec of a format with this many bits of mantissa: 3 (e4m3) or 2 (e5m2).
#[derive(Clone, Copy)]
pub(super) struct Float8<const MANTISSA: u32>;

/// Exponent bits of f32.
const EXPONENT: u32 = 0x7f80_0000;

impl<const MANTISSA: u32> Float8<MANTISSA> {
    const FORMAT: Format = if MANTISSA == 3 { Format::E4M3 } else { Format::E5M2 };
    /// Bits of f32 of the smallest value that has the full precision.
    const NORMAL: u32 = ((128 - Self::FORMAT.bias) as u32) << 23;

    /// Code of a value.
    #[inline(always)]
    fn code(value: f32, rounding: impl Rounding, lane: usize) -> u8 {
        let bits = value.to_bits();
        // Distance of the neighbours of the value, 2^(exponent − MANTISSA): the value in units of it has at most MANTISSA + 1 bits
        // before the point.
        let exponent = (bits & EXPONENT).max(Self::NORMAL);
        let inverse = f32::from_bits(((254 + MANTISSA) << 23) - exponent);
        let units = rounding.round(f32::from_bits(bits & 0x7fff_ffff) * inverse, lane);
        let code = ((exponent - Self::NORMAL) >> (23 - MANTISSA)) + units;
        (code.min(u32::from(Self::FORMAT.most)) | bits >> 24 & 0x80) as u8
    }

    /// Value of a code.
    #[inline(always)]
    fn value(code: u8) -> f32 {
        let (magnitude, sign) = (u32::from(code & 0x7f), u32::from(code & 0x80) << 24);
        let bits = magnitude << (23 - MANTISSA);
        let normal = bits + ((127 - Self::FORMAT.bias) << 23) as u32;
        // Below the normal values the distance of neighbours stays as it is: what a leading one adds goes off again.
        let small = f32::from_bits(bits | Self::NORMAL) - f32::from_bits(Self::NORMAL);
        let special = bits & 0x007f_ffff | EXPONENT;
        let bits = if magnitude >> MANTISSA == 0 { small.to_bits() } else { normal };
        let bits = if magnitude > u32::from(Self::FORMAT.most) { special } else { bits };
        f32::from_bits(bits | sign)
    }

    /// Encodes values.
    #[inline(always)]
    fn codes(row: &[f32], inverse: f32, rounding: impl Rounding, to: &mut [u8]) {
        let (chunks, tail) = row.as_chunks::<LANES>();
        let (to_chunks, to_tail) = to.as_chunks_mut::<LANES>();
        for (i, (values, to)) in chunks.iter().zip(to_chunks).enumerate() {
            let rounding = rounding.further(i * LANES);
            for lane in 0..LANES {
                to[lane] = Self::code(values[lane] * inverse, rounding, lane);
            }
        }
        let rounding = rounding.further(chunks.len() * LANES);
        for (lane, (to, value)) in to_tail.iter_mut().zip(tail).enumerate() {
            *to = Self::code(value * inverse, rounding, lane);
        }
    }
}

impl<const MANTISSA: u32> RowCodec for Float8<MANTISSA> {
    #[inline(always)]
    fn encode(self, _: Level, row: &[f32], dice: Option<Dice>, offset: u32, to: &mut [u8]) -> bool {
        let most = largest(row);
        if most >= EXPONENT {
            return false;
        }
        let scale = Self::FORMAT.scale(f32::from_bits(most));
        let (header, codes) = to.split_at_mut(4);
        header.copy_from_slice(&scale.to_ne_bytes());
        match dice {
            None => Self::codes(row, inverse(scale), Nearest, codes),
            Some(dice) => Self::codes(row, inverse(scale), Random { dice, first: offset }, codes),
        }
        true
    }

    #[inline(always)]
    fn decode<P: Put>(self, _: Level, from: &[u8], row: &mut [f32]) {
        let Some((scale, codes)) = from.split_first_chunk::<4>() else { return };
        let scale = f32::from_ne_bytes(*scale);
        for (to, code) in row.iter_mut().zip(codes) {
            P::put(to, scale * Self::value(*code));
        }
    }
}

/// Bits of the largest absolute value of a row; those of an infinity or a NaN are the largest.
#[inline(always)]
fn largest(row: &[f32]) -> u32 {
    let mut most = [0; LANES];
    let (chunks, tail) = row.as_chunks::<LANES>();
    for values in chunks {
        for lane in 0..LANES {
            most[lane] = most[lane].max(values[lane].to_bits() & 0x7fff_ffff);
        }
    }
    for (most, value) in most.iter_mut().zip(tail) {
        *most = (*most).max(value.to_bits() & 0x7fff_ffff);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            most[i] = most[i].max(most[i + half]);
        }
        half /= 2;
    }
    most[0]
}
