//! The computations of a program: encodes and decodes of units, carried out by a device.

use crate::prepared::Prepared;
use kernels::{Buffer, CarriedError, Decode, Device, Encode, KernelError, Round, Rows, Stopwatch};
use spec::codec::Row;
use spec::program::{Area, Repeats, Step, Target, Units};
use spec::random::RandomSequence;
use std::ops::Range;
use std::time::Duration;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// Units to encode: their place in the vector, and in the bytes that receive them.
#[derive(Clone, Debug)]
pub(crate) struct EncodeStep {
    pub(crate) units: Range<usize>,
    pub(crate) from: usize,
    pub(crate) at: usize,
    pub(crate) error: Option<usize>,
    pub(crate) round: Round,
}

/// Blocks of units to decode, and the place of their sum.
#[derive(Clone, Debug)]
pub(crate) struct DecodeStep {
    pub(crate) units: Range<usize>,
    pub(crate) blocks: usize,
    pub(crate) at: usize,
    pub(crate) into: Target,
}

impl EncodeStep {
    /// Encodes units of `vector` into `to`; the memory of `rows` is reused.
    pub(crate) fn carry_out(
        self,
        device: &Device,
        units: &Units,
        vector: &Buffer<f32>,
        to: &mut Buffer<u8>,
        error: &mut Buffer<f32>,
        rows: &mut Vec<Row>,
    ) -> Result {
        rows.clear();
        let repeats = units.rows(self.units, self.from, rows);
        device.encode(Encode {
            codec: units.codec(),
            round: self.round,
            rows: repeated(rows, repeats),
            from: vector,
            to,
            to_at: self.at,
            error: self.error.map(|at| CarriedError { buffer: error, at }),
        })
    }
}

impl DecodeStep {
    /// Decodes blocks of `from` and adds them up in `to`; the memory of `rows` is reused.
    pub(crate) fn carry_out(
        self,
        device: &Device,
        units: &Units,
        from: &Buffer<u8>,
        to: &mut Buffer<f32>,
        rows: &mut Vec<Row>,
    ) -> Result {
        rows.clear();
        let block_bytes = units.bytes(self.units.clone());
        let repeats = units.rows(self.units, 0, rows);
        device.decode(Decode {
            codec: units.codec(),
            rows: repeated(rows, repeats),
            blocks: self.blocks,
            block_bytes,
            from,
            from_at: self.at,
            to,
            to_at: self.into.at,
            add: self.into.add,
        })
    }
}

fn repeated(rows: &[Row], repeats: Repeats) -> Rows<'_> {
    Rows { rows, count: repeats.count, floats: repeats.floats, bytes: repeats.bytes }
}

/// Rounding of one encode of a program, by the number of the step in the program, from 1: every encode has random numbers of its
/// own.
pub(crate) fn of_encode(round: Round, step: u64) -> Round {
    match round {
        Round::Nearest => Round::Nearest,
        Round::Stochastic { key } => Round::Stochastic { key: RandomSequence::new(key, "encode").bits(step) },
    }
}

impl Prepared {
    /// Floats that a step encodes or decodes.
    pub(crate) fn floats_of(&self, step: &Step) -> usize {
        match step {
            Step::Encode { units, .. } => self.units.floats(units.clone()),
            Step::Decode { units, blocks, .. } => blocks * self.units.floats(units.clone()),
            Step::Exchange { .. } => 0,
        }
    }

    /// Lets the encodes and decodes of the program take `time` together, each by the floats that it works on: for a rank whose
    /// device computes nothing.
    pub fn pace(&mut self, time: Duration) {
        let floats: usize = self.program.steps().iter().map(|step| self.floats_of(step)).sum();
        self.float_s = if floats == 0 { 0.0 } else { time.as_secs_f64() / floats as f64 };
    }

    /// Carries out the encodes and decodes of the program on `vector` without its exchanges, as a lap of `watch`. Nothing arrives, so
    /// that decodes read what lies there, and their results are thrown away.
    pub fn rehearse(&self, device: &Device, vector: &Buffer<f32>, watch: &mut Stopwatch) -> Result {
        let space = device.for_exchange();
        let scratch = self.program.scratch();
        let zeros = |len: usize| Buffer::<u8>::zeroed(&space, len.next_multiple_of(4));
        let mut scratch = [zeros(scratch[0])?, zeros(scratch[1])?];
        let mut error = Buffer::zeroed(&space, self.program.error_len())?;
        let mut thrown_away = Buffer::zeroed(&space, vector.len())?;
        let (round, mut rows) = (Round::Nearest, Vec::new());
        watch.lap(|| {
            for step in self.program.steps() {
                match step {
                    Step::Encode { units, from, area, at, error: carried } => {
                        let step =
                            EncodeStep { units: units.clone(), from: *from, at: *at, error: *carried, round };
                        let to = &mut scratch[usize::from(*area == Area::Second)];
                        step.carry_out(device, &self.units, vector, to, &mut error, &mut rows)?;
                    }
                    Step::Decode { units, blocks, area, at, into } => {
                        let step = DecodeStep { units: units.clone(), blocks: *blocks, at: *at, into: *into };
                        let [first, second] = &mut scratch;
                        let (from, other) =
                            if *area == Area::First { (first, second) } else { (second, first) };
                        match into.area {
                            Area::Vector | Area::Output => {
                                step.carry_out(device, &self.units, from, &mut thrown_away, &mut rows)?;
                            }
                            // Floats in a scratch area lie in its bytes.
                            Area::First | Area::Second => {
                                let mut floats = other.take().into_bytes().into_buffer();
                                step.carry_out(device, &self.units, from, &mut floats, &mut rows)?;
                                *other = floats.into_bytes().into_buffer();
                            }
                        }
                    }
                    Step::Exchange { .. } => {}
                }
            }
            Ok(())
        })
    }
}
