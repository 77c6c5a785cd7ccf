//! Floats of 8 bits with a scale for each row, by arithmetic on the bits of f32.

use super::lanes::{LANES, Lanes, load_bytes, store_bytes};
use super::round::{Nearest, Random, Rounding};
use super::{Put, RowCodec, Shape};
use crate::op::codec::Dice;
use crate::reference::codec::float8::{Format, inverse};

/// Codec of a format with this many bits of mantissa, and as many as are left of 23: 3 and 20 (e4m3), 2 and 21 (e5m2).
#[derive(Clone, Copy)]
pub(super) struct Float8<const MANTISSA: u32, const REST: u32>;

/// Exponent bits of f32.
const EXPONENT: u32 = 0x7f80_0000;
/// All bits of f32 but the sign.
const MAGNITUDE: u32 = 0x7fff_ffff;
/// Size of the scale, in bytes.
const HEADER: usize = 4;

impl<const MANTISSA: u32, const REST: u32> RowCodec for Float8<MANTISSA, REST> {
    #[inline(always)]
    fn encode<L: Lanes>(
        self,
        shape: Shape,
        from: &[f32],
        dice: Option<Dice>,
        offset: u32,
        to: &mut [u8],
    ) -> bool {
        let rows = from.chunks_exact(shape.width).zip(to.chunks_exact_mut(shape.bytes));
        let mut finite = true;
        match dice {
            None => {
                for (row, to) in rows {
                    finite &= Self::encode_row::<L>(row, Nearest, to);
                }
            }
            Some(dice) => {
                for (r, (row, to)) in rows.enumerate() {
                    let offset = offset.wrapping_add((r * shape.width) as u32);
                    finite &= Self::encode_row::<L>(row, Random { dice, offset }, to);
                }
            }
        }
        finite
    }

    #[inline(always)]
    fn decode<L: Lanes>(self, shape: Shape, from: &[u8], to: &mut [f32], put: impl Put) {
        for (from, row) in from.chunks_exact(shape.bytes).zip(to.chunks_exact_mut(shape.width)) {
            Self::decode_row::<L>(from, row, put);
        }
    }
}

impl<const MANTISSA: u32, const REST: u32> Float8<MANTISSA, REST> {
    const FORMAT: Format = if MANTISSA == 3 { Format::E4M3 } else { Format::E5M2 };
    /// Bits of f32 of the smallest value that has the full precision.
    const NORMAL: u32 = ((128 - Self::FORMAT.bias) as u32) << 23;

    /// Encodes a row; gives `false` if a value is not finite.
    #[inline(always)]
    fn encode_row<L: Lanes>(row: &[f32], rounding: impl Rounding, to: &mut [u8]) -> bool {
        let (chunks, tail) = row.as_chunks::<LANES>();
        let most = largest::<L>(chunks, tail);
        if most >= EXPONENT {
            return false;
        }
        let scale = Self::FORMAT.scale(f32::from_bits(most));
        let inverse = L::splat(inverse(scale));
        let Some((header, codes)) = to.split_first_chunk_mut::<HEADER>() else { return true };
        *header = scale.to_ne_bytes();
        let (codes, last) = codes.as_chunks_mut::<LANES>();
        for (i, (values, to)) in chunks.iter().zip(codes).enumerate() {
            *to = L::bytes(Self::codes::<L>(L::mul(L::load(values), inverse), rounding, i * LANES));
        }
        if !tail.is_empty() {
            let values = L::mul(L::load_some(tail, L::splat(0.0)), inverse);
            store_bytes(L::bytes(Self::codes::<L>(values, rounding, chunks.len() * LANES)), last);
        }
        true
    }

    /// Codes of values.
    #[inline(always)]
    fn codes<L: Lanes>(values: L::F, rounding: impl Rounding, first: usize) -> L::I {
        let bits = L::bits(values);
        let sign = L::and(L::right::<24>(bits), L::splat_bits(0x80));
        // Distance of the neighbours of a value, 2^(exponent − MANTISSA): a value in units of it has at most MANTISSA + 1 bits before
        // the point.
        let exponent = L::max_bits(L::and(bits, L::splat_bits(EXPONENT)), L::splat_bits(Self::NORMAL));
        let inverse = L::sub_bits(L::splat_bits((254 + MANTISSA) << 23), exponent);
        let magnitude = L::of_bits(L::and(bits, L::splat_bits(MAGNITUDE)));
        let units = rounding.round::<L>(L::mul(magnitude, L::of_bits(inverse)), first);
        let code = L::right::<REST>(L::sub_bits(exponent, L::splat_bits(Self::NORMAL)));
        let most = L::splat_bits(u32::from(Self::FORMAT.most));
        L::or(L::min_bits(L::add_bits(code, units), most), sign)
    }

    #[inline(always)]
    fn decode_row<L: Lanes>(from: &[u8], row: &mut [f32], put: impl Put) {
        let Some((header, codes)) = from.split_first_chunk::<HEADER>() else { return };
        let scale = L::splat(f32::from_ne_bytes(*header));
        let (chunks, tail) = row.as_chunks_mut::<LANES>();
        let (codes, last) = codes.as_chunks::<LANES>();
        for (to, codes) in chunks.iter_mut().zip(codes) {
            put.put::<L>(to, L::mul(scale, Self::values::<L>(codes)));
        }
        if !tail.is_empty() {
            put.put_some::<L>(tail, L::mul(scale, Self::values::<L>(&load_bytes(last))));
        }
    }

    /// Values of codes.
    #[inline(always)]
    fn values<L: Lanes>(codes: &[u8; LANES]) -> L::F {
        let codes = L::of_bytes(codes);
        let magnitude = L::and(codes, L::splat_bits(0x7f));
        let bits = L::left::<REST>(magnitude);
        let normal = L::add_bits(bits, L::splat_bits(((127 - Self::FORMAT.bias) as u32) << 23));
        // Below the normal values the distance of neighbours stays as it is: what a leading one adds goes off again.
        let leading = L::splat_bits(Self::NORMAL);
        let small = L::bits(L::sub(L::of_bits(L::or(bits, leading)), L::of_bits(leading)));
        let finite = L::if_more(magnitude, L::splat_bits((1 << MANTISSA) - 1), normal, small);
        let special = L::or(L::and(bits, L::splat_bits(0x007f_ffff)), L::splat_bits(EXPONENT));
        let most = L::splat_bits(u32::from(Self::FORMAT.most));
        let sign = L::left::<24>(L::and(codes, L::splat_bits(0x80)));
        L::of_bits(L::or(L::if_more(magnitude, most, special, finite), sign))
    }
}

/// Bits of the largest absolute value of a row; those of an infinity or a NaN are the largest.
#[inline(always)]
fn largest<L: Lanes>(chunks: &[[f32; LANES]], tail: &[f32]) -> u32 {
    let (mut most, mask) = (L::splat_bits(0), L::splat_bits(MAGNITUDE));
    for values in chunks {
        most = L::max_bits(most, L::and(L::bits(L::load(values)), mask));
    }
    if !tail.is_empty() {
        most = L::max_bits(most, L::and(L::bits(L::load_some(tail, L::splat(0.0))), mask));
    }
    L::largest(most)
}
