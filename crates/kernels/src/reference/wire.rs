//! Floats in wire formats: round to the nearest, ties to even; NaN stays NaN; what f16 cannot hold is infinite.

use crate::{BlockCopy, HalfFormat};
use half::{bf16, f16};

/// Encodes a float in 16 bits.
pub fn encoded(format: HalfFormat, value: f32) -> u16 {
    match format {
        HalfFormat::F16 => f16::from_f32(value).to_bits(),
        HalfFormat::Bf16 => bf16::from_f32(value).to_bits(),
    }
}

/// Decodes the float that 16 bits stand for, exactly.
pub fn decoded(format: HalfFormat, bits: u16) -> f32 {
    match format {
        HalfFormat::F16 => f16::from_bits(bits).to_f32(),
        HalfFormat::Bf16 => bf16::from_bits(bits).to_f32(),
    }
}

/// Encodes all floats: `to = encoded(from)`.
pub fn encode(format: HalfFormat, from: &[f32], to: &mut [u16]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = encoded(format, from));
}

/// Decodes all floats: `to = decoded(from)`.
pub fn decode(format: HalfFormat, from: &[u16], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = decoded(format, from));
}

/// Ordered sum of encoded blocks: `out[i] = (decoded(block₀[i]) + decoded(block₁[i])) + …`
pub fn sum_encoded(format: HalfFormat, len: usize, blocks: &[u16], out: &mut [f32]) {
    for (i, out) in out[..len].iter_mut().enumerate() {
        let values = blocks.iter().skip(i).step_by(len).map(|&bits| decoded(format, bits));
        *out = values.reduce(|sum, value| sum + value).unwrap_or(0.0);
    }
}

/// Copies blocks of elements of `size` bytes: `to[b.to + i] = from[b.from + i]` for every block `b`.
pub fn copy_blocks(blocks: &[BlockCopy], size: usize, from: &[u8], to: &mut [u8]) {
    for BlockCopy { from: at, to: place, len } in blocks {
        to[place * size..][..len * size].copy_from_slice(&from[at * size..][..len * size]);
    }
}
