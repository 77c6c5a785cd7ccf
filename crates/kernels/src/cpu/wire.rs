//! Floats in the formats of the wire. bf16 by integer arithmetic in plain loops, f16 by the machine's conversions where it has
//! them; threads divide the elements.
#![allow(unsafe_code)]

use super::Cpu;
use super::elementwise::pass;
use super::level::{Level, from_f16, to_f16};
use super::shared::Shared;
use crate::{BlockCopy, HalfFormat};

/// Elements decoded and summed while they stay in the first-level cache.
const BLOCK: usize = 2048;

pub(crate) fn encode(cpu: &Cpu, format: HalfFormat, from: &[f32], to: &mut [u16]) {
    let len = to.len();
    let to = Shared::new(to);
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: pieces do not overlap.
            let to = unsafe { to.piece(range.clone()) };
            encode_piece(cpu.level, format, &from[range], to);
        },
    );
}

pub(crate) fn decode(cpu: &Cpu, format: HalfFormat, from: &[u16], to: &mut [f32]) {
    let len = to.len();
    let to = Shared::new(to);
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: pieces do not overlap.
            let to = unsafe { to.piece(range.clone()) };
            decode_piece(cpu.level, format, &from[range], to);
        },
    );
}

pub(crate) fn sum_encoded(cpu: &Cpu, format: HalfFormat, len: usize, blocks: &[u16], out: &mut [f32]) {
    let count = blocks.len() / len.max(1);
    let out = Shared::new(&mut out[..len]);
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            let mut values = [0.0; BLOCK];
            for start in range.clone().step_by(BLOCK) {
                let range = start..(start + BLOCK).min(range.end);
                // SAFETY: pieces do not overlap, nor do blocks in them.
                let out = unsafe { out.piece(range.clone()) };
                if count == 0 {
                    out.fill(0.0);
                    continue;
                }
                decode_piece(cpu.level, format, &blocks[range.clone()], out);
                for k in 1..count {
                    let values = &mut values[..range.len()];
                    decode_piece(
                        cpu.level,
                        format,
                        &blocks[k * len + range.start..k * len + range.end],
                        values,
                    );
                    out.iter_mut().zip(values).for_each(|(out, value)| *out += *value);
                }
            }
        },
    );
}

/// Copies blocks of elements of `size` bytes, which must not overlap in `to`; threads divide the blocks.
pub(crate) fn copy_blocks(cpu: &Cpu, blocks: &[BlockCopy], size: usize, from: &[u8], to: &mut [u8]) {
    let to = Shared::new(to);
    cpu.divide_finely(blocks.len(), 1, &|_, range| {
        for block in &blocks[range] {
            // SAFETY: blocks follow each other in `to`.
            let to = unsafe { to.piece(block.to * size..(block.to + block.len) * size) };
            to.copy_from_slice(&from[block.from * size..][..block.len * size]);
        }
    });
}

#[inline(always)]
fn encode_piece(level: Level, format: HalfFormat, from: &[f32], to: &mut [u16]) {
    match format {
        HalfFormat::F16 => to_f16(level, from, bytemuck::cast_slice_mut(to)),
        HalfFormat::Bf16 => to.iter_mut().zip(from).for_each(|(to, from)| *to = to_bf16(*from)),
    }
}

#[inline(always)]
fn decode_piece(level: Level, format: HalfFormat, from: &[u16], to: &mut [f32]) {
    match format {
        HalfFormat::F16 => from_f16(level, bytemuck::cast_slice(from), to),
        HalfFormat::Bf16 => {
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = f32::from_bits(u32::from(from) << 16))
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
