//! Device memory by NCCL, over a transport of host memory that the ranks agree by: threads, or MPI.
//!
//! An exchange is one group of sends and receives in the queue of its lane, so that the host waits for nothing: the exchange is
//! complete for the host once it is queued, and later work of the queue finds the bytes. Host memory goes to the wrapped mover.
//!
//! NCCL's rules, and how they are kept here:
//! - *Members queue the same operations of a communicator in the same order.* An exchange is queued when it is started and is then
//!   complete, so that a collective of several exchanges queues all of them at its start; ranks start the collectives of a group in
//!   the same order, which is a rule of [`Communicator`](crate::Communicator).
//! - *Operations of several communicators must not wait for each other in a circle.* All ranks start their collectives in the order
//!   of one schedule, and a queue goes on with an operation only after the rank's operation before, in whatever queue and group:
//!   an event orders them. So every card carries them out in one order, the same on all cards.
//! - *All members join a communicator together.* A group's communicator is made when the group is connected, or at its first
//!   exchange of device memory. Members meet over the wrapped mover first, where a member that fails ends the wait of the others.
//! - *Pairs agree on lengths; nothing is queued for a length of 0.*
//! - *An operation that a member never queues never ends.* A thread watches the run, and aborts the communicators of this rank when
//!   the run has ended, NCCL reports an error, or an operation takes longer than the wait limit. Queues then go on, and whoever
//!   waits for them learns why the run ended.
//! - *A card belongs to one rank of a communicator.* Members tell each other their cards when they meet.

mod link;
mod meeting;
mod watch;

pub(crate) use link::{Fabric, Link};

use super::{
    ConnectRequest, Control, ExchangeRequest, Exchanged, GroupId, Header, Mover, ROOM, Span, SumRequest,
    Ticket,
};
use crate::sync::lock;
use crate::{CollectiveError, CollectiveStatus, Label};
use kernels::{Bytes, Device, KernelError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use watch::Watched;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// A rank among all ranks, and how long it waits for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) wait_limit: Duration,
}

/// Mover of device memory by NCCL, over a mover of host memory.
pub(crate) struct NcclMover {
    inner: Arc<dyn Mover>,
    control: Arc<dyn Control>,
    fabric: Arc<dyn Fabric>,
    seat: Seat,
    watched: Arc<Watched>,
    /// Whether host memory goes by the fabric too, for tests on machines without devices.
    all: bool,
    /// Whether all ranks have done all that they queued.
    settled: AtomicBool,
    local: Mutex<Local>,
}

/// What only this rank's thread uses.
#[derive(Default)]
struct Local {
    slots: Vec<Slot>,
    free: Vec<usize>,
    tickets: Vec<Ticket>,
    links: Vec<(GroupId, Arc<dyn Link>)>,
    /// Queue of the operation before.
    queue: Option<usize>,
}

/// An exchange that this rank has started.
#[derive(Default)]
enum Slot {
    #[default]
    Free,
    /// The wrapped mover has it.
    Inner(Ticket),
    /// All of it is in the queue.
    Queued(Exchanged),
}

/// The group of an operation, as one member sees it.
#[derive(Clone, Copy)]
struct Place {
    group: GroupId,
    me: usize,
    size: usize,
    sequence: u64,
}

impl Local {
    /// Link of a group, if it was made.
    fn link(&self, of: GroupId) -> Option<Arc<dyn Link>> {
        self.links.iter().find(|(group, _)| *group == of).map(|(_, link)| link.clone())
    }
}

impl NcclMover {
    pub(crate) fn new(
        inner: Arc<dyn Mover>,
        control: Arc<dyn Control>,
        fabric: Arc<dyn Fabric>,
        seat: Seat,
    ) -> Self {
        let watched = Arc::new(Watched::new(control.clone()));
        let (slots, free, tickets) =
            (Vec::with_capacity(ROOM), Vec::with_capacity(ROOM), Vec::with_capacity(ROOM));
        let local = Mutex::new(Local { slots, free, tickets, ..Local::default() });
        let settled = AtomicBool::new(false);
        Self { inner, control, fabric, seat, watched, all: false, settled, local }
    }

    /// The mover with host memory going by the fabric too, for tests on machines without devices.
    #[cfg(test)]
    pub(crate) fn of_everything(mut self) -> Self {
        self.all = true;
        self
    }

    /// Whether an exchange goes by NCCL. A barrier never does: the host waits for it.
    fn takes(&self, request: &ExchangeRequest<'_>) -> bool {
        !request.is_on_host() || (self.all && request.header.operation != "barrier")
    }

    /// Ends the run because a device, or NCCL, has failed.
    fn checked<T>(&self, result: std::result::Result<T, KernelError>) -> Result<T> {
        result.map_err(|error| self.control.abort(error.into()))
    }

    /// Queues an operation of a group behind the rank's operation before. The group's communicator is made if it has none.
    fn queue(
        &self,
        local: &mut Local,
        device: &Device,
        place: Place,
        header: &Header,
        operation: impl FnOnce(&dyn Link) -> std::result::Result<(), KernelError>,
    ) -> Result {
        let link = match local.link(place.group) {
            Some(link) => link,
            None => self.join(local, device, place, &header.label)?,
        };
        let Header { operation: name, label, .. } = header.clone();
        let Place { sequence, size, .. } = place;
        let status = CollectiveStatus { operation: name, label, sequence, size };
        self.control.started(&status);
        self.watched.starts(status);
        self.in_turn(local, device, || operation(&*link))
    }

