//! Unsigned integers of 8, 4 and 2 bits: one pass for the range of a row, one for its codes, both in the first-level cache.

use super::lanes::{LANES, Lanes, load_bytes, store_bytes};
use super::round::{Nearest, Random, Rounding};
use super::{Put, RowCodec, Shape};
use crate::op::codec::Dice;
use crate::reference::codec::unsigned::Grid;

/// Codec of `BITS` bits for each value.
#[derive(Clone, Copy)]
pub(super) struct Unsigned<const BITS: usize>;

/// Size of the scale and the minimum, in bytes.
const HEADER: usize = 8;

impl<const BITS: usize> RowCodec for Unsigned<BITS> {
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
    fn decode<L: Lanes, P: Put>(self, shape: Shape, from: &[u8], to: &mut [f32]) {
        for (from, row) in from.chunks_exact(shape.bytes).zip(to.chunks_exact_mut(shape.width)) {
            Self::decode_row::<L, P>(from, row);
        }
    }
}

impl<const BITS: usize> Unsigned<BITS> {
    /// Bytes of sixteen codes.
    const BYTES: usize = 2 * BITS;

    /// Encodes a row; gives `false` if a value is not finite.
    #[inline(always)]
    fn encode_row<L: Lanes>(row: &[f32], rounding: impl Rounding, to: &mut [u8]) -> bool {
        let (chunks, tail) = row.as_chunks::<LANES>();
        let Some(grid) = grid::<L>(BITS, row[0], chunks, tail) else { return false };
        let (header, codes) = to.split_at_mut(HEADER);
        header[..4].copy_from_slice(&grid.scale.to_ne_bytes());
        header[4..].copy_from_slice(&grid.low.to_ne_bytes());
        for (i, (values, to)) in chunks.iter().zip(codes.chunks_exact_mut(Self::BYTES)).enumerate() {
            let packed = Self::pack::<L>(Self::codes::<L>(L::load(values), &grid, rounding, i * LANES));
            to.copy_from_slice(&packed[..Self::BYTES]);
        }
        if !tail.is_empty() {
            // What fills up the last byte is encoded as zero.
            let values = L::load_some(tail, L::splat(grid.low));
            let last = Self::codes::<L>(values, &grid, rounding, chunks.len() * LANES);
            store_bytes(Self::pack::<L>(last), &mut codes[chunks.len() * Self::BYTES..]);
        }
        true
    }

    #[inline(always)]
    fn codes<L: Lanes>(values: L::F, grid: &Grid, rounding: impl Rounding, first: usize) -> L::I {
        let above = L::sub(L::mul(values, L::splat(0.25)), L::splat(grid.quarter));
        let place = L::min(L::mul(above, L::splat(grid.inverse)), L::splat(grid.most));
        rounding.round::<L>(place, first)
    }

    #[inline(always)]
    fn decode_row<L: Lanes, P: Put>(from: &[u8], row: &mut [f32]) {
        let (header, codes) = from.split_at(HEADER);
        let float =
            |at: usize| f32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (scale, low) = (L::splat(float(0)), L::splat(float(4)));
        let (chunks, tail) = row.as_chunks_mut::<LANES>();
        let whole = chunks.len();
        for (to, from) in chunks.iter_mut().zip(codes.chunks_exact(Self::BYTES)) {
            let mut packed = [0; 16];
            packed[..Self::BYTES].copy_from_slice(from);
            P::put::<L>(to, L::mul_add(scale, L::floats(Self::unpack::<L>(&packed)), low));
        }
        if !tail.is_empty() {
            let codes = Self::unpack::<L>(&load_bytes(&codes[whole * Self::BYTES..]));
            P::put_some::<L>(tail, L::mul_add(scale, L::floats(codes), low));
        }
    }

    /// Codes side by side in the first bytes, the first in the lowest bits.
    #[inline(always)]
    fn pack<L: Lanes>(codes: L::I) -> [u8; 16] {
        match BITS {
            8 => L::bytes(codes),
            4 => bytemuck::cast([u64::from_ne_bytes(L::nibbles(codes)), 0]),
            _ => bytemuck::cast([u32::from_ne_bytes(L::quarters(codes)), 0, 0, 0]),
        }
    }

    /// Codes out of the first bytes.
    #[inline(always)]
    fn unpack<L: Lanes>(packed: &[u8; 16]) -> L::I {
        match BITS {
            8 => L::of_bytes(packed),
            4 => {
                let [eight, _]: [u64; 2] = bytemuck::cast(*packed);
                L::of_nibbles(&eight.to_ne_bytes())
            }
            _ => {
                let [four, ..]: [u32; 4] = bytemuck::cast(*packed);
                L::of_quarters(&four.to_ne_bytes())
            }
        }
    }
}

/// Grid of a row; `None` if a value is not finite.
#[inline(always)]
fn grid<L: Lanes>(bits: usize, first: f32, chunks: &[[f32; LANES]], tail: &[f32]) -> Option<Grid> {
    let (mut low, mut high) = (L::splat(first), L::splat(first));
    // Zero times a value is a zero, unless the value is infinite or NaN.
    let mut zeros = L::splat(0.0);
    for values in chunks {
        let x = L::load(values);
        (low, high) = (L::min(x, low), L::max(x, high));
        zeros = L::mul_add(x, L::splat(0.0), zeros);
    }
    if !tail.is_empty() {
        let x = L::load_some(tail, low);
        (low, high) = (L::min(x, low), L::max(x, high));
        zeros = L::mul_add(x, L::splat(0.0), zeros);
    }
    let [low, high] = L::ends(low, high);
    if L::all_numbers(zeros) { Some(Grid::new(bits, low, high)) } else { None }
}
