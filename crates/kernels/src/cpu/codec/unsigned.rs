//! Unsigned integers of 8, 4 and 2 bits: one pass for the range of a row, one for its codes, both in the first-level cache.

use super::lanes::{LANES, Lanes, load_bytes, store_bytes};
use super::round::{Nearest, Random, Rounding};
use super::{Put, RowCodec, Shape};
use crate::op::codec::Dice;
use crate::reference::codec::SMALLEST_SCALE;
use crate::reference::codec::unsigned::{Grid, HUGE, REDUCED, most};

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
        let Shape { width, bytes } = shape;
        let mut finite = true;
        // Headers of sixteen rows are computed at once.
        let groups = from.chunks(LANES * width).zip(to.chunks_mut(LANES * bytes));
        for (g, (from, to)) in groups.enumerate() {
            let mut grids = Grids::new();
            for (r, row) in from.chunks_exact(width).enumerate() {
                finite &= grids.find::<L>(r, row);
            }
            grids.finish::<L>(BITS);
            for (r, (row, to)) in from.chunks_exact(width).zip(to.chunks_exact_mut(bytes)).enumerate() {
                let grid = grids.grid(BITS, r);
                match dice {
                    None => Self::encode_row::<L>(row, &grid, Nearest, to),
                    Some(dice) => {
                        let offset = offset.wrapping_add(((g * LANES + r) * width) as u32);
                        Self::encode_row::<L>(row, &grid, Random { dice, offset }, to);
                    }
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

impl<const BITS: usize> Unsigned<BITS> {
    /// Bytes of sixteen codes.
    const BYTES: usize = 2 * BITS;

    /// Encodes a row.
    #[inline(always)]
    fn encode_row<L: Lanes>(row: &[f32], grid: &Grid, rounding: impl Rounding, to: &mut [u8]) {
        let (chunks, tail) = row.as_chunks::<LANES>();
        let Some((header, codes)) = to.split_first_chunk_mut::<HEADER>() else { return };
        *header = bytemuck::cast([grid.scale, grid.low]);
        for (i, values) in chunks.iter().enumerate() {
            let packed = Self::pack::<L>(Self::codes::<L>(L::load(values), grid, rounding, i * LANES));
            store_bytes(packed, &mut codes[i * Self::BYTES..][..Self::BYTES]);
        }
        if !tail.is_empty() {
            // What fills up the last byte is encoded as zero.
            let values = L::load_some(tail, L::splat(grid.low));
            let last = Self::codes::<L>(values, grid, rounding, chunks.len() * LANES);
            store_bytes(Self::pack::<L>(last), &mut codes[chunks.len() * Self::BYTES..]);
        }
    }

    #[inline(always)]
    fn codes<L: Lanes>(values: L::F, grid: &Grid, rounding: impl Rounding, first: usize) -> L::I {
        let above = L::sub(L::mul(values, L::splat(0.25)), L::splat(grid.quarter));
        let place = L::min(L::mul(above, L::splat(grid.inverse)), L::splat(grid.most));
        rounding.round::<L>(place, first)
    }

    #[inline(always)]
    fn decode_row<L: Lanes>(from: &[u8], row: &mut [f32], put: impl Put) {
        let Some((header, codes)) = from.split_first_chunk::<HEADER>() else { return };
        let [scale, low]: [f32; 2] = bytemuck::cast(*header);
        let (scale, low) = (L::splat(scale), L::splat(low));
        let (chunks, tail) = row.as_chunks_mut::<LANES>();
        let whole = chunks.len();
        for (i, to) in chunks.iter_mut().enumerate() {
            let packed = load_bytes(&codes[i * Self::BYTES..][..Self::BYTES]);
            put.put::<L>(to, L::mul_add(scale, L::floats(Self::unpack::<L>(&packed)), low));
        }
        if !tail.is_empty() {
            let codes = Self::unpack::<L>(&load_bytes(&codes[whole * Self::BYTES..]));
            put.put_some::<L>(tail, L::mul_add(scale, L::floats(codes), low));
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

/// Grids of up to sixteen rows, as [`Grid::new`] makes them one by one.
struct Grids {
    scale: [f32; LANES],
    low: [f32; LANES],
    high: [f32; LANES],
    inverse: [f32; LANES],
}

impl Grids {
    #[inline(always)]
    fn new() -> Self {
        Self { scale: [0.0; LANES], low: [0.0; LANES], high: [0.0; LANES], inverse: [0.0; LANES] }
    }

    /// Finds the range of row `r`; gives `false` if a value is not finite.
    #[inline(always)]
    fn find<L: Lanes>(&mut self, r: usize, row: &[f32]) -> bool {
        let (chunks, tail) = row.as_chunks::<LANES>();
        let (mut low, mut high) = (L::splat(row[0]), L::splat(row[0]));
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
        [self.low[r], self.high[r]] = L::ends(low, high);
        L::all_numbers(zeros)
    }

    /// Computes all scales.
    #[inline(always)]
    fn finish<L: Lanes>(&mut self, bits: usize) {
        let (low, high) = (L::add(L::load(&self.low), L::splat(0.0)), L::load(&self.high));
        let range = L::sub(L::mul(high, L::splat(0.5)), L::mul(low, L::splat(0.5)));
        let scale = L::div(range, L::splat(most(bits) * 0.5));
        let scale = L::max(L::splat(SMALLEST_SCALE), scale);
        let reduced = L::mul(scale, L::splat(REDUCED));
        let scale = L::if_less(high, L::splat(HUGE), scale, reduced);
        let inverse = L::div(L::splat(4.0), scale);
        L::store(low, &mut self.low);
        L::store(L::if_less(low, high, scale, L::splat(0.0)), &mut self.scale);
        L::store(L::if_less(low, high, inverse, L::splat(0.0)), &mut self.inverse);
    }

    /// Grid of row `r`.
    #[inline(always)]
    fn grid(&self, bits: usize, r: usize) -> Grid {
        let low = self.low[r];
        let (scale, inverse) = (self.scale[r], self.inverse[r]);
        Grid { scale, low, quarter: low * 0.25, inverse, most: most(bits) }
    }
}
