//! Buffers that travel together.

use crate::Error;
use collectives::{CollectiveError, Communicator, Completion, Label, Pending, Prepared};
use kernels::{Buffer, Device, Element, Round, Space};
use spec::codec::Codec;
use std::ops::Range;
use std::sync::Arc;

/// Buffers of an exchange: what is sent, by destination, and what arrives, by source.
#[derive(Debug)]
pub struct Exchange<T: Element> {
    /// What is sent, laid out by destination; empty while the exchange is under way.
    pub send: Buffer<T>,
    /// What arrived, laid out by source; empty while the exchange is under way.
    pub recv: Buffer<T>,
    /// Elements to each member of the group; a gather does not look at it.
    pub to: Vec<usize>,
    /// Elements from each member; a reduce-scatter does not look at it.
    pub from: Vec<usize>,
    pending: Option<PendingExchange<T>>,
}

/// The buffers of an exchange while it is under way: send, then recv.
pub type PendingExchange<T> = Pending<(Buffer<T>, Buffer<T>)>;

impl<T: Element> Exchange<T> {
    /// Empty exchange among `members` ranks, in memory of the device.
    pub fn new(device: &Device, members: usize) -> Self {
        Self::in_space(&device.for_exchange(), members)
    }

    /// Empty exchange among `members` ranks in host memory, for what says how much the host must send or expect.
    pub fn on_host(device: &Device, members: usize) -> Self {
        Self::in_space(&device.host(), members)
    }

    fn in_space(space: &Space, members: usize) -> Self {
        Self {
            send: Buffer::new(space),
            recv: Buffer::new(space),
            to: vec![0; members],
            from: vec![0; members],
            pending: None,
        }
    }

    /// Starts an all-to-all of both buffers.
    pub(super) fn start(&mut self, group: &Communicator, label: &Label) -> Result<(), CollectiveError> {
        let (send, recv) = self.take();
        self.pending = Some(group.start_all_to_all(label, send, &self.to, recv, &self.from)?);
        Ok(())
    }

    /// Starts an all-gather, in which every member gets what all send.
    pub(super) fn start_all_gather(
        &mut self,
        group: &Communicator,
        label: &Label,
    ) -> Result<(), CollectiveError> {
        let (send, recv) = self.take();
        self.pending = Some(group.start_all_gather(label, send, &self.from, recv)?);
        Ok(())
    }

    /// Waits for the exchange under way and puts its buffers back; `None` where none is.
    pub(super) fn finish(&mut self) -> Result<Option<Completion>, Error> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let (buffers, completion) = pending.wait_timed()?;
        (self.send, self.recv) = buffers;
        Ok(Some(completion))
    }

    fn take(&mut self) -> (Buffer<T>, Buffer<T>) {
        (self.send.take(), self.recv.take())
    }
}

/// Partial sums of vectors that the members of a group add up, or their gradients that every member gets.
#[derive(Debug)]
pub struct Sums {
    codec: Codec,
    /// Widths of the vectors of a sample.
    widths: Vec<usize>,
    /// What is sent; empty while the collective is under way.
    pub send: Buffer<f32>,
    /// What arrived; empty while the collective is under way.
    pub recv: Buffer<f32>,
    /// Samples of each member.
    pub samples: Vec<usize>,
    shares: Vec<Range<usize>>,
    prepared: Arc<Prepared>,
    pending: Option<PendingExchange<f32>>,
}

impl Sums {
    /// Sums of vectors of these widths among `members` ranks.
    pub fn new(device: &Device, members: usize, codec: Codec, widths: Vec<usize>) -> Self {
        Self {
            codec,
            widths,
            send: Buffer::new(device.for_exchange()),
            recv: Buffer::new(device.for_exchange()),
            samples: vec![0; members],
            shares: Vec::with_capacity(members),
            prepared: Arc::default(),
            pending: None,
        }
    }

    /// Starts a reduce-scatter, in which each member gets the sums of its samples.
    pub(super) fn start_reduce_scatter(
        &mut self,
        group: &Communicator,
        label: &Label,
        round: Round,
    ) -> Result<(), CollectiveError> {
        let (prepared, shares) = self.prepare();
        prepared.program.set_reduce_scatter(&prepared.units, shares, group.rank());
        let vectors = collectives::Vectors { send: self.send.take(), recv: self.recv.take(), round };
        let pending = group.start_reduce_scatter_by(label, &self.prepared, &self.shares, vectors)?;
        self.pending = Some(pending);
        Ok(())
    }

    /// Starts an all-gather, in which every member gets the gradients of all samples.
    pub(super) fn start_all_gather(
        &mut self,
        group: &Communicator,
        label: &Label,
        round: Round,
    ) -> Result<(), CollectiveError> {
        let (prepared, shares) = self.prepare();
        prepared.program.set_all_gather(&prepared.units, shares, group.rank());
        let vectors = collectives::Vectors { send: self.send.take(), recv: self.recv.take(), round };
        self.pending = Some(group.start_all_gather_by(label, &self.prepared, &self.shares, vectors)?);
        Ok(())
    }

    /// Units of all samples, and those of each member, in memory that no collective uses any more.
    fn prepare(&mut self) -> (&mut Prepared, &[Range<usize>]) {
        let Self { codec, widths, samples, shares, prepared, .. } = self;
        let prepared = Arc::make_mut(prepared);
        prepared.units.set_vectors(*codec, widths, samples.iter().sum());
        let of_sample = if codec.by_rows() { widths.len() } else { widths.iter().sum() };
        shares.clear();
        let mut end = 0;
        for samples in samples {
            let begin = end;
            end += *samples * of_sample;
            shares.push(begin..end);
        }
        (prepared, shares)
    }

    /// Waits for the collective under way and puts its buffers back; `None` where none is.
    pub(super) fn finish(&mut self) -> Result<Option<Completion>, Error> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let (buffers, completion) = pending.wait_timed()?;
        (self.send, self.recv) = buffers;
        Ok(Some(completion))
    }
}
