//! The interpreter of programs: it encodes, exchanges, decodes and adds what the steps say.
//!
//! A rank carries out the steps up to an exchange, and goes on when the exchange is complete, in any later call on one of its
//! communicators.

use crate::CollectiveError;
use crate::operation::{Operation, Scratch, Stage};
use crate::prepared::Prepared;
use crate::progress::Endpoint;
use crate::steps::{DecodeStep, EncodeStep, of_encode};
use crate::sync::lock;
use crate::transport::{Header, SumRequest};
use kernels::{Buffer, Bytes, Round};
use spec::program::{Area, Step};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
        let device = operation.device.clone();
        let units_of = &prepared.units;
        if prepared.by_transport && running.next == 0 && self.sum(operation, &mut running)? {
            return Ok(running.done());
        }
        while let Some(step) = prepared.program.steps().get(running.next) {
            running.next += 1;
            match step {
                Step::Encode { units, from, area, at, error } => {
                    let mut to = running.take(&mut operation.scratch, *area).into_buffer();
                    let round = of_encode(running.round, running.next as u64);
                    let encode =
                        EncodeStep { units: units.clone(), from: *from, at: *at, error: *error, round };
                    let Running { vector, error, .. } = &mut running;
                    let rows = &mut scratch.rows;
                    self.checked(encode.carry_out(&device, units_of, vector, &mut to, error, rows))?;
                    running.put_back(&mut operation.scratch, *area, to.into_bytes());
                    self.rest(&prepared, step);
                }
                Step::Decode { units, blocks, area, at, into } => {
                    let from = running.take(&mut operation.scratch, *area).into_buffer();
                    let mut to = running.take(&mut operation.scratch, into.area).into_buffer();
                    let decode = DecodeStep { units: units.clone(), blocks: *blocks, at: *at, into: *into };
                    let rows = &mut scratch.rows;
                    self.checked(decode.carry_out(&device, units_of, &from, &mut to, rows))?;
                    running.put_back(&mut operation.scratch, *area, from.into_bytes());
                    running.put_back(&mut operation.scratch, into.area, to.into_bytes());
                    self.rest(&prepared, step);
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

    /// Has the transport add the vectors of all members, if it can, and counts the bytes of the program as sent.
    fn sum(&self, operation: &mut Operation, running: &mut Running) -> Result<bool> {
        let (prepared, group) = (running.prepared.clone(), operation.group.clone());
        if prepared.program.exchanges() == 0 {
            return Ok(false);
        }
        let label = operation.label.clone();
        let header = Header { operation: running.name, element: prepared.units.codec().name(), label };
        let mut vector = running.vector.take().into_bytes();
        let summed = self.mover.sum(SumRequest {
            device: &operation.device,
            group: group.group,
            me: group.me,
            size: group.members.len(),
            sequence: operation.sequence,
            header,
            vector: &mut vector,
            floats: prepared.units.extent(0..prepared.units.count()),
        });
        running.vector = vector.into_buffer();
        let Some(summed) = summed else { return Ok(false) };
        summed?;
        let mut meter = lock(&self.meter);
        for step in prepared.program.steps() {
            let Step::Exchange { sends, .. } = step else { continue };
            for sent in &prepared.program.moves()[sends.clone()] {
                let member = group.members[sent.member];
                meter.sent(operation.metered, self.topology.link(self.rank, member), sent.len);
                operation.sent += if member == self.rank { 0 } else { sent.len as u64 };
            }
        }
        operation.completed = Instant::now();
        Ok(true)
    }

    /// Rests for as long as a step would take on a device that computes.
    fn rest(&self, prepared: &Prepared, step: &Step) {
        if prepared.float_s > 0.0 {
            let until =
                Instant::now() + Duration::from_secs_f64(prepared.float_s * prepared.floats_of(step) as f64);
            // A sleep ends late, so that short rests are spent awake.
            let left = until.saturating_duration_since(Instant::now()).saturating_sub(LATE);
            if !left.is_zero() {
                std::thread::sleep(left);
            }
            while Instant::now() < until {
                std::thread::yield_now();
            }
        }
    }
}

/// How late a sleep may end.
const LATE: Duration = Duration::from_micros(60);

/// Name of an exchange of a collective.
fn name_of(collective: &'static str, exchange: u64) -> &'static str {
    match (collective, exchange) {
        (collective, 0) => collective,
        ("all_reduce", 1) => "all_reduce (second half)",
        _ => "all_reduce (later exchange)",
    }
}
