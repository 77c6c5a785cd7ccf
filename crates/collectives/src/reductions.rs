//! Collectives that add. All of them sum in group order, `((x₀ + x₁) + x₂) + …`, above the transport, so that the result
//! has the same bits on every rank, in every run, on every transport.

use crate::communicator::Communicator;
use crate::operation::{Setup, Stage};
use crate::progress::{Names, floats};
use crate::transport::Span;
use crate::{CollectiveError, Label, Pending};
use kernels::{Buffer, Element};
use spec::placement::share;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

impl Communicator {
    /// Replaces every element by its sum over all members, and waits for the result. All members pass a buffer of the same
    /// length.
    ///
    /// An all-reduce is a reduce-scatter, in which member `i` sums the `i`-th [`share`] of the elements, and then an
    /// all-gather. The rank itself starts the second part, in any later call on one of its communicators.
    pub fn all_reduce(&self, label: &Label, buffer: Buffer<f32>) -> Result<Buffer<f32>> {
        self.start_all_reduce(label, buffer)?.wait()
    }

    /// Starts an all-reduce without waiting for it; arguments are those of [`Communicator::all_reduce`].
    pub fn start_all_reduce(&self, label: &Label, buffer: Buffer<f32>) -> Result<Pending<Buffer<f32>>> {
        let names = Names { operation: "all_reduce", element: f32::NAME, label };
        let (size, total) = (self.size(), buffer.len());
        let index = self.endpoint.begin(&self.group, names, 2, |state| {
            if size == 1 {
                return Ok(Setup::done(self.nothing(), buffer.into_bytes()));
            }
            let own = floats(share(total, size, self.rank())).len;
            state.spans.to.extend((0..size).map(|i| floats(share(total, size, i))));
            state.spans.from.extend((0..size).map(|i| Span { at: i * own, len: own }));
            let recv = state.pool.take(self.device(), size * own)?;
            let scratch = state.pool.take(self.device(), own)?;
            Ok(Setup { stage: Stage::AllReduce { total }, send: buffer.into_bytes(), recv, scratch })
        })?;
        Ok(Pending::new(self.endpoint.clone(), index))
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
        mut recv: Buffer<f32>,
    ) -> Result<Pending<(Buffer<f32>, Buffer<f32>)>> {
        const NAME: &str = "reduce_scatter";
        let names = Names { operation: NAME, element: f32::NAME, label };
        let index = self.endpoint.begin(&self.group, names, 1, |state| {
            let size = self.size();
            self.need(NAME, label, "counts", size, counts.len())?;
            let total = self.lay_out(NAME, label, counts, size_of::<f32>(), &mut state.spans.to)?;
            self.need_at_least(NAME, label, "elements to send", total, send.len())?;
            let len = counts[self.rank()];
            if size == 1 {
                let (sent, mut send, mut recv) = (send.len(), recv, send);
                send.resize(sent)?;
                recv.resize(len)?;
                return Ok(Setup::done(send.into_bytes(), recv.into_bytes()));
            }
            state.spans.from.extend((0..size).map(|i| floats(i * len..(i + 1) * len)));
            recv.resize(len)?;
            let blocks = state.pool.take(self.device(), size * len * size_of::<f32>())?;
            let (stage, scratch) = (Stage::ReduceScatter { into: recv, len }, self.nothing());
            Ok(Setup { stage, send: send.into_bytes(), recv: blocks, scratch })
        })?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// Replaces every value by its sum over all members, and waits for the result. Every member gathers all values and adds
    /// them, so this is meant for a few numbers, such as metrics.
    pub fn all_reduce_f64(&self, label: &Label, values: &mut [f64]) -> Result {
        let names = Names { operation: "all_reduce", element: f64::NAME, label };
        let (size, len) = (self.size(), values.len());
        let own = size_of_val(values);
        if size == 1 {
            let nothing = || Setup::done(self.nothing(), self.nothing());
            let index = self.endpoint.begin(&self.group, names, 1, |_| Ok(nothing()))?;
            return self.endpoint.wait(index).map(|_| ());
        }
        let index = self.endpoint.begin(&self.group, names, 1, |state| {
            let mut send = state.pool.take(self.device(), own)?.into_buffer();
            send.write(0, values)?;
            let recv = state.pool.take(self.device(), size * own)?;
            state.spans.to.resize(size, Span { at: 0, len: own });
            state.spans.from.extend((0..size).map(|i| Span { at: i * own, len: own }));
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
        state.pool.give_back(send);
        state.pool.give_back(recv.into_bytes());
        Ok(())
    }
}
