//! Collectives that add or encode: programs of exchanges, encodes, decodes and sums.
//!
//! Sums are made above the transport, in an order that the program fixes, so that the result has the same bits on every rank, in
//! every run, on every transport. The direct algorithm sums in group order, `((x₀ + x₁) + x₂) + …`. In a group of one rank
//! nothing is sent, hence nothing is rounded.

use crate::communicator::Communicator;
use crate::operation::{Setup, Stage};
use crate::prepared::{Lossy, Prepared};
use crate::progress::Names;
use crate::running::{Returns, Running};
use crate::transport::Span;
use crate::{CollectiveError, Label, Pending};
use kernels::{Buffer, Bytes, Element, Round};
use spec::codec::Codec;
use spec::program::{Program, Units};
use std::ops::Range;
use std::sync::Arc;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// Buffers of a reduce-scatter or an all-gather.
#[derive(Debug)]
pub struct Vectors {
    /// Floats of this rank. They come back unchanged.
    pub send: Buffer<f32>,
    /// Buffer that is resized to hold the result.
    pub recv: Buffer<f32>,
    /// Rounding of values by a lossy codec.
    pub round: Round,
}

impl Communicator {
    /// Replaces every element by its sum over all members, and waits for the result. All members pass a buffer of the same
    /// length. The algorithm is direct, in f32, and its program is made on the spot; a step prepares its programs before.
    pub fn all_reduce(&self, label: &Label, buffer: Buffer<f32>) -> Result<Buffer<f32>> {
        self.start_all_reduce(label, buffer)?.wait()
    }

