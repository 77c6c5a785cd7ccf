//! Rows of floats as bytes, sixteen values at a time (`lanes`); threads divide the values, and cut between rows where a codec
//! has a header. Every level gives the bits of the reference.
#![allow(unsafe_code)]

mod float8;
mod half;
mod lanes;
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
use ground::codec::Codec;
use half::{Bf16, F16, F32};
use lanes::{LANES, Lanes, Work};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use unsigned::Unsigned;
use walk::{Run, Runs, Shape};

// Packed values and bytes of floats change places in registers.
#[cfg(not(target_endian = "little"))]
compile_error!("codecs need a little-endian machine");

/// Values that are worth a thread of their own.
const GRAIN: usize = 16 << 10;
/// Values that stay in the first-level cache between passes.
const BLOCK: usize = 2048;

/// Codec of rows. All of it is inlined, so that it is compiled for the vectors of its caller.
trait RowCodec: Copy + Sync {
    /// Encodes rows of this shape one behind the other, or a run of values of a codec without header; gives `false` if the codec
    /// cannot, since a value is not finite. `offset` is that of the first value, for its random number.
    fn encode<L: Lanes>(
        self,
        shape: Shape,
        from: &[f32],
        dice: Option<Dice>,
        offset: u32,
        to: &mut [u8],
    ) -> bool;

    /// Decodes rows of this shape one behind the other, or a run of values of a codec without header.
    fn decode<L: Lanes>(self, shape: Shape, from: &[u8], to: &mut [f32], put: impl Put);
}

/// What is done with decoded values.
trait Put: Copy {
    fn put_one(self, to: &mut f32, value: f32);
    fn put<L: Lanes>(self, to: &mut [f32; LANES], values: L::F);
    /// At most sixteen values.
    fn put_some<L: Lanes>(self, to: &mut [f32], values: L::F);
}

/// Sets values.
#[derive(Clone, Copy)]
struct Set;

/// Adds to values, or subtracts from them. One type for both, since each decoder is compiled for each type at each level.
#[derive(Clone, Copy)]
struct Sum {
    /// Bits that change the sign of what is added: adding `-x` is subtracting `x`, to the bit.
    sign: u32,
}

impl Sum {
    const ADD: Self = Self { sign: 0 };
    const SUBTRACT: Self = Self { sign: 1 << 31 };

    #[inline(always)]
    fn signed<L: Lanes>(self, values: L::F) -> L::F {
        L::of_bits(L::xor(L::bits(values), L::splat_bits(self.sign)))
    }
}

impl Put for Set {
    #[inline(always)]
    fn put_one(self, to: &mut f32, value: f32) {
        *to = value;
    }
    #[inline(always)]
    fn put<L: Lanes>(self, to: &mut [f32; LANES], values: L::F) {
        L::store(values, to);
    }
    #[inline(always)]
    fn put_some<L: Lanes>(self, to: &mut [f32], values: L::F) {
        L::store_some(values, to);
    }
}

impl Put for Sum {
    #[inline(always)]
    fn put_one(self, to: &mut f32, value: f32) {
        *to += f32::from_bits(value.to_bits() ^ self.sign);
    }
    #[inline(always)]
    fn put<L: Lanes>(self, to: &mut [f32; LANES], values: L::F) {
        L::store(L::add(L::load(to), self.signed::<L>(values)), to);
    }
    #[inline(always)]
    fn put_some<L: Lanes>(self, to: &mut [f32], values: L::F) {
        L::store_some(L::add(L::load_some(to, values), self.signed::<L>(values)), to);
    }
}

