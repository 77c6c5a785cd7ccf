//! The interpreter of programs: it encodes, exchanges, decodes and adds what the steps say.
//!
//! A rank carries out the steps up to an exchange, and goes on when the exchange is complete, in any later call on one of its
//! communicators.

use crate::CollectiveError;
use crate::operation::{Operation, Scratch, Stage};
use crate::prepared::Prepared;
use crate::progress::Endpoint;
use crate::transport::Header;
use kernels::{Buffer, Bytes, CarriedError, Decode, Encode, Round, Rows};
use spec::codec::Row;
use spec::program::{Area, Repeats, Step, Target, Units};
use spec::random::RandomSequence;
use std::ops::Range;
use std::sync::Arc;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// A program under way on one rank. It owns the caller's buffers until it ends.
pub(crate) struct Running {
    pub(crate) prepared: Arc<Prepared>,
    /// Name of the collective, for headers and messages.
    pub(crate) name: &'static str,
    /// Index of the step that comes next.
    pub(crate) next: usize,
    /// Number of exchanges that were started.
    pub(crate) exchanges: u64,
    pub(crate) vector: Buffer<f32>,
    pub(crate) output: Buffer<f32>,
    pub(crate) error: Buffer<f32>,
    pub(crate) round: Round,
    pub(crate) returns: Returns,
}

/// Buffers that a program returns when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// Error state and vector.
    Vector,
    /// Vector and output.
    Output,
}

impl Running {
    /// Whether an exchange follows after the one that is under way.
    pub(crate) fn has_more_exchanges(&self) -> bool {
        self.exchanges < self.prepared.program.exchanges() as u64
    }

    fn take(&mut self, scratch: &mut [Bytes; 2], area: Area) -> Bytes {
        match area {
            Area::Vector => self.vector.take().into_bytes(),
            Area::Output => self.output.take().into_bytes(),
            Area::First => scratch[0].take(),
            Area::Second => scratch[1].take(),
        }
    }

    fn put_back(&mut self, scratch: &mut [Bytes; 2], area: Area, bytes: Bytes) {
        match area {
            Area::Vector => self.vector = bytes.into_buffer(),
            Area::Output => self.output = bytes.into_buffer(),
            Area::First => scratch[0] = bytes,
            Area::Second => scratch[1] = bytes,
        }
    }

    /// Stage of a program that has ended.
    fn done(self) -> Stage {
        let (send, recv) = match self.returns {
            Returns::Vector => (self.error, self.vector),
            Returns::Output => (self.vector, self.output),
        };
        Stage::Done { send: send.into_bytes(), recv: recv.into_bytes() }
    }
}

impl Endpoint {
    /// Goes on with a program whose exchange is complete and has returned `send` and `recv`.
    pub(crate) fn resume(
        &self,
        operation: &mut Operation,
        mut running: Running,
        [send, recv]: [Bytes; 2],
        scratch: &mut Scratch,
    ) -> Result<Stage> {
        let prepared = running.prepared.clone();
        if let Step::Exchange { from, to, .. } = prepared.program.steps()[running.next - 1] {
            running.put_back(&mut operation.scratch, from, send);
            running.put_back(&mut operation.scratch, to, recv);
        }
        self.carry_out(operation, running, scratch)
    }

