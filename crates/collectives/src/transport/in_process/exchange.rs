//! One exchange in process: the place where the members of a group leave their memory for each other.
//!
//! The later of two members to arrive copies for both, in both directions. So an exchange is complete once its last
//! member has arrived, whoever waits for it and when.
//!
//! Device memory is copied by the queue of the later member, and the host waits for no device: events order the queues. A member
//! that arrives records that what it sends is ready and that it may receive; the queue that copies begins after that, and records
//! when it is done; a member that takes its memory back has its own queue go on after all copies that others made for it. A queue
//! only ever waits for an event that was recorded before, so that queues cannot wait for each other in a circle.

use crate::sync::lock;
use crate::transport::{ExchangeRequest, Header, Span};
use kernels::{Bytes, Device, Event, KernelError};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// An exchange between the members of a group. Reused once all members have taken their memory back.
pub(super) struct Exchange {
    arrivals: Mutex<Vec<Arrival>>,
    cells: Vec<Cell>,
    /// Creation of this value; `last_copy` counts from here.
    made: Instant,
    /// Members that have not taken their memory back.
    untaken: AtomicUsize,
}

/// Header and ranges of a member that has arrived.
#[derive(Default)]
struct Arrival {
    header: Option<Header>,
    /// Number of members that arrived before this one.
    turn: usize,
    to: Vec<Span>,
    from: Vec<Span>,
}

/// Memory of one member. Several members read `send` at once; one at a time writes to `recv`.
struct Cell {
    send: RwLock<Option<Bytes>>,
    recv: Mutex<Option<Bytes>>,
    /// Number of members, this one included, with which this member has not exchanged data yet.
    remaining: AtomicUsize,
    /// Time of the last copy for this member, in nanoseconds since the exchange was made.
    last_copy: AtomicU64,
    /// Events of the member, once it has device memory to exchange. They are recorded anew whenever the exchange is reused.
    events: OnceLock<Events>,
}

/// Points in the work of the queues of one member.
struct Events {
    /// What the member sends is ready, and what it receives may be written.
    arrived: Event,
    /// The copies that the member has made, for itself and for those that arrived before it, are done.
    copied: Event,
}

/// The two copies between an arriving member and one that arrived before it (or itself).
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) other: usize,
    out: (Span, Span),
    back: (Span, Span),
}

/// Mismatch between an arriving member and member `other`: the header of `other`, and the bytes that it sends to and expects
/// from the arriving member.
pub(super) struct Disagreement {
    pub(super) other: usize,
    pub(super) header: Header,
    pub(super) other_sends: usize,
    pub(super) other_expects: usize,
}

impl Exchange {
    pub(super) fn new(size: usize) -> Self {
        let arrival = |_| Arrival {
            header: None,
            turn: 0,
            to: Vec::with_capacity(size),
            from: Vec::with_capacity(size),
        };
        let cell = |_| Cell {
            send: RwLock::new(None),
            recv: Mutex::new(None),
            remaining: AtomicUsize::new(size),
            last_copy: AtomicU64::new(0),
            events: OnceLock::new(),
        };
        Self {
            arrivals: Mutex::new((0..size).map(arrival).collect()),
            cells: (0..size).map(cell).collect(),
            made: Instant::now(),
            untaken: AtomicUsize::new(size),
        }
    }