    /// Queues `operation` behind the operation before, in whatever queue that is.
    fn in_turn(
        &self,
        local: &mut Local,
        device: &Device,
        operation: impl FnOnce() -> std::result::Result<(), KernelError>,
    ) -> Result {
        let tail = self.checked(self.watched.tail(device))?;
        if local.queue.is_some_and(|queue| queue != device.queue()) {
            self.checked(device.wait(tail))?;
        }
        local.queue = Some(device.queue());
        self.checked(self.watched.inside(|| operation().and_then(|()| device.record(tail))))
    }

    /// Makes the communicator of a group, together with its other members, and its connections.
    fn join(&self, local: &mut Local, device: &Device, place: Place, label: &Label) -> Result<Arc<dyn Link>> {
        let Place { group, me, size, .. } = place;
        let id = self.meet(device, place, label)?;
        let link = self.checked(self.fabric.join(device, &id, size, me))?;
        self.watched.watch(&link, self.seat)?;
        local.links.push((group, link.clone()));
        // The first exchange between two ranks connects them, which needs both: all pairs connect here, while all are here, and
        // not in the middle of a step that a rank may never come to.
        let spans: Vec<Span> = (0..size).map(|at| Span { at, len: 1 }).collect();
        let zeros = || self.checked(Bytes::zeroed(device.for_exchange(), size));
        let (send, mut recv) = (zeros()?, zeros()?);
        self.in_turn(local, device, || link.exchange(device, &send, &spans, &mut recv, &spans))?;
        self.checked(device.synchronise())?;
        Ok(link)
    }
}

impl Mover for NcclMover {
    fn start(&self, request: ExchangeRequest<'_>) -> Result<Ticket> {
        let mut local = lock(&self.local);
        let local = &mut *local;
        let slot = if self.takes(&request) {
            self.control.check()?;
            let ExchangeRequest { device, group, me, sequence, header, send, to, mut recv, from } = request;
            let place = Place { group, me, size: to.len(), sequence };
            self.queue(local, device, place, &header, |link| {
                link.exchange(device, &send, to, &mut recv, from)
            })?;
            Slot::Queued(Exchanged { send, recv, at: Instant::now() })
        } else {
            Slot::Inner(self.inner.start(request)?)
        };
        let index = local.free.pop().unwrap_or_else(|| {
            local.slots.push(Slot::Free);
            local.slots.len() - 1
        });
        local.slots[index] = slot;
        Ok(Ticket(index))
    }

    fn test(&self, ticket: Ticket) -> Result<Option<Exchanged>> {
        self.control.check()?;
        let mut local = lock(&self.local);
        let exchanged = match std::mem::take(&mut local.slots[ticket.0]) {
            Slot::Queued(exchanged) => exchanged,
            Slot::Inner(inner) => match self.inner.test(inner)? {
                Some(exchanged) => exchanged,
                None => {
                    local.slots[ticket.0] = Slot::Inner(inner);
                    return Ok(None);
                }
            },
            Slot::Free => unreachable!("a ticket is good until its exchange ends"),
        };
        local.free.push(ticket.0);
        Ok(Some(exchanged))
    }

    fn wait(&self, wanted: Ticket, others: &[Ticket], deadline: Option<Instant>) -> Result {
        let (mut tickets, wanted) = {
            let mut local = lock(&self.local);
            let mut tickets = std::mem::take(&mut local.tickets);
            tickets.clear();
            for ticket in std::iter::once(&wanted).chain(others) {
                match &local.slots[ticket.0] {
                    Slot::Inner(inner) => tickets.push(*inner),
                    Slot::Queued(_) | Slot::Free => {
                        local.tickets = tickets;
                        return Ok(());
                    }
                }
            }
            let wanted = tickets.remove(0);
            (tickets, wanted)
        };
        let waited = self.inner.wait(wanted, &tickets, deadline);
        std::mem::swap(&mut lock(&self.local).tickets, &mut tickets);
        waited
    }

    fn connect(&self, request: ConnectRequest<'_>) -> Result {
        let ConnectRequest { device, group, me, size, label } = request;
        let mut local = lock(&self.local);
        let on_host = Bytes::new(device.for_exchange()).is_on_host();
        if (on_host && !self.all) || local.link(group).is_some() {
            return Ok(());
        }
        self.control.check()?;
        self.join(&mut local, device, Place { group, me, size, sequence: 0 }, label).map(drop)
    }

    fn sum(&self, request: SumRequest<'_>) -> Option<Result> {
        if !self.all && request.vector.is_on_host() {
            return None;
        }
        let SumRequest { device, group, me, size, sequence, header, vector, floats } = request;
        let place = Place { group, me, size, sequence };
        let mut local = lock(&self.local);
        let sum = self.control.check().and_then(|()| {
            self.queue(&mut local, device, place, &header, |link| link.sum(device, vector, floats))
        });
        Some(sum)
    }

    /// Waits until all ranks have done all that they queued, so that they can let go of each other.
    fn settle(&self) -> Result {
        self.inner.settle()?;
        self.checked(self.watched.synchronise())?;
        self.meet_all()?;
        self.settled.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for NcclMover {
    /// Closes the communicators if all ranks are done with them. Otherwise the run has failed, and they are aborted.
    fn drop(&mut self) {
        self.watched.stop();
        let close = self.settled.load(Ordering::Acquire) && self.control.check().is_ok();
        for (_, link) in std::mem::take(&mut lock(&self.local).links) {
            if close {
                link.close();
            } else {
                link.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests;