pub(crate) fn encode(cpu: &Cpu, args: Encode) -> Result {
    match args.codec {
        Codec::F32 => encode_by(cpu, F32, args),
        Codec::F16 => encode_by(cpu, F16, args),
        Codec::Bf16 => encode_by(cpu, Bf16, args),
        Codec::Fp8E4m3 => encode_by(cpu, Float8::<3, 20>, args),
        Codec::Fp8E5m2 => encode_by(cpu, Float8::<2, 21>, args),
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
        Codec::Fp8E4m3 => decode_by(cpu, Float8::<3, 20>, args),
        Codec::Fp8E5m2 => decode_by(cpu, Float8::<2, 21>, args),
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
    let refused = AtomicUsize::new(usize::MAX);
    let (to, dice, refused_at) = (Shared::new(to.host_mut()), args.round.dice(), &refused);
    let work = Encoder {
        level: cpu.level,
        codec,
        runs: &runs,
        dice,
        from,
        to,
        to_at,
        carried,
        first: first.at,
        refused: refused_at,
    };
    cpu.divide(runs.values(), GRAIN, &|_, range| work.run(range));
    match refused.into_inner() {
        usize::MAX => Ok(()),
        at => Err(not_finite(at, error.map_or(from[at], |e| e.buffer.host()[e.at + at - first.at]))),
    }
}

/// Operands of an encode.
struct Encoder<'a, C> {
    level: Level,
    codec: C,
    runs: &'a Runs<'a>,
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

impl<C: RowCodec> Encoder<'_, C> {
    /// Encodes the rows of a range of values.
    fn run(&self, range: Range<usize>) {
        let most = if self.carried.is_some() { BLOCK } else { usize::MAX };
        let mut walk = self.runs.walk(range.start);
        while let Some(run) = walk.next(range.end, most) {
            self.encode(run);
        }
    }

    fn encode(&self, run: Run) {
        let from = &self.from[run.at..][..run.values()];
        let (byte, offset) = (self.to_at + run.byte, run.at as u32);
        // SAFETY: rows do not overlap in `to`, and no two pieces share a run.
        let to = unsafe { self.to.piece(byte..byte + run.bytes()) };
        let Self { level, codec, dice, .. } = *self;
        let Some((errors, error_at)) = &self.carried else {
            if !lanes::run(level, EncodeRun { codec, shape: run.shape, from, dice, offset, to }) {
                self.refuse(run.at, from);
            }
            return;
        };
        let at = error_at + run.at - self.first;
        // SAFETY: rows do not overlap where errors are carried, and no two pieces share a run.
        let z = unsafe { errors.piece(at..at + run.values()) };
        z.iter_mut().zip(from).for_each(|(z, x)| *z += x);
        if lanes::run(level, EncodeRun { codec, shape: run.shape, from: z, dice, offset, to }) {
            lanes::run(level, DecodeRun { codec, shape: run.shape, from: to, to: z, put: Sum::SUBTRACT });
        } else {
            self.refuse(run.at, z);
        }
    }

    #[cold]
    fn refuse(&self, at: usize, values: &[f32]) {
        let index = values.iter().position(|x| !x.is_finite()).unwrap_or(0);
        self.refused.fetch_min(at + index, Ordering::Relaxed);
    }
}

fn decode_by(cpu: &Cpu, codec: impl RowCodec, args: Decode) {
    let Decode { rows, blocks, block_bytes, from_at, to_at, add, .. } = args;
    let Some(first) = rows.rows.first() else { return };
    let (runs, from, to) = (Runs::new(args.codec, rows), args.from.host(), Shared::new(args.to.host_mut()));
    let (level, runs) = (cpu.level, &runs);
    let work =
        Decoder { level, codec, runs, blocks, block_bytes, from, from_at, to, to_at, first: first.at, add };
    cpu.divide(runs.values(), GRAIN, &|_, range| work.run(range));
}

/// Operands of a decode.
struct Decoder<'a, C> {
    level: Level,
    codec: C,
    runs: &'a Runs<'a>,
    blocks: usize,
    block_bytes: usize,
    from: &'a [u8],
    from_at: usize,
    to: Shared<'a, f32>,
    to_at: usize,
    /// Offset of the first row in the floats.
    first: usize,
    add: bool,
}

impl<C: RowCodec> Decoder<'_, C> {
    /// Decodes the rows of a range of values, of all blocks while their sums stay in the first-level cache.
    fn run(&self, range: Range<usize>) {
        let most = if self.blocks > 1 { BLOCK } else { usize::MAX };
        let mut walk = self.runs.walk(range.start);
        while !walk.done(range.end) {
            let (start, end) = (walk, range.end.min(walk.position().saturating_add(most)));
            for block in 0..self.blocks.max(1) {
                walk = start;
                while let Some(run) = walk.next(end, usize::MAX) {
                    self.decode(run, block);
                }
            }
        }
    }

    fn decode(&self, run: Run, block: usize) {
        let at = self.to_at + run.at - self.first;
        // SAFETY: rows do not overlap in `to`, and no two pieces share a run.
        let to = unsafe { self.to.piece(at..at + run.values()) };
        if self.blocks == 0 {
            if !self.add {
                to.fill(0.0);
            }
            return;
        }
        let from = &self.from[self.from_at + block * self.block_bytes + run.byte..][..run.bytes()];
        let (codec, shape) = (self.codec, run.shape);
        match block == 0 && !self.add {
            true => lanes::run(self.level, DecodeRun { codec, shape, from, to, put: Set }),
            false => lanes::run(self.level, DecodeRun { codec, shape, from, to, put: Sum::ADD }),
        }
    }
}

/// Encodes a run; gives whether all values are finite. One function for each codec and level, so that registers suffice.
struct EncodeRun<'a, C> {
    codec: C,
    shape: Shape,
    from: &'a [f32],
    dice: Option<Dice>,
    offset: u32,
    to: &'a mut [u8],
}

impl<C: RowCodec> Work for EncodeRun<'_, C> {
    type Out = bool;

    #[inline(always)]
    fn run<L: Lanes>(self) -> bool {
        self.codec.encode::<L>(self.shape, self.from, self.dice, self.offset, self.to)
    }
}

/// Decodes a run.
struct DecodeRun<'a, C, P> {
    codec: C,
    shape: Shape,
    from: &'a [u8],
    to: &'a mut [f32],
    put: P,
}

impl<C: RowCodec, P: Put> Work for DecodeRun<'_, C, P> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { codec, shape, from, to, put } = self;
        codec.decode::<L>(shape, from, to, put);
    }
}
