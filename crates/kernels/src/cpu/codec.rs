//! Rows of floats as bytes: plain loops over sixteen values at a time, compiled for the machine's vectors; threads divide the
//! values, and cut between rows where a codec has a header.
#![allow(unsafe_code)]

mod float8;
mod half;
mod round;
mod unsigned;
mod walk;

use super::Cpu;
use super::level::Level;
use super::shared::Shared;
use crate::op::Result;
use crate::op::codec::Dice;
use crate::reference::codec::not_finite;
use crate::{CarriedError, Decode, Encode};
use float8::Float8;
use half::{Bf16, F16, F32};
use spec::codec::Codec;
use std::sync::atomic::{AtomicUsize, Ordering};
use unsigned::Unsigned;
use walk::{Run, Runs};

// Packed values and bytes of floats change places in registers.
#[cfg(not(target_endian = "little"))]
compile_error!("codecs need a little-endian machine");

/// Values that are worth a thread of their own.
const GRAIN: usize = 16 << 10;
/// Values that stay in the first-level cache between passes.
const BLOCK: usize = 2048;
/// Values that are encoded or decoded at once: one register of the widest kind.
const LANES: usize = 16;

/// Codec of rows. All of it is inlined, so that it is compiled for the vectors of its caller.
trait RowCodec: Copy + Sync {
    /// Encodes a row, or a run of values of a codec without header; gives `false` if the codec cannot, since a value is not
    /// finite. `offset` is that of the first value, for its random number.
    fn encode(self, level: Level, row: &[f32], dice: Option<Dice>, offset: u32, to: &mut [u8]) -> bool;

    /// Decodes a row, or a run of values of a codec without header.
    fn decode<P: Put>(self, level: Level, from: &[u8], row: &mut [f32]);
}

/// What is done with a decoded value.
trait Put {
    fn put(to: &mut f32, value: f32);
}

/// Sets values.
struct Set;
/// Adds to values.
struct Add;
/// Subtracts from values.
struct Subtract;

impl Put for Set {
    #[inline(always)]
    fn put(to: &mut f32, value: f32) {
        *to = value;
    }
}

impl Put for Add {
    #[inline(always)]
    fn put(to: &mut f32, value: f32) {
        *to += value;
    }
}

impl Put for Subtract {
    #[inline(always)]
    fn put(to: &mut f32, value: f32) {
        *to -= value;
    }
}

pub(crate) fn encode(cpu: &Cpu, args: Encode) -> Result {
    match args.codec {
        Codec::F32 => encode_by(cpu, F32, args),
        Codec::F16 => encode_by(cpu, F16, args),
        Codec::Bf16 => encode_by(cpu, Bf16, args),
        Codec::Fp8E4m3 => encode_by(cpu, Float8::<3>, args),
        Codec::Fp8E5m2 => encode_by(cpu, Float8::<2>, args),
        Codec::U8 => encode_by(cpu, Unsigned::<8>, args),
        Codec::U4 => encode_by(cpu, Unsigned::<4>, args),
        Codec::U2 => encode_by(cpu, Unsigned::<2>, args),
    }
}

pub(crate) fn decode(cpu: &Cpu, args: Decode) {
    match args.codec {
        Codec::F32 => decode_by(cpu, F32, args),
        Codec::F16 => decode_by(cpu, F16, args),
        Codec::Bf16 => decode_by(cpu, Bf16, args),
        Codec::Fp8E4m3 => decode_by(cpu, Float8::<3>, args),
        Codec::Fp8E5m2 => decode_by(cpu, Float8::<2>, args),
        Codec::U8 => decode_by(cpu, Unsigned::<8>, args),
        Codec::U4 => decode_by(cpu, Unsigned::<4>, args),
        Codec::U2 => decode_by(cpu, Unsigned::<2>, args),
    }
}

fn encode_by(cpu: &Cpu, codec: impl RowCodec, args: Encode) -> Result {
    let Encode { rows, from, to, to_at, mut error, .. } = args;
    let Some(first) = rows.rows.first() else { return Ok(()) };
    let (runs, from) = (Runs::new(args.codec, rows), from.host());
    let carried = error.as_mut().map(|CarriedError { buffer, at }| (Shared::new(buffer.host_mut()), *at));
    let most = if carried.is_some() { BLOCK } else { usize::MAX };
    let refused = AtomicUsize::new(usize::MAX);
    let to = Shared::new(to.host_mut());
    let work = Encoder {
        level: cpu.level,
        dice: args.round.dice(),
        from,
        to,
        to_at,
        carried,
        first: first.at,
        refused: &refused,
    };
    cpu.divide(runs.values(), GRAIN, &|_, range| {
        cpu.level.run(
            #[inline(always)]
            || {
                let mut walk = runs.walk(range.start);
                while let Some(run) = walk.next(range.end, most) {
                    work.encode(codec, run);
                }
            },
        )
    });
    match refused.into_inner() {
        usize::MAX => Ok(()),
        at => Err(not_finite(at, error.map_or(from[at], |e| e.buffer.host()[e.at + at - first.at]))),
    }
}

