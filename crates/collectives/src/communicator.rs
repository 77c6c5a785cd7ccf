//! The communicator: one rank's end of a group of ranks, with the collectives that only move data. Collectives that also
//! add are in `reductions`.

use crate::operation::{Membership, Setup, Spans, Stage, lay_out};
use crate::progress::{Endpoint, Names, State};
use crate::sync::lock;
use crate::transport::{ConnectRequest, GroupId, Span};
use crate::{CollectiveError, Label, Output, Pending, SentBytes};
use kernels::{Buffer, Bytes, Device, Element};
use spec::topology::Topology;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// One rank's end of a group of ranks.
///
/// Every member must call the same collectives on the group, in the same order, with counts that match. A member may
/// wait for them in any order. Operations of different groups are independent of each other.
///
/// Buffers may be longer than the counts require. They must have contents: on a device that computes nothing they are made
/// in [`Device::for_exchange`]. A communicator is meant to be used by one thread; a caller that uses several threads must
/// order their calls.
pub struct Communicator {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) group: Arc<Membership>,
    /// Device on whose queue operations are carried out.
    device: Device,
}

impl Communicator {
    /// The communicator of all ranks.
    pub(crate) fn world(endpoint: Arc<Endpoint>) -> Self {
        let members = (0..endpoint.topology.ranks()).collect();
        let device = endpoint.device.clone();
        Self::of(GroupId::WORLD, members, endpoint.rank, endpoint, device)
    }

    fn of(group: GroupId, members: Vec<usize>, me: usize, endpoint: Arc<Endpoint>, device: Device) -> Self {
        let group = Membership { group, members, me, sequence: AtomicU64::new(0) };
        Self { endpoint, group: Arc::new(group), device }
    }

    /// The same end of the same group, whose operations are carried out on the queue of `device`: all that an operation encodes,
    /// moves and decodes, also when it goes on in calls on other communicators. `device` must be a queue of this rank's device
    /// ([`Device::on`]). Operations of both communicators are numbered together, in the order in which they are started.
    pub fn on(&self, device: &Device) -> Communicator {
        let (endpoint, group) = (self.endpoint.clone(), self.group.clone());
        Self { endpoint, group, device: device.clone() }
    }

    /// Index of this rank in the group, from 0.
    pub fn rank(&self) -> usize {
        self.group.me
    }

    /// Number of ranks in the group.
    pub fn size(&self) -> usize {
        self.group.members.len()
    }

    /// World ranks of the group's members, in group order.
    pub fn members(&self) -> &[usize] {
        &self.group.members
    }

    /// Index of this rank among all ranks, from 0.
    pub fn world_rank(&self) -> usize {
        self.endpoint.rank
    }

    /// Cluster that all ranks belong to: hosts and ranks per host.
    pub fn topology(&self) -> Topology {
        self.endpoint.topology
    }

    /// Device on which this rank computes and allocates its buffers, with the queue of this communicator's operations.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Records that this rank has entered `phase`. Failure messages of all ranks name the phase.
    pub fn enter(&self, phase: &Label) {
        self.endpoint.control.enter(phase);
    }

    /// Bytes that this rank has sent since the last reset, over all its communicators: one entry per label, in the order
    /// of first use.
    pub fn meter(&self) -> Vec<SentBytes> {
        lock(&self.endpoint.meter).read()
    }

    /// Sets all counters of this rank's meter to zero.
    pub fn reset_meter(&self) {
        lock(&self.endpoint.meter).reset();
    }

    /// Advances all outstanding operations of this rank, on all its communicators, as far as possible without blocking.
    pub fn progress(&self) -> Result {
        self.endpoint.progress_all()
    }

    /// Sends different elements from every member to every member, and waits until all have arrived.
    ///
    /// `send` holds `send_counts[i]` elements for each member `i`, concatenated. `recv` is resized to hold the
    /// `recv_counts[i]` elements that each member `i` sends to this rank, concatenated. Returns `(send, recv)`. In a group
    /// of one rank the two buffers swap their memory instead of copying, so the contents of `send` are lost.
    pub fn all_to_all<T: Element>(
        &self,
        label: &Label,
        send: Buffer<T>,
        send_counts: &[usize],
        recv: Buffer<T>,
        recv_counts: &[usize],
    ) -> Result<(Buffer<T>, Buffer<T>)> {
        self.start_all_to_all(label, send, send_counts, recv, recv_counts)?.wait()
    }

