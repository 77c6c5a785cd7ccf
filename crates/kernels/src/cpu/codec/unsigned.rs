//! Unsigned integers of 8, 4 and 2 bits: one pass for the range of a row, one for its codes, both in the first-level cache.

use super::round::{Nearest, Random, Rounding};
use super::{LANES, Put, RowCodec};
use crate::cpu::level::Level;
use crate::op::codec::Dice;
use crate::reference::codec::unsigned::Grid;

/// Codec of `BITS` bits for each value.
#[derive(Clone, Copy)]
pub(super) struct Unsigned<const BITS: usize>;

/// Size of the scale and the minimum, in bytes.
const HEADER: usize = 8;

impl<const BITS: usize> RowCodec for Unsigned<BITS> {
    #[inline(always)]
    fn encode(self, _: Level, row: &[f32], dice: Option<Dice>, offset: u32, to: &mut [u8]) -> bool {
        let Some([low, high]) = range(row) else { return false };
        let grid = Grid::new(BITS, low, high);
        let (header, codes) = to.split_at_mut(HEADER);
        header[..4].copy_from_slice(&grid.scale.to_ne_bytes());
        header[4..].copy_from_slice(&grid.low.to_ne_bytes());
        match dice {
            None => Self::codes(row, &grid, Nearest, codes),
            Some(dice) => Self::codes(row, &grid, Random { dice, first: offset }, codes),
        }
        true
    }

    #[inline(always)]
    fn decode<P: Put>(self, _: Level, from: &[u8], row: &mut [f32]) {
        let (Some((scale, rest)), bytes) = (from.split_first_chunk::<4>(), 2 * BITS) else { return };
        let Some((low, codes)) = rest.split_first_chunk::<4>() else { return };
        let (scale, low) = (f32::from_ne_bytes(*scale), f32::from_ne_bytes(*low));
        let (chunks, tail) = row.as_chunks_mut::<LANES>();
        for (chunk, from) in chunks.iter_mut().zip(codes.chunks_exact(bytes)) {
            let mut packed = [0; 16];
            packed[..bytes].copy_from_slice(from);
            Self::put::<P>(&packed, [scale, low], chunk);
        }
        if !tail.is_empty() {
            let (mut packed, rest) = ([0; 16], &codes[chunks.len() * bytes..]);
            packed[..rest.len()].copy_from_slice(rest);
            Self::put::<P>(&packed, [scale, low], tail);
        }
    }
}

impl<const BITS: usize> Unsigned<BITS> {
    /// Encodes the values of a row.
    #[inline(always)]
    fn codes(row: &[f32], grid: &Grid, rounding: impl Rounding, to: &mut [u8]) {
        let (bytes, (chunks, tail)) = (2 * BITS, row.as_chunks::<LANES>());
        for (i, (values, to)) in chunks.iter().zip(to.chunks_exact_mut(bytes)).enumerate() {
            to.copy_from_slice(&Self::packed(values, grid, rounding.further(i * LANES))[..bytes]);
        }
        if !tail.is_empty() {
            // What fills up the last byte is encoded as zero.
            let rounding = rounding.further(chunks.len() * LANES);
            let codes = Self::packed(&padded(tail, grid.low), grid, rounding);
            let to = &mut to[chunks.len() * bytes..];
            to.copy_from_slice(&codes[..to.len()]);
        }
    }

    /// Encodes sixteen values.
    #[inline(always)]
    fn packed(values: &[f32; LANES], grid: &Grid, rounding: impl Rounding) -> [u8; 16] {
        let Grid { quarter, inverse, most, .. } = *grid;
        let mut codes = [0; LANES];
        for i in 0..LANES {
            let place = (values[i] * 0.25 - quarter) * inverse;
            codes[i] = rounding.round(if place < most { place } else { most }, i);
        }
        pack::<BITS>(codes)
    }

    /// Decodes up to sixteen values.
    #[inline(always)]
    fn put<P: Put>(packed: &[u8; 16], [scale, low]: [f32; 2], to: &mut [f32]) {
        for (to, code) in to.iter_mut().zip(unpack::<BITS>(packed)) {
            P::put(to, scale.mul_add(code as i32 as f32, low));
        }
    }
}

/// Smallest and largest value of a row; `None` if a value is not finite.
#[inline(always)]
fn range(row: &[f32]) -> Option<[f32; 2]> {
    let mut range = Range { low: [row[0]; LANES], high: [row[0]; LANES], zeros: [0.0; LANES] };
    let (chunks, tail) = row.as_chunks::<LANES>();
    for values in chunks {
        range.extend(values);
    }
    if !tail.is_empty() {
        range.extend(&padded(tail, row[0]));
    }
    range.ends()
}

/// Smallest and largest values of sixteen columns.
struct Range {
    low: [f32; LANES],
    high: [f32; LANES],
    /// Zeros, unless a value was infinite or NaN.
    zeros: [f32; LANES],
}

impl Range {
    #[inline(always)]
    fn extend(&mut self, values: &[f32; LANES]) {
        let Self { low, high, zeros } = self;
        for i in 0..LANES {
            let x = values[i];
            low[i] = if x < low[i] { x } else { low[i] };
            high[i] = if x > high[i] { x } else { high[i] };
            zeros[i] += x * 0.0;
        }
    }

    /// Smallest and largest value of all columns.
    #[inline(always)]
    fn ends(self) -> Option<[f32; 2]> {
        let Self { mut low, mut high, mut zeros } = self;
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                low[i] = if low[i + half] < low[i] { low[i + half] } else { low[i] };
                high[i] = if high[i + half] > high[i] { high[i + half] } else { high[i] };
                zeros[i] += zeros[i + half];
            }
            half /= 2;
        }
        (zeros[0] == 0.0).then_some([low[0], high[0]])
    }
}

/// Codes side by side in the first `2 · BITS` bytes, the first in the lowest bits.
#[inline(always)]
fn pack<const BITS: usize>(codes: [u32; LANES]) -> [u8; 16] {
    let mut packed = [0; 16];
    match BITS {
        8 => packed = codes.map(|code| code as u8),
        4 => {
            let pairs: [u64; 8] = bytemuck::cast(codes);
            packed[..8].copy_from_slice(&pairs.map(|pair| (pair | pair >> 28) as u8));
        }
        _ => {
            let fours: [u32; 4] = bytemuck::cast(codes.map(|code| code as u8));
            let fours = fours.map(|four| four | four >> 6);
            packed[..4].copy_from_slice(&fours.map(|four| (four | four >> 12) as u8));
        }
    }
    packed
}

/// Codes out of the first `2 · BITS` bytes.
#[inline(always)]
fn unpack<const BITS: usize>(packed: &[u8; 16]) -> [u32; LANES] {
    match BITS {
        8 => packed.map(u32::from),
        4 => {
            let pairs: [u8; 8] = std::array::from_fn(|i| packed[i]);
            let pairs = pairs.map(u64::from);
            bytemuck::cast(pairs.map(|pair| (pair | pair << 28) & 0x0000_000f_0000_000f))
        }
        _ => {
            let fours: [u8; 4] = std::array::from_fn(|i| packed[i]);
            let fours = fours.map(|four| (u32::from(four) | u32::from(four) << 12) & 0x000f_000f);
            let bytes: [u8; 16] = bytemuck::cast(fours.map(|four| (four | four << 6) & 0x0303_0303));
            bytes.map(u32::from)
        }
    }
}

/// The values, and `with` behind them.
#[inline(always)]
fn padded(values: &[f32], with: f32) -> [f32; LANES] {
    let mut padded = [with; LANES];
    padded[..values.len()].copy_from_slice(values);
    padded
}