/// Operands of an encode.
struct Encoder<'a> {
    level: Level,
    dice: Option<Dice>,
    from: &'a [f32],
    to: Shared<'a, u8>,
    to_at: usize,
    /// Errors, and the offset of that of the first row.
    carried: Option<(Shared<'a, f32>, usize)>,
    /// Offset of the first row in the floats.
    first: usize,
    /// Smallest offset of a value that is not finite.
    refused: &'a AtomicUsize,
}

impl Encoder<'_> {
    #[inline(always)]
    fn encode(&self, codec: impl RowCodec, run: Run) {
        let row = &self.from[run.at..][..run.width];
        let byte = self.to_at + run.byte;
        // SAFETY: rows do not overlap in `to`, and no two pieces share a run.
        let bytes = unsafe { self.to.piece(byte..byte + run.bytes) };
        let Some((errors, error_at)) = &self.carried else {
            if !codec.encode(self.level, row, self.dice, run.at as u32, bytes) {
                self.refuse(run.at, row);
            }
            return;
        };
        let at = error_at + run.at - self.first;
        // SAFETY: rows do not overlap where errors are carried, and no two pieces share a run.
        let z = unsafe { errors.piece(at..at + run.width) };
        z.iter_mut().zip(row).for_each(|(z, x)| *z += x);
        if codec.encode(self.level, z, self.dice, run.at as u32, bytes) {
            codec.decode::<Subtract>(self.level, bytes, z);
        } else {
            self.refuse(run.at, z);
        }
    }

    #[cold]
    fn refuse(&self, at: usize, row: &[f32]) {
        let index = row.iter().position(|x| !x.is_finite()).unwrap_or(0);
        self.refused.fetch_min(at + index, Ordering::Relaxed);
    }
}

fn decode_by(cpu: &Cpu, codec: impl RowCodec, args: Decode) {
    let Decode { rows, blocks, block_bytes, from_at, to_at, add, .. } = args;
    let Some(first) = rows.rows.first() else { return };
    let (runs, from, to) = (Runs::new(args.codec, rows), args.from.host(), Shared::new(args.to.host_mut()));
    let work = Decoder { level: cpu.level, block_bytes, from, from_at, to, to_at, first: first.at, add };
    let most = if blocks > 1 { BLOCK } else { usize::MAX };
    cpu.divide(runs.values(), GRAIN, &|_, range| {
        cpu.level.run(
            #[inline(always)]
            || {
                let mut walk = runs.walk(range.start);
                while !walk.done(range.end) {
                    // Rows of all blocks, while their sums stay in the first-level cache.
                    let (start, end) = (walk, range.end.min(walk.position().saturating_add(most)));
                    for block in 0..blocks.max(1) {
                        walk = start;
                        while let Some(run) = walk.next(end, usize::MAX) {
                            match blocks {
                                0 => work.fill(run),
                                _ => work.decode(codec, run, block),
                            }
                        }
                    }
                }
            },
        )
    });
}

/// Operands of a decode.
struct Decoder<'a> {
    level: Level,
    block_bytes: usize,
    from: &'a [u8],
    from_at: usize,
    to: Shared<'a, f32>,
    to_at: usize,
    /// Offset of the first row in the floats.
    first: usize,
    add: bool,
}

impl Decoder<'_> {
    #[inline(always)]
    fn decode(&self, codec: impl RowCodec, run: Run, block: usize) {
        let at = self.to_at + run.at - self.first;
        // SAFETY: rows do not overlap in `to`, and no two pieces share a run.
        let row = unsafe { self.to.piece(at..at + run.width) };
        let bytes = &self.from[self.from_at + block * self.block_bytes + run.byte..][..run.bytes];
        match block == 0 && !self.add {
            true => codec.decode::<Set>(self.level, bytes, row),
            false => codec.decode::<Add>(self.level, bytes, row),
        }
    }

    /// Sum of no blocks.
    fn fill(&self, run: Run) {
        let at = self.to_at + run.at - self.first;
        // SAFETY: rows do not overlap in `to`, and no two pieces share a run.
        let row = unsafe { self.to.piece(at..at + run.width) };
        if !self.add {
            row.fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests;
