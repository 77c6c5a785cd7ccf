//! Buffers that travel together.

use crate::Error;
use collectives::{CollectiveError, Communicator, Completion, Label, Pending};
use kernels::{Buffer, Device, Element};
use spec::codec::Codec;

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
    /// Empty exchange among `members` ranks.
    pub fn new(device: &Device, members: usize) -> Self {
        Self {
            send: Buffer::new(device.for_exchange()),
            recv: Buffer::new(device.for_exchange()),
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

impl Exchange<f32> {
    /// Starts a reduce-scatter of what is sent, in a format of the wire.
    pub(super) fn start_reduce_scatter(
        &mut self,
        group: &Communicator,
        label: &Label,
        wire: Codec,
    ) -> Result<(), CollectiveError> {
        let (send, recv) = self.take();
        self.pending = Some(group.start_reduce_scatter_as(label, wire, send, &self.to, recv)?);
        Ok(())
    }

    /// Starts an all-gather of what is sent, in a format of the wire.
    pub(super) fn start_all_gather(
        &mut self,
        group: &Communicator,
        label: &Label,
        wire: Codec,
    ) -> Result<(), CollectiveError> {
        let (send, recv) = self.take();
        self.pending = Some(group.start_all_gather_as(label, wire, send, &self.from, recv)?);
        Ok(())
    }
}