    /// Adds member `me`. Lists in `pairs` what it must now copy: with itself, and with all members that arrived before it.
    pub(super) fn arrive(
        &self,
        me: usize,
        request: ExchangeRequest<'_>,
        pairs: &mut Vec<Pair>,
    ) -> Result<(), Disagreement> {
        let ExchangeRequest { header, send, to, recv, from, .. } = request;
        // The memory is in place before any other member can see that this one has arrived.
        *self.cells[me].send.write().unwrap_or_else(PoisonError::into_inner) = Some(send);
        *lock(&self.cells[me].recv) = Some(recv);
        let mut arrivals = lock(&self.arrivals);
        pairs.clear();
        pairs.push(Pair { other: me, out: (to[me], from[me]), back: <(Span, Span)>::default() });
        // Each arriving member begins with its right neighbour, so that members that copy at once do not queue up.
        for other in (me + 1..arrivals.len()).chain(0..me) {
            let there = &arrivals[other];
            let Some(its) = &there.header else { continue };
            let same = (its.operation, its.element) == (header.operation, header.element);
            let fits = to[other].len == there.from[me].len && from[other].len == there.to[me].len;
            if !(same && fits) {
                return Err(Disagreement {
                    other,
                    header: its.clone(),
                    other_sends: there.to[me].len,
                    other_expects: there.from[me].len,
                });
            }
            let (out, back) = ((to[other], there.from[me]), (there.to[me], from[other]));
            pairs.push(Pair { other, out, back });
        }
        let turn = arrivals.iter().filter(|arrival| arrival.header.is_some()).count();
        let arrival = &mut arrivals[me];
        arrival.header = Some(header);
        arrival.turn = turn;
        arrival.to.extend_from_slice(to);
        arrival.from.extend_from_slice(from);
        Ok(())
    }

    /// Copies in host memory between `me` and the other member of `pair`. Calls `complete` with each member for which this pair
    /// was the last.
    pub(super) fn copy(
        &self,
        me: usize,
        pair: Pair,
        mut complete: impl FnMut(usize),
    ) -> Result<(), KernelError> {
        self.copy_pair(me, pair, |to, at, from, from_at, len| to.copy_from(at, from, from_at, len))?;
        self.count_pair(me, pair, &mut complete);
        Ok(())
    }

