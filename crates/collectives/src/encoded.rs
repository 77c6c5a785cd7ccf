//! Collectives that send f32 values in a wire format. They take and return f32, encode what they send, and add in f32,
//! in group order.
//!
//! ```text
//! all-reduce   encode all → exchange → decode and sum this rank's share → encode the sum → exchange → decode all
//! ```
//!
//! Every rank also decodes its own share of the sum, so that all ranks end with the same bits. In a group of one rank
//! nothing is sent, hence nothing is rounded.

use crate::communicator::Communicator;
use crate::operation::{Operation, Setup, Spans, Stage};
use crate::progress::{Endpoint, Names};
use crate::transport::{Header, Span};
use crate::{CollectiveError, Label, Pending};
use kernels::{BlockCopy, Buffer, Bytes, SumEncoded};
use spec::codec::Codec;
use spec::placement::share;
use std::ops::Range;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// Size of an encoded float, in bytes.
const SIZE: usize = size_of::<u16>();

impl Communicator {
    /// Starts an all-reduce whose floats are sent in the format `wire`; otherwise as [`Communicator::start_all_reduce`].
    pub fn start_all_reduce_as(
        &self,
        label: &Label,
        wire: Codec,
        buffer: Buffer<f32>,
    ) -> Result<Pending<Buffer<f32>>> {
        if !wire.encodes() || self.size() == 1 {
            return self.start_all_reduce(label, buffer);
        }
        let names = Names { operation: "all_reduce", element: wire.name(), label };
        let (size, total) = (self.size(), buffer.len());
        let index = self.endpoint.begin(&self.group, names, 2, |state| {
            let own = share(total, size, self.rank()).len();
            state.spans.to.extend((0..size).map(|i| halves(share(total, size, i))));
            state.spans.from.extend((0..size).map(|i| halves(i * own..(i + 1) * own)));
            let send = state.pool.take(self.device(), total * SIZE)?;
            let recv = state.pool.take(self.device(), size * own * SIZE)?;
            let send = self.encode(wire, &buffer, total, send)?;
            Ok(Setup { stage: Stage::EncodedReduce { wire, buffer }, send, recv, scratch: self.nothing() })
        })?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// Starts a reduce-scatter whose floats are sent in the format `wire`; otherwise as
    /// [`Communicator::start_reduce_scatter`].
    pub fn start_reduce_scatter_as(
        &self,
        label: &Label,
        wire: Codec,
        send: Buffer<f32>,
        counts: &[usize],
        mut recv: Buffer<f32>,
    ) -> Result<Pending<(Buffer<f32>, Buffer<f32>)>> {
        const NAME: &str = "reduce_scatter";
        if !wire.encodes() || self.size() == 1 {
            return self.start_reduce_scatter(label, send, counts, recv);
        }
        let names = Names { operation: NAME, element: wire.name(), label };
        let index = self.endpoint.begin(&self.group, names, 1, |state| {
            let size = self.size();
            self.need(NAME, label, "counts", size, counts.len())?;
            let total = self.lay_out(NAME, label, counts, SIZE, &mut state.spans.to)?;
            self.need_at_least(NAME, label, "elements to send", total, send.len())?;
            let len = counts[self.rank()];
            state.spans.from.extend((0..size).map(|i| halves(i * len..(i + 1) * len)));
            recv.resize(len)?;
            let encoded = state.pool.take(self.device(), total * SIZE)?;
            let blocks = state.pool.take(self.device(), size * len * SIZE)?;
            let encoded = self.encode(wire, &send, total, encoded)?;
            let stage = Stage::EncodedScatter { wire, send, into: recv, len };
            Ok(Setup { stage, send: encoded, recv: blocks, scratch: self.nothing() })
        })?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// Starts an all-gather whose floats are sent in the format `wire`; otherwise as [`Communicator::start_all_gather`]. A
    /// rank receives its own floats rounded too, so that all ranks hold the same bits.
    pub fn start_all_gather_as(
        &self,
        label: &Label,
        wire: Codec,
        send: Buffer<f32>,
        counts: &[usize],
        mut recv: Buffer<f32>,
    ) -> Result<Pending<(Buffer<f32>, Buffer<f32>)>> {
        const NAME: &str = "all_gather";
        if !wire.encodes() || self.size() == 1 {
            return self.start_all_gather(label, send, counts, recv);
        }
        let names = Names { operation: NAME, element: wire.name(), label };
        let index = self.endpoint.begin(&self.group, names, 1, |state| {
            self.need(NAME, label, "counts", self.size(), counts.len())?;
            let total = self.lay_out(NAME, label, counts, SIZE, &mut state.spans.from)?;
            let own = counts[self.rank()];
            self.need_at_least(NAME, label, "elements to send", own, send.len())?;
            state.spans.to.resize(self.size(), halves(0..own));
            recv.resize(total)?;
            let encoded = state.pool.take(self.device(), own * SIZE)?;
            let gathered = state.pool.take(self.device(), total * SIZE)?;
            let encoded = self.encode(wire, &send, own, encoded)?;
            let stage = Stage::EncodedGather { wire, send, into: recv };
            Ok(Setup { stage, send: encoded, recv: gathered, scratch: self.nothing() })
        })?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// Encodes the first `len` floats of `from` into `into`, which is memory of the pool.
    fn encode(&self, wire: Codec, from: &Buffer<f32>, len: usize, into: Bytes) -> Result<Bytes> {
        let mut into = into.into_buffer();
        self.device().encode(wire, BlockCopy { from: 0, to: 0, len }, from, &mut into)?;
        Ok(into.into_bytes())
    }
}

impl Endpoint {
    /// Completes an encoded reduce-scatter, whose blocks have arrived: decodes and sums them into `into`.
    pub(crate) fn sum_scattered(
        &self,
        operation: &mut Operation,
        wire: Codec,
        into: &mut Buffer<f32>,
        len: usize,
        [encoded, blocks]: [Bytes; 2],
    ) -> Result {
        let (size, blocks) = (operation.group.members.len(), blocks.into_buffer());
        self.checked(
            self.device
                .sum_encoded(wire, SumEncoded { count: size, len, blocks: &blocks, out: into, out_at: 0 }),
        )?;
        operation.scratch = [encoded, blocks.into_bytes()];
        Ok(())
    }

    /// Continues an encoded all-reduce whose blocks have arrived: sums this rank's share, and starts to send it to all
    /// members. All shares arrive in the memory that the first exchange sent.
    pub(crate) fn share_sum(
        &self,
        operation: &mut Operation,
        wire: Codec,
        buffer: &mut Buffer<f32>,
        [encoded, blocks]: [Bytes; 2],
        spans: &mut Spans,
    ) -> Result {
        let (size, total) = (operation.group.members.len(), buffer.len());
        let own = share(total, size, operation.group.me);
        let mut blocks = blocks.into_buffer();
        self.checked(self.device.sum_encoded(
            wire,
            SumEncoded { count: size, len: own.len(), blocks: &blocks, out: buffer, out_at: own.start },
        ))?;
        let block = BlockCopy { from: own.start, to: 0, len: own.len() };
        self.checked(self.device.encode(wire, block, buffer, &mut blocks))?;
        spans.clear();
        spans.to.resize(size, halves(0..own.len()));
        spans.from.extend((0..size).map(|i| halves(share(total, size, i))));
        let (second, element) = ("all_reduce (second half)", wire.name());
        let header = Header { operation: second, element, label: operation.label.clone() };
        self.exchange(operation, 1, header, blocks.into_bytes(), encoded, spans)
    }

    /// Completes an encoded all-gather, whose elements have arrived: decodes them into `into`.
    pub(crate) fn decode_gathered(
        &self,
        operation: &mut Operation,
        wire: Codec,
        into: &mut Buffer<f32>,
        [encoded, gathered]: [Bytes; 2],
    ) -> Result {
        let gathered = gathered.into_buffer();
        let block = BlockCopy { from: 0, to: 0, len: into.len() };
        self.checked(self.device.decode(wire, block, &gathered, into))?;
        operation.scratch = [encoded, gathered.into_bytes()];
        Ok(())
    }
}

/// Byte range of a range of encoded floats.
fn halves(range: Range<usize>) -> Span {
    Span { at: range.start * SIZE, len: range.len() * SIZE }
}