    /// Carries out the steps of a program up to its next exchange, which is started, or up to its end.
    pub(crate) fn carry_out(
        &self,
        operation: &mut Operation,
        mut running: Running,
        scratch: &mut Scratch,
    ) -> Result<Stage> {
        let prepared = running.prepared.clone();
        while let Some(step) = prepared.program.steps().get(running.next) {
            running.next += 1;
            match step {
                Step::Encode { units, from, area, at, error } => {
                    let to = running.take(&mut operation.scratch, *area);
                    let step = EncodeStep { units: units.clone(), from: *from, at: *at, error: *error };
                    let to = self.encode(&mut running, step, to, &mut scratch.rows)?;
                    running.put_back(&mut operation.scratch, *area, to);
                }
                Step::Decode { units, blocks, area, at, into } => {
                    let from = running.take(&mut operation.scratch, *area);
                    let to = running.take(&mut operation.scratch, into.area);
                    let (range, blocks, at, into) = (units.clone(), *blocks, *at, *into);
                    let step = DecodeStep { range, blocks, from, at, into, to };
                    let [from, to] = self.decode(&prepared.units, step, &mut scratch.rows)?;
                    running.put_back(&mut operation.scratch, *area, from);
                    running.put_back(&mut operation.scratch, into.area, to);
                }
                Step::Exchange { from, to, sends, receives } => {
                    let send = running.take(&mut operation.scratch, *from);
                    let recv = running.take(&mut operation.scratch, *to);
                    let (number, moves) = (running.exchanges, prepared.program.moves());
                    let members = operation.group.members.len();
                    scratch.spans.set(members, &moves[sends.clone()], &moves[receives.clone()]);
                    let header = Header {
                        operation: name_of(running.name, number),
                        element: prepared.units.codec().name(),
                        label: operation.label.clone(),
                    };
                    running.exchanges += 1;
                    self.exchange(operation, number, header, send, recv, &scratch.spans)?;
                    return Ok(Stage::Program(running));
                }
            }
        }
        Ok(running.done())
    }

    /// Encodes units of the vector into `to` from a byte on, and returns `to`.
    fn encode(
        &self,
        running: &mut Running,
        step: EncodeStep,
        to: Bytes,
        rows: &mut Vec<Row>,
    ) -> Result<Bytes> {
        let EncodeStep { units, from, at, error } = step;
        rows.clear();
        let repeats = running.prepared.units.rows(units, from, rows);
        let mut to = to.into_buffer();
        let round = of_encode(running.round, running.next as u64);
        self.checked(self.device.encode(Encode {
            codec: running.prepared.units.codec(),
            round,
            rows: repeated(rows, repeats),
            from: &running.vector,
            to: &mut to,
            to_at: at,
            error: error.map(|at| CarriedError { buffer: &mut running.error, at }),
        }))?;
        Ok(to.into_bytes())
    }

    /// Decodes blocks of units and adds them up in `to`. Returns the memory of the blocks, and `to`.
    fn decode(&self, units: &Units, step: DecodeStep, rows: &mut Vec<Row>) -> Result<[Bytes; 2]> {
        let DecodeStep { range, blocks, from, at, into, to } = step;
        rows.clear();
        let block_bytes = units.bytes(range.clone());
        let repeats = units.rows(range, 0, rows);
        let (from, mut to) = (from.into_buffer(), to.into_buffer());
        self.checked(self.device.decode(Decode {
            codec: units.codec(),
            rows: repeated(rows, repeats),
            blocks,
            block_bytes,
            from: &from,
            from_at: at,
            to: &mut to,
            to_at: into.at,
            add: into.add,
        }))?;
        Ok([from.into_bytes(), to.into_bytes()])
    }
}

/// Units to encode, their place in the vector, and where the encoded bytes and the errors lie.
struct EncodeStep {
    units: Range<usize>,
    from: usize,
    at: usize,
    error: Option<usize>,
}

/// Blocks to decode, and the place of their sum.
struct DecodeStep {
    range: Range<usize>,
    blocks: usize,
    from: Bytes,
    at: usize,
    into: Target,
    to: Bytes,
}

/// Rounding of one encode of a program, by the number of the step in the program, from 1: every encode has random numbers of its
/// own.
pub(crate) fn of_encode(round: Round, step: u64) -> Round {
    match round {
        Round::Nearest => Round::Nearest,
        Round::Stochastic { key } => Round::Stochastic { key: RandomSequence::new(key, "encode").bits(step) },
    }
}

pub(crate) fn repeated(rows: &[Row], repeats: Repeats) -> Rows<'_> {
    Rows { rows, count: repeats.count, floats: repeats.floats, bytes: repeats.bytes }
}

/// Name of an exchange of a collective.
fn name_of(collective: &'static str, exchange: u64) -> &'static str {
    match (collective, exchange) {
        (collective, 0) => collective,
        ("all_reduce", 1) => "all_reduce (second half)",
        _ => "all_reduce (later exchange)",
    }
}