    /// Starts an all-to-all without waiting for it; arguments are those of [`Communicator::all_to_all`].
    pub fn start_all_to_all<T: Element>(
        &self,
        label: &Label,
        send: Buffer<T>,
        send_counts: &[usize],
        mut recv: Buffer<T>,
        recv_counts: &[usize],
    ) -> Result<Pending<(Buffer<T>, Buffer<T>)>> {
        let names = Names { operation: "all_to_all", element: T::NAME, label };
        self.start(names, 1, |spans| {
            let (name, size) = ("all_to_all", size_of::<T>());
            self.need(name, label, "send counts", self.size(), send_counts.len())?;
            self.need(name, label, "receive counts", self.size(), recv_counts.len())?;
            let own = send_counts[self.rank()];
            self.need(name, label, "elements expected from itself", own, recv_counts[self.rank()])?;
            let sent = self.lay_out(name, label, send_counts, size, &mut spans.to)?;
            let received = self.lay_out(name, label, recv_counts, size, &mut spans.from)?;
            self.need_at_least(name, label, "elements to send", sent, send.len())?;
            if self.size() == 1 {
                let (len, mut send, mut recv) = (send.len(), recv, send);
                send.resize(len)?;
                recv.resize(received)?;
                return Ok(Setup::done(send.into_bytes(), recv.into_bytes()));
            }
            recv.resize(received)?;
            Ok(Setup::exchange(send.into_bytes(), recv.into_bytes()))
        })
    }

    /// Gathers the elements of all members on every member, and waits until all have arrived.
    ///
    /// `recv` is resized to hold the first `counts[i]` elements of the `send` of each member `i`, concatenated. Returns
    /// `(send, recv)`.
    pub fn all_gather<T: Element>(
        &self,
        label: &Label,
        send: Buffer<T>,
        counts: &[usize],
        recv: Buffer<T>,
    ) -> Result<(Buffer<T>, Buffer<T>)> {
        self.start_all_gather(label, send, counts, recv)?.wait()
    }

    /// Starts an all-gather without waiting for it; arguments are those of [`Communicator::all_gather`].
    pub fn start_all_gather<T: Element>(
        &self,
        label: &Label,
        send: Buffer<T>,
        counts: &[usize],
        mut recv: Buffer<T>,
    ) -> Result<Pending<(Buffer<T>, Buffer<T>)>> {
        let names = Names { operation: "all_gather", element: T::NAME, label };
        self.start(names, 1, |spans| {
            let (name, size) = ("all_gather", size_of::<T>());
            self.need(name, label, "counts", self.size(), counts.len())?;
            let total = self.lay_out(name, label, counts, size, &mut spans.from)?;
            let own = counts[self.rank()];
            self.need_at_least(name, label, "elements to send", own, send.len())?;
            spans.to.resize(self.size(), Span { at: 0, len: own * size });
            recv.resize(total)?;
            let (send, mut recv) = (send.into_bytes(), recv.into_bytes());
            if self.size() == 1 {
                self.device.copy(&mut recv, 0, &send, 0, own * size)?;
                return Ok(Setup::done(send, recv));
            }
            Ok(Setup::exchange(send, recv))
        })
    }

    /// Copies the elements of member `root` to all members, and waits until they have arrived. All members pass a buffer of
    /// the same length; the returned buffer holds the root's elements.
    pub fn broadcast<T: Element>(&self, label: &Label, root: usize, buffer: Buffer<T>) -> Result<Buffer<T>> {
        self.start_broadcast(label, root, buffer)?.wait()
    }

    /// Starts a broadcast without waiting for it; arguments are those of [`Communicator::broadcast`].
    pub fn start_broadcast<T: Element>(
        &self,
        label: &Label,
        root: usize,
        buffer: Buffer<T>,
    ) -> Result<Pending<Buffer<T>>> {
        let names = Names { operation: "broadcast", element: T::NAME, label };
        self.start(names, 1, |spans| {
            let (size, me) = (self.size(), self.rank());
            if root >= size {
                return Err(self.arguments(
                    "broadcast",
                    label,
                    "members in the group, for this root",
                    root + 1,
                    size,
                ));
            }
            let whole = Span { at: 0, len: buffer.len() * size_of::<T>() };
            let buffer = buffer.into_bytes();
            spans.to.resize(size, Span::default());
            spans.from.resize(size, Span::default());
            if me == root {
                // The root sends nothing to itself: its buffer already holds the result.
                spans.to.fill(whole);
                spans.to[root] = Span::default();
                return Ok(match size {
                    1 => Setup::done(self.nothing(), buffer),
                    _ => Setup { stage: Stage::Root, ..Setup::exchange(buffer, self.nothing()) },
                });
            }
            spans.from[root] = whole;
            Ok(Setup::exchange(self.nothing(), buffer))
        })
    }

    /// Waits until all members of the group have called `barrier`. Devices may still be at work.
    pub fn barrier(&self, label: &Label) -> Result {
        self.start_barrier(label)?.wait()
    }

