//! Device memory by a mover that needs the host: what the device sends is copied into page-locked memory of the host, moved from
//! there, and copied back onto the device of the receiver. Where the wrapped mover can read and write devices by itself, it gets
//! their memory once the device has written what is to be sent.
//!
//! A device works later than the host, so the exchange of the host can begin only when the copy is done. Nobody waits for that in
//! `start`: the rank looks for it whenever it calls into one of its communicators, and waits for it only when it waits for the
//! exchange. Host memory goes to the wrapped mover as it is.

mod parcel;

use super::{Control, ExchangeRequest, Exchanged, Mover, ROOM, Ticket};
use crate::CollectiveError;
use crate::sync::lock;
use kernels::KernelError;
use parcel::{Parcel, Pieces, Ranges};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// Pause between two looks at bytes that are still on their way to the host, while others may arrive.
const NAP: Duration = Duration::from_micros(20);

/// How device memory reaches other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Through page-locked memory of the host.
    Staged,
    /// By the wrapped mover itself, once the device has done the work before the exchange.
    Direct,
    /// As `Staged`, for host memory too, whose copies look unfinished to the given number of looks: for tests without devices.
    #[cfg(test)]
    Everything { looks: usize },
}

/// Mover of device memory over a mover of host memory.
pub(crate) struct Staged {
    inner: Arc<dyn Mover>,
    control: Arc<dyn Control>,
    route: Route,
    local: Mutex<Local>,
}

/// Exchanges under way, and what is reused for the next ones.
#[derive(Default)]
struct Local {
    slots: Vec<Slot>,
    free: Vec<usize>,
    pieces: Pieces,
    spare: Vec<Ranges>,
    tickets: Vec<Ticket>,
}

/// An exchange that this rank has started.
#[derive(Default)]
struct Slot {
    state: State,
    /// Device memory of the exchange; none if it is an exchange of host memory.
    parcel: Option<Parcel>,
    /// What the wrapped mover has returned.
    arrived: Option<Exchanged>,
}

/// How far an exchange is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// The device has not yet done all work before the exchange.
    Leaving,
    /// The exchange of the host is under way.
    Moving(Ticket),
    /// The exchange of the host is complete.
    Arrived,
}

impl Staged {
    pub(crate) fn new(inner: Arc<dyn Mover>, control: Arc<dyn Control>, route: Route) -> Self {
        let (slots, free, tickets) =
            (Vec::with_capacity(ROOM), Vec::with_capacity(ROOM), Vec::with_capacity(ROOM));
        let local = Local { slots, free, tickets, ..Local::default() };
        Self { inner, control, route, local: Mutex::new(local) }
    }

    /// Ends the run because a device has failed.
    fn checked<T>(&self, result: std::result::Result<T, KernelError>) -> Result<T> {
        result.map_err(|error| self.control.abort(error.into()))
    }

    fn takes(&self, request: &ExchangeRequest<'_>) -> bool {
        match self.route {
            Route::Staged | Route::Direct => !request.is_on_host(),
            #[cfg(test)]
            Route::Everything { .. } => true,
        }
    }

    /// Starts the exchange of the host, if the device has done all work before it. With `wait`, waits for the device.
    fn advance(&self, slot: &mut Slot, wait: bool) -> Result {
        if let (State::Leaving, Some(parcel)) = (slot.state, &mut slot.parcel)
            && self.checked(parcel.has_left(wait))?
        {
            slot.state = State::Moving(self.inner.start(parcel.request())?);
        }
        Ok(())
    }

    /// Whether the exchange of the host is complete.
    fn has_arrived(&self, slot: &mut Slot) -> Result<bool> {
        if let State::Moving(ticket) = slot.state {
            slot.arrived = self.inner.test(ticket)?;
            if slot.arrived.is_some() {
                slot.state = State::Arrived;
            }
        }
        Ok(slot.state == State::Arrived)
    }

    /// Looks at all exchanges until one of `wanted` and `others` has arrived, which makes it return true, or until no bytes are
    /// on their way from the device to the host any more.
    fn see_off(&self, wanted: Ticket, others: &[Ticket], deadline: Option<Instant>) -> Result<bool> {
        loop {
            let mut local = lock(&self.local);
            // Others may wait for any exchange that this rank has started, not only for those it waits for itself.
            local.slots.iter_mut().try_for_each(|slot| self.advance(slot, false))?;
            self.advance(&mut local.slots[wanted.0], true)?;
            if local.slots[wanted.0].state == State::Arrived {
                return Ok(true);
            }
            if !local.slots.iter().any(|slot| slot.state == State::Leaving) {
                return Ok(false);
            }
            for ticket in std::iter::once(&wanted).chain(others) {
                if self.has_arrived(&mut local.slots[ticket.0])? {
                    return Ok(true);
                }
            }
            drop(local);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
            std::thread::sleep(NAP);
        }
    }
}

impl Mover for Staged {
    fn start(&self, request: ExchangeRequest<'_>) -> Result<Ticket> {
        let mut local = lock(&self.local);
        let local = &mut *local;
        let slot = if self.takes(&request) {
            self.control.check()?;
            let ranges = local.spare.pop().unwrap_or_default();
            let parcel = Parcel::pack(request, self.route, ranges, &mut local.pieces);
            Slot { state: State::Leaving, parcel: Some(self.checked(parcel)?), arrived: None }
        } else {
            Slot { state: State::Moving(self.inner.start(request)?), parcel: None, arrived: None }
        };
        let index = local.free.pop().unwrap_or_else(|| {
            local.slots.push(Slot::default());
            local.slots.len() - 1
        });
        local.slots[index] = slot;
        Ok(Ticket(index))
    }

    fn test(&self, ticket: Ticket) -> Result<Option<Exchanged>> {
        let mut local = lock(&self.local);
        let local = &mut *local;
        let slot = &mut local.slots[ticket.0];
        self.advance(slot, false)?;
        if !self.has_arrived(slot)? {
            return Ok(None);
        }
        let Slot { parcel, arrived, .. } = std::mem::take(slot);
        local.free.push(ticket.0);
        let arrived = arrived.expect("an exchange that has arrived is here");
        let Some(parcel) = parcel else { return Ok(Some(arrived)) };
        let (exchanged, ranges) = self.checked(parcel.unpack(arrived, &mut local.pieces))?;
        local.spare.push(ranges);
        Ok(Some(exchanged))
    }

    fn wait(&self, wanted: Ticket, others: &[Ticket], deadline: Option<Instant>) -> Result {
        if self.see_off(wanted, others, deadline)? {
            return Ok(());
        }
        let (mut tickets, moving) = {
            let mut local = lock(&self.local);
            let mut tickets = std::mem::take(&mut local.tickets);
            tickets.clear();
            tickets.extend(others.iter().filter_map(|other| local.slots[other.0].state.moving()));
            (tickets, local.slots[wanted.0].state.moving())
        };
        let waited = moving.map_or(Ok(()), |wanted| self.inner.wait(wanted, &tickets, deadline));
        std::mem::swap(&mut lock(&self.local).tickets, &mut tickets);
        waited
    }

    fn settle(&self) -> Result {
        lock(&self.local).slots.iter_mut().try_for_each(|slot| self.advance(slot, true))?;
        self.inner.settle()
    }
}

impl State {
    /// Ticket of the exchange of the host, while it is under way.
    fn moving(self) -> Option<Ticket> {
        match self {
            State::Moving(ticket) => Some(ticket),
            State::Free | State::Leaving | State::Arrived => None,
        }
    }
}

#[cfg(test)]
mod tests;
