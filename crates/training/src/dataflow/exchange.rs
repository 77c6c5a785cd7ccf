//! Buffers that travel together.

use collectives::{CollectiveError, Communicator, Label, Pending};
use kernels::{Buffer, Device, Element};
use spec::schedule::{Collective, CollectiveKind};

/// What is sent, by destination, and what arrives, by source.
#[derive(Debug)]
pub struct Exchange<T> {
    /// Laid out by destination.
    pub send: Buffer<T>,
    /// Laid out by source.
    pub recv: Buffer<T>,
    /// Elements to each member of the group; a gather does not look at it.
    pub to: Vec<usize>,
    /// Elements from each member; a reduce-scatter does not look at it.
    pub from: Vec<usize>,
}

/// The buffers of an exchange while it goes on: send, then recv.
pub type PendingExchange<T> = Pending<(Buffer<T>, Buffer<T>)>;

impl<T: Element> Exchange<T> {
    /// Nothing yet, among `members`.
    pub fn new(device: &Device, members: usize) -> Self {
        let [send, recv] = [(); 2].map(|()| Buffer::new(device.for_exchange()));
        Self { send, recv, to: vec![0; members], from: vec![0; members] }
    }

    /// Sets both buffers on their way by an all-to-all; whoever waits for them puts them back.
    pub fn start(
        &mut self,
        group: &Communicator,
        label: &Label,
    ) -> Result<PendingExchange<T>, CollectiveError> {
        let (send, recv) = self.take();
        group.start_all_to_all(label, send, &self.to, recv, &self.from)
    }

    fn take(&mut self) -> (Buffer<T>, Buffer<T>) {
        (self.send.take(), self.recv.take())
    }
}

impl Exchange<f32> {
    /// Sets both buffers on their way by the collective that the schedule names.
    pub fn start_as(
        &mut self,
        collective: &Collective,
        group: &Communicator,
        label: &Label,
    ) -> Result<PendingExchange<f32>, CollectiveError> {
        let wire = collective.wire;
        match collective.kind {
            CollectiveKind::AllToAll => self.start(group, label),
            CollectiveKind::ReduceScatter => {
                let (send, recv) = self.take();
                group.start_reduce_scatter_as(label, wire, send, &self.to, recv)
            }
            CollectiveKind::AllGather => {
                let (send, recv) = self.take();
                group.start_all_gather_as(label, wire, send, &self.from, recv)
            }
            CollectiveKind::AllReduce => unreachable!("a reduction works on one buffer"),
        }
    }
}

/// What a collective works on.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Ids, or lengths of bags.
    Words(&'a mut Exchange<u32>),
    /// Weights of ids, vectors, or their gradients.
    Floats(&'a mut Exchange<f32>),
    /// Vectors or their gradients, encoded.
    Halves(&'a mut Exchange<u16>),
    /// The gradient of a bucket.
    Gradient(&'a mut Buffer<f32>),
}