    /// Starts an all-reduce without waiting for it; arguments are those of [`Communicator::all_reduce`].
    pub fn start_all_reduce(&self, label: &Label, buffer: Buffer<f32>) -> Result<Pending<Buffer<f32>>> {
        let prepared = Arc::new(self.direct(buffer.len()));
        let index = self.begin_all_reduce(label, &prepared, buffer, Lossy::none(self.device()))?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// Starts an all-reduce that was prepared: its algorithm and codec are those of the program. Returns the error state and the
    /// sums.
    pub fn start_all_reduce_by(
        &self,
        label: &Label,
        prepared: &Arc<Prepared>,
        vector: Buffer<f32>,
        lossy: Lossy,
    ) -> Result<Pending<(Buffer<f32>, Buffer<f32>)>> {
        let index = self.begin_all_reduce(label, prepared, vector, lossy)?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    fn begin_all_reduce(
        &self,
        label: &Label,
        prepared: &Arc<Prepared>,
        vector: Buffer<f32>,
        Lossy { error, round }: Lossy,
    ) -> Result<usize> {
        const NAME: &str = "all_reduce";
        self.begin_program(NAME, label, prepared, || {
            let Prepared { units, program, .. } = &**prepared;
            let needed = units.extent(0..units.count());
            self.need_at_least(NAME, label, "elements of the vector", needed, vector.len())?;
            self.need_at_least(NAME, label, "floats of error state", program.error_len(), error.len())?;
            let output = Buffer::new(self.device().for_exchange());
            Ok(Given { vector, output, error, round, returns: Returns::Vector })
        })
    }

    /// Sums elements over all members and leaves a part of the sums on each, and waits for the result.
    ///
    /// `send` holds `counts[i]` elements for each member `i`, concatenated. `recv` is resized to hold the sum, over all
    /// members, of the elements for this rank. Returns `(send, recv)`. In a group of one rank the two buffers swap their
    /// memory instead of copying, so the contents of `send` are lost.
    pub fn reduce_scatter(
        &self,
        label: &Label,
        send: Buffer<f32>,
        counts: &[usize],
        recv: Buffer<f32>,
    ) -> Result<(Buffer<f32>, Buffer<f32>)> {
        self.start_reduce_scatter(label, send, counts, recv)?.wait()
    }

    /// Starts a reduce-scatter without waiting for it; arguments are those of [`Communicator::reduce_scatter`].
    pub fn start_reduce_scatter(
        &self,
        label: &Label,
        send: Buffer<f32>,
        counts: &[usize],
        recv: Buffer<f32>,
    ) -> Result<Pending<(Buffer<f32>, Buffer<f32>)>> {
        const NAME: &str = "reduce_scatter";
        self.need(NAME, label, "counts", self.size(), counts.len())
            .map_err(|cause| self.endpoint.control.abort(cause))?;
        let mut prepared = Prepared::default();
        let (mut shares, mut end) = (Vec::with_capacity(counts.len()), 0);
        for &count in counts {
            let begin = end;
            end = self.end_of(NAME, label, begin, count)?;
            shares.push(begin..end);
        }
        prepared.units = Units::of_tensors(Codec::F32, end, &[]);
        prepared.program = Program::reduce_scatter(&prepared.units, &shares, self.rank());
        let vectors = Vectors { send, recv, round: Round::Nearest };
        self.start_reduce_scatter_by(label, &Arc::new(prepared), &shares, vectors)
    }

    /// Starts a reduce-scatter that was prepared for `shares`: member `i` gets the sum of the units `shares[i]`.
    pub fn start_reduce_scatter_by(
        &self,
        label: &Label,
        prepared: &Arc<Prepared>,
        shares: &[Range<usize>],
        vectors: Vectors,
    ) -> Result<Pending<(Buffer<f32>, Buffer<f32>)>> {
        const NAME: &str = "reduce_scatter";
        let index = self.begin_program(NAME, label, prepared, || {
            let Vectors { send, mut recv, round } = vectors;
            self.need(NAME, label, "shares", self.size(), shares.len())?;
            let units = &prepared.units;
            let needed = units.extent(0..units.count());
            self.need_at_least(NAME, label, "elements to send", needed, send.len())?;
            let own = units.extent(shares[self.rank()].clone());
            if self.size() == 1 {
                let (sent, mut vector, mut output) = (send.len(), recv, send);
                vector.resize(sent)?;
                output.resize(own)?;
                return Ok(self.given(vector, output, round));
            }
            recv.resize(own)?;
            Ok(self.given(send, recv, round))
        })?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// Starts an all-gather that was prepared for `shares`: every member gets all units, of which member `i` has `shares[i]`. A
    /// rank receives its own floats as others do, so that all ranks hold the same bits.
    pub fn start_all_gather_by(
        &self,
        label: &Label,
        prepared: &Arc<Prepared>,
        shares: &[Range<usize>],
        vectors: Vectors,
    ) -> Result<Pending<(Buffer<f32>, Buffer<f32>)>> {
        const NAME: &str = "all_gather";
        let index = self.begin_program(NAME, label, prepared, || {
            let Vectors { send, mut recv, round } = vectors;
            self.need(NAME, label, "shares", self.size(), shares.len())?;
            let units = &prepared.units;
            let own = units.extent(shares[self.rank()].clone());
            self.need_at_least(NAME, label, "elements to send", own, send.len())?;
            recv.resize(units.extent(0..units.count()))?;
            if self.size() == 1 {
                let (send, mut all) = (send.into_bytes(), recv.into_bytes());
                self.device().copy(&mut all, 0, &send, 0, own * size_of::<f32>())?;
                return Ok(self.given(send.into_buffer(), all.into_buffer(), round));
            }
            Ok(self.given(send, recv, round))
        })?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// End of `count` elements from `begin` on.
    fn end_of(&self, name: &'static str, label: &Label, begin: usize, count: usize) -> Result<usize> {
        let end = begin.checked_add(count).filter(|end| end.checked_mul(size_of::<f32>()).is_some());
        end.ok_or_else(|| {
            let cause = self.arguments(name, label, "bytes in all", usize::MAX, usize::MAX);
            self.endpoint.control.abort(cause)
        })
    }

    fn given(&self, vector: Buffer<f32>, output: Buffer<f32>, round: Round) -> Given {
        let error = Buffer::new(self.device().for_exchange());
        Given { vector, output, error, round, returns: Returns::Output }
    }

    /// Begins a program with the buffers that `give` has checked.
    fn begin_program(
        &self,
        name: &'static str,
        label: &Label,
        prepared: &Arc<Prepared>,
        give: impl FnOnce() -> Result<Given>,
    ) -> Result<usize> {
        let names = Names { operation: name, element: prepared.units.codec().name(), label };
        self.endpoint.begin(self.device(), &self.group, names, prepared.program.exchanges() as u64, |state| {
            let Given { vector, output, error, round, returns } = give()?;
            let [first, second] = prepared.program.scratch();
            let (space, pool) = (self.device().for_exchange(), state.pool(self.device()));
            let scratch = [pool.take(&space, first)?, pool.take(&space, second)?];
            let prepared = prepared.clone();
            let running =
                Running { prepared, name, next: 0, exchanges: 0, vector, output, error, round, returns };
            let (send, recv) = (self.nothing(), self.nothing());
            Ok(Setup { stage: Stage::Program(running), send, recv, scratch })
        })
    }

    /// Replaces every value by its sum over all members, and waits for the result. Every member gathers all values and adds
    /// them on the host, so this is meant for a few numbers, such as metrics. The device takes no part.
    pub fn all_reduce_f64(&self, label: &Label, values: &mut [f64]) -> Result {
        let names = Names { operation: "all_reduce", element: f64::NAME, label };
        let (size, len) = (self.size(), values.len());
        let (own, space) = (size_of_val(values), self.device().host());
        if size == 1 {
            let nothing = || Setup::done(Bytes::new(&space), Bytes::new(&space));
            let index = self.endpoint.begin(self.device(), &self.group, names, 1, |_| Ok(nothing()))?;
            return self.endpoint.wait(index).map(|_| ());
        }
        let index = self.endpoint.begin(self.device(), &self.group, names, 1, |state| {
            let mut send = state.host_pool.take(&space, own)?.into_buffer();
            send.write(0, values)?;
            let recv = state.host_pool.take(&space, size * own)?;
            state.scratch.spans.to.resize(size, Span { at: 0, len: own });
            state.scratch.spans.from.extend((0..size).map(|i| Span { at: i * own, len: own }));
            Ok(Setup::exchange(send.into_bytes(), recv))
        })?;
        let (send, recv, _) = self.endpoint.wait(index)?;
        let recv = recv.into_buffer::<f64>();
        let mut state = self.endpoint.state();
        let mut block = std::mem::take(&mut state.host);
        block.resize(len, 0.0);
        for i in 0..size {
            recv.read(i * len, &mut block)?;
            match i {
                0 => values.copy_from_slice(&block),
                _ => values.iter_mut().zip(&block).for_each(|(sum, value)| *sum += value),
            }
        }
        state.host = block;
        state.host_pool.give_back(send);
        state.host_pool.give_back(recv.into_bytes());
        Ok(())
    }
}

/// Buffers that a program is given.
struct Given {
    vector: Buffer<f32>,
    output: Buffer<f32>,
    error: Buffer<f32>,
    round: Round,
    returns: Returns,
}