    /// Copies between two members, both ways, by `copy`.
    fn copy_pair(
        &self,
        me: usize,
        pair: Pair,
        copy: impl Fn(&mut Bytes, usize, &Bytes, usize, usize) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let back = (pair.other != me).then_some((pair.other, me, pair.back));
        for (source, target, (from, to)) in [(me, pair.other, pair.out)].into_iter().chain(back) {
            if from.len > 0 {
                let mut recv = lock(&self.cells[target].recv);
                let send = self.cells[source].send.read().unwrap_or_else(PoisonError::into_inner);
                if let (Some(recv), Some(send)) = (&mut *recv, &*send) {
                    copy(recv, to.at, send, from.at, from.len)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the copies between `me` and the other member of `pair` as made.
    fn count_pair(&self, me: usize, pair: Pair, complete: &mut impl FnMut(usize)) {
        if pair.other != me {
            self.count_down(pair.other, complete);
        }
        // This comes last: the exchange may be reused from here on.
        self.count_down(me, complete);
    }

    /// Whether member `me` has events here.
    pub(super) fn has_events(&self, me: usize) -> bool {
        self.cells[me].events.get().is_some()
    }

    /// Makes the events of member `me`, whose device is `device`, unless it has them already.
    pub(super) fn make_events(&self, me: usize, device: &Device) -> Result<(), KernelError> {
        if !self.has_events(me) {
            let events = Events { arrived: device.event()?, copied: device.event()? };
            // Only the member itself makes them.
            let _ = self.cells[me].events.set(events);
        }
        Ok(())
    }

    fn events(&self, me: usize) -> &Events {
        self.cells[me].events.get().expect("a member makes its events before it arrives")
    }

    /// Records, before member `me` arrives, that its memory may be read and written after all work so far of the queue of `device`.
    pub(super) fn record_arrival(&self, me: usize, device: &Device) -> Result<(), KernelError> {
        device.record(&self.events(me).arrived)
    }

    /// Queues the copies of all `pairs` of member `me` on the queue of `device`. Calls `complete` with each member for which
    /// these were the last.
    pub(super) fn queue_copies(
        &self,
        me: usize,
        pairs: &[Pair],
        device: &Device,
        mut complete: impl FnMut(usize),
    ) -> Result<(), KernelError> {
        let queue = |&pair: &Pair| {
            if let Some(events) = self.cells[pair.other].events.get().filter(|_| pair.other != me) {
                device.wait(&events.arrived)?;
            }
            self.copy_pair(me, pair, |to, at, from, from_at, len| device.copy(to, at, from, from_at, len))
        };
        let queued = pairs.iter().try_for_each(queue);
        // After an error too: what was queued may still read and write the memory, which is not freed before the event is past.
        let recorded = device.record(&self.events(me).copied);
        queued.and(recorded)?;
        pairs.iter().for_each(|&pair| self.count_pair(me, pair, &mut complete));
        Ok(())
    }

    /// Lets later work of the queue of `device` begin after all copies that others made for member `me`, for which the exchange
    /// is complete. Copies that the member made itself are in the queue already.
    pub(super) fn queue_wait(&self, me: usize, device: &Device) -> Result<(), KernelError> {
        let arrivals = lock(&self.arrivals);
        let copiers = self.cells.iter().zip(&*arrivals).filter(|(_, other)| other.turn > arrivals[me].turn);
        copiers.filter_map(|(cell, _)| cell.events.get()).try_for_each(|events| device.wait(&events.copied))
    }

    fn count_down(&self, member: usize, complete: &mut impl FnMut(usize)) {
        // The time is stored before the count: whoever sees that nothing remains also sees the time of the last copy.
        let moment = u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.cells[member].last_copy.fetch_max(moment, Ordering::Relaxed);
        if self.cells[member].remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            complete(member);
        }
    }

    /// Whether all data to and from member `me` has been copied.
    pub(super) fn is_complete(&self, me: usize) -> bool {
        self.cells[me].remaining.load(Ordering::Acquire) == 0
    }

    /// Time of the last copy to or from member `me`, for which the exchange is complete.
    pub(super) fn completed(&self, me: usize) -> Instant {
        self.made + Duration::from_nanos(self.cells[me].last_copy.load(Ordering::Relaxed))
    }

    /// Returns the memory of member `me`, and whether it was the last member to take it: the exchange can then be reused.
    pub(super) fn take(&self, me: usize) -> (Bytes, Bytes, bool) {
        let send = self.cells[me].send.write().unwrap_or_else(PoisonError::into_inner).take();
        let recv = lock(&self.cells[me].recv).take();
        let last = self.untaken.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            self.untaken.store(self.cells.len(), Ordering::Release);
            for (cell, arrival) in self.cells.iter().zip(lock(&self.arrivals).iter_mut()) {
                cell.last_copy.store(0, Ordering::Relaxed);
                cell.remaining.store(self.cells.len(), Ordering::Release);
                arrival.header = None;
                arrival.turn = 0;
                arrival.to.clear();
                arrival.from.clear();
            }
        }
        let expect = "a member that arrived has left its memory here";
        (send.expect(expect), recv.expect(expect), last)
    }

    /// Calls `see` with each member, and with its header if it has arrived.
    pub(super) fn for_each(&self, mut see: impl FnMut(usize, Option<&Header>)) {
        for (member, arrival) in lock(&self.arrivals).iter().enumerate() {
            see(member, arrival.header.as_ref());
        }
    }
}

impl Drop for Exchange {
    /// Waits for copies of device memory that nobody has taken back, which happens only after a failure. Memory of a card is freed
    /// when that card is done, but another card may be the one that copies.
    fn drop(&mut self) {
        let left = |cell: &mut Cell| {
            let send = cell.send.get_mut().unwrap_or_else(PoisonError::into_inner).is_some();
            send || cell.recv.get_mut().unwrap_or_else(PoisonError::into_inner).is_some()
        };
        if self.cells.iter_mut().any(left) {
            for events in self.cells.iter().filter_map(|cell| cell.events.get()) {
                // An error of the device is no reason to keep the memory: the run has failed, and the device with it.
                let _ = events.copied.synchronise();
            }
        }
    }
}
