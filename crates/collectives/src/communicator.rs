//! One rank's end of a group, and the collectives that only move data. Those that also add are in `reductions`.

use crate::operation::{Membership, Setup, Spans, Stage, lay_out};
use crate::progress::{Names, Rank};
use crate::sync::lock;
use crate::transport::{GroupId, Span};
use crate::{CollectiveError, Label, Output, Pending, Traffic};
use kernels::{Buffer, Bytes, Device, Element};
use spec::topology::Topology;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// One rank's end of a group of ranks.
///
/// Every member calls the same collectives on the group, in the same order, with counts that fit; the order in which
/// it then waits for them is its own affair. Operations of different groups are independent of each other.
///
/// Buffers may be longer than their counts ask for. They must have contents: on a device that computes nothing, they are made
/// in [`Device::for_exchange`]. A rank is one thread; should it use several, it must itself see to
/// the order of their calls.
pub struct Communicator {
    pub(crate) rank: Arc<Rank>,
    pub(crate) group: Arc<Membership>,
}

impl Communicator {
    /// The group of all ranks.
    pub(crate) fn world(rank: Arc<Rank>) -> Self {
        let members = (0..rank.topology.ranks()).collect();
        Self::of(GroupId::WORLD, members, rank.rank, rank)
    }

    fn of(group: GroupId, members: Vec<usize>, me: usize, rank: Arc<Rank>) -> Self {
        let group = Membership { group, members, me, sequence: AtomicU64::new(0) };
        Self { rank, group: Arc::new(group) }
    }

    /// This rank's index in the group.
    pub fn rank(&self) -> usize {
        self.group.me
    }

    /// Ranks in the group.
    pub fn size(&self) -> usize {
        self.group.members.len()
    }

    /// The world ranks of the group's members, in group order.
    pub fn members(&self) -> &[usize] {
        &self.group.members
    }

    /// This rank's index in the world.
    pub fn world_rank(&self) -> usize {
        self.rank.rank
    }

    /// The cluster.
    pub fn topology(&self) -> Topology {
        self.rank.topology
    }

    /// Where this rank computes, and its buffers live.
    pub fn device(&self) -> &Device {
        &self.rank.device
    }

    /// Records which phase this rank is in, for the messages of all ranks.
    pub fn enter(&self, phase: &Label) {
        self.rank.transport.enter(phase);
    }

    /// What this rank has sent, over all its communicators, by label in the order of their first use.
    pub fn meter(&self) -> Vec<Traffic> {
        lock(&self.rank.meter).read()
    }

    /// Sets the rank's meter to zero.
    pub fn reset_meter(&self) {
        lock(&self.rank.meter).reset();
    }

    /// Moves all outstanding operations of this rank on, on whichever communicator, as far as they go without blocking.
    pub fn progress(&self) -> Result {
        self.rank.progress_all()
    }

    /// Everyone to everyone: `send` holds `send_counts[i]` elements for each member `i`, one after the other; `recv`
    /// becomes the `recv_counts[i]` elements that each member `i` has for this rank, one after the other. Gives both
    /// back. In a group of one they trade their memory and nothing is copied, so count `send`'s contents as lost.
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

    /// Starts [`Communicator::all_to_all`].
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

    /// Everyone's elements to everyone: `recv` becomes the first `counts[i]` elements of each member `i`'s `send`, one
    /// after the other. Gives both back.
    pub fn all_gather<T: Element>(
        &self,
        label: &Label,
        send: Buffer<T>,
        counts: &[usize],
        recv: Buffer<T>,
    ) -> Result<(Buffer<T>, Buffer<T>)> {
        self.start_all_gather(label, send, counts, recv)?.wait()
    }

    /// Starts [`Communicator::all_gather`].
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
                recv.copy_from(0, &send, 0, own * size)?;
                return Ok(Setup::done(send, recv));
            }
            Ok(Setup::exchange(send, recv))
        })
    }

    /// The elements of member `root` to everyone. All members give a buffer of the same length and get one back.
    pub fn broadcast<T: Element>(&self, label: &Label, root: usize, buffer: Buffer<T>) -> Result<Buffer<T>> {
        self.start_broadcast(label, root, buffer)?.wait()
    }

    /// Starts [`Communicator::broadcast`].
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
                return Err(self.arguments("broadcast", label, "members, to have that root", root + 1, size));
            }
            let whole = Span { at: 0, len: buffer.len() * size_of::<T>() };
            let buffer = buffer.into_bytes();
            spans.to.resize(size, Span::default());
            spans.from.resize(size, Span::default());
            if me == root {
                // The root keeps what it has: nothing goes to itself.
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

    /// Returns when all members have called it.
    pub fn barrier(&self, label: &Label) -> Result {
        self.start_barrier(label)?.wait()
    }

    /// Starts [`Communicator::barrier`].
    pub fn start_barrier(&self, label: &Label) -> Result<Pending<()>> {
        let names = Names { operation: "barrier", element: "nothing", label };
        self.start(names, 1, |spans| {
            let (send, recv) = (self.nothing(), self.nothing());
            spans.to.resize(self.size(), Span::default());
            spans.from.resize(self.size(), Span::default());
            Ok(if self.size() == 1 { Setup::done(send, recv) } else { Setup::exchange(send, recv) })
        })
    }

    /// Divides the group: members with the same `color` form a new one, ordered by `key` and then by rank, as
    /// `MPI_Comm_split` does. The new communicator shares this one's meter. Allocates; meant for set-up.
    pub fn split(&self, label: &Label, color: usize, key: usize) -> Result<Communicator> {
        let sequence = self.group.sequence.load(Ordering::Relaxed);
        let space = self.device().for_exchange();
        let mine = Buffer::from_slice(&space, &[color as u64, key as u64])?;
        let counts = vec![2; self.size()];
        let all = self.all_gather(label, mine, &counts, Buffer::new(space))?.1.to_vec()?;
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
        let group = self.rank.transport.create_group(self.group.group, sequence, color, &members)?;
        Ok(Self::of(group, members, me, self.rank.clone()))
    }

    /// No bytes, where others send or receive some.
    pub(crate) fn nothing(&self) -> Bytes {
        Bytes::new(self.device().for_exchange())
    }

    /// Starts an operation that needs no memory of the pool.
    fn start<O: Output>(
        &self,
        names: Names<'_>,
        exchanges: u64,
        prepare: impl FnOnce(&mut Spans) -> Result<Setup>,
    ) -> Result<Pending<O>> {
        let index = self.rank.begin(&self.group, names, exchanges, |state| prepare(&mut state.spans))?;
        Ok(Pending::new(self.rank.clone(), index))
    }

    /// Lays out consecutive ranges; gives the elements in all.
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

    fn arguments(
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