    /// Starts a [`Communicator::barrier`] without waiting for it.
    pub fn start_barrier(&self, label: &Label) -> Result<Pending<()>> {
        let names = Names { operation: "barrier", element: "nothing", label };
        self.start(names, 1, |spans| {
            let (send, recv) = (Bytes::new(self.device.host()), Bytes::new(self.device.host()));
            spans.to.resize(self.size(), Span::default());
            spans.from.resize(self.size(), Span::default());
            Ok(if self.size() == 1 { Setup::done(send, recv) } else { Setup::exchange(send, recv) })
        })
    }

    /// Makes what the transport needs for exchanges of device memory in this group, so that the first of them takes no longer than
    /// the others. All members call it, if any does.
    pub fn connect(&self, label: &Label) -> Result {
        let (group, me, size) = (self.group.group, self.rank(), self.size());
        match size {
            1 => Ok(()),
            _ => self.endpoint.mover.connect(ConnectRequest { device: &self.device, group, me, size, label }),
        }
    }

    /// Divides the group into new groups, as `MPI_Comm_split` does: members that pass the same `color` form a group,
    /// ordered by `key` and then by rank. The new communicator counts its bytes in the same meter. This method allocates
    /// and is meant for set-up, not for training steps.
    pub fn split(&self, label: &Label, color: usize, key: usize) -> Result<Communicator> {
        let sequence = self.group.sequence.load(Ordering::Relaxed);
        let mine = Buffer::from_slice(self.device.host(), &[color as u64, key as u64])?;
        let counts = vec![2; self.size()];
        let all = self.all_gather(label, mine, &counts, Buffer::new(self.device.host()))?.1.to_vec()?;
        let mut chosen: Vec<(u64, usize)> = Vec::new();
        for (rank, choice) in all.chunks_exact(2).enumerate() {
            if choice[0] == color as u64 {
                chosen.push((choice[1], rank));
            }
        }
        chosen.sort_unstable();
        let members: Vec<usize> = chosen.iter().map(|&(_, rank)| self.members()[rank]).collect();
        let me = chosen.iter().position(|&(_, rank)| rank == self.rank());
        let me = me.expect("a rank is among those of its own color");
        let group = self.endpoint.control.create_group(self.group.group, sequence, color, &members)?;
        Ok(Self::of(group, members, me, self.endpoint.clone(), self.device.clone()))
    }

    /// Makes memory of no bytes, for a rank that sends or receives nothing.
    pub(crate) fn nothing(&self) -> Bytes {
        Bytes::new(self.device().for_exchange())
    }

    /// Starts an operation that takes no memory from the pool.
    fn start<O: Output>(
        &self,
        names: Names<'_>,
        exchanges: u64,
        prepare: impl FnOnce(&mut Spans) -> Result<Setup>,
    ) -> Result<Pending<O>> {
        let prepare = |state: &mut State| prepare(&mut state.scratch.spans);
        let index = self.endpoint.begin(&self.device, &self.group, names, exchanges, prepare)?;
        Ok(Pending::new(self.endpoint.clone(), index))
    }

    /// Appends to `spans` the consecutive byte ranges of `counts` elements of `size` bytes each. Returns the number of
    /// elements in all.
    pub(crate) fn lay_out(
        &self,
        operation: &'static str,
        label: &Label,
        counts: &[usize],
        size: usize,
        spans: &mut Vec<Span>,
    ) -> Result<usize> {
        let refused = || self.arguments(operation, label, "bytes in all", usize::MAX, usize::MAX);
        lay_out(counts, size, spans).ok_or_else(refused)
    }

    /// Fails unless `got` equals `expected`.
    pub(crate) fn need(
        &self,
        operation: &'static str,
        label: &Label,
        what: &'static str,
        expected: usize,
        got: usize,
    ) -> Result {
        if got == expected { Ok(()) } else { Err(self.arguments(operation, label, what, expected, got)) }
    }

    /// Fails unless `got` is at least `expected`.
    pub(crate) fn need_at_least(
        &self,
        operation: &'static str,
        label: &Label,
        what: &'static str,
        expected: usize,
        got: usize,
    ) -> Result {
        if got >= expected { Ok(()) } else { Err(self.arguments(operation, label, what, expected, got)) }
    }

    pub(crate) fn arguments(
        &self,
        operation: &'static str,
        label: &Label,
        what: &'static str,
        expected: usize,
        got: usize,
    ) -> CollectiveError {
        let (rank, label) = (self.world_rank(), label.clone());
        CollectiveError::Arguments { rank, operation, label, what, expected, got }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank())
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}
