//! Exchanges of one rank with ranks that are threads of the same process.

use super::exchange::{Disagreement, Exchange};
use super::world::Group;
use super::{InProcess, Result};
use crate::sync::lock;
use crate::transport::{ExchangeRequest, Exchanged, Header, Mover, Ticket};
use crate::{Call, CollectiveError, CollectiveStatus};
use kernels::{Device, KernelError, offer_core};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How much longer to wait when the limit is over but all members have arrived, and only copies are still being made.
const COPYING: Duration = Duration::from_secs(1);

/// Turns of a loop that does nothing, between two looks for the end of an exchange.
const SPINS: usize = 64;

/// An exchange that this rank has started.
#[derive(Clone)]
pub(super) struct Started {
    exchange: Arc<Exchange>,
    group: Arc<Group>,
    me: usize,
    status: CollectiveStatus,
    /// Device whose queue copies, if the exchange is one of device memory.
    device: Option<Device>,
}

impl Started {
    /// Records on the device's queue that this rank arrives, if it does so with device memory.
    fn record_arrival(&self) -> std::result::Result<(), KernelError> {
        let Some(device) = &self.device else { return Ok(()) };
        if !self.exchange.has_events(self.me) {
            self.group.make_events(self.me, device)?;
        }
        self.exchange.record_arrival(self.me, device)
    }

    /// Has the device's queue go on after the copies that other ranks queued, if the exchange is one of device memory.
    fn queue_wait(&self) -> std::result::Result<(), KernelError> {
        self.device.as_ref().map_or(Ok(()), |device| self.exchange.queue_wait(self.me, device))
    }
}

impl InProcess {
    fn started(&self, ticket: Ticket) -> Started {
        lock(&self.local).under_way[ticket.0].clone().expect("a ticket is good until its exchange ends")
    }

    fn mismatch(
        &self,
        started: &Started,
        mine: &Header,
        other: Disagreement,
        sends: usize,
        expects: usize,
    ) -> CollectiveError {
        let phase = |rank: usize| lock(&self.world.seats[rank].status).phase.clone();
        let other_rank = started.group.members[other.other];
        let call = |rank, header: &Header, sends, expects| {
            let Header { operation, element, label } = header.clone();
            Box::new(Call { rank, operation, element, label, phase: phase(rank), sends, expects })
        };
        self.world.fail(CollectiveError::Mismatch {
            sequence: started.status.sequence,
            members: started.group.members.clone(),
            first: call(other_rank, &other.header, other.other_sends, other.other_expects),
            second: call(self.rank, mine, sends, expects),
        })
    }

    /// Looks for `complete` to hold, or for the run to end, as long as the patience of ranks lasts and no other thread wants the core.
    fn look_for(&self, complete: impl Fn() -> bool) {
        let began = Instant::now();
        while began.elapsed() < self.world.patience && !complete() && self.world.check().is_ok() {
            for _ in 0..SPINS {
                std::hint::spin_loop();
            }
            if offer_core() {
                return;
            }
        }
    }

    /// Ends the run because the wait for an exchange is over its limit, unless all members have arrived and only copies are
    /// still being made.
    fn late(&self, started: &Started) -> Result {
        let mut missing = Vec::new();
        started.exchange.for_each(|member, header| {
            if header.is_none() {
                missing.push(started.group.members[member]);
            }
        });
        if missing.is_empty() {
            return Ok(());
        }
        let CollectiveStatus { operation, label, sequence, .. } = started.status.clone();
        let (rank, limit) = (self.rank, self.wait_limit);
        Err(self.world.fail(CollectiveError::WaitLimit { rank, operation, label, sequence, limit, missing }))
    }
}

impl Mover for InProcess {
    fn start(&self, request: ExchangeRequest<'_>) -> Result<Ticket> {
        self.world.check()?;
        let (group, sequence, header) = (request.group, request.sequence, request.header.clone());
        let (to, from) = (request.to, request.from);
        let (group, mut pairs) = {
            let mut local = lock(&self.local);
            let group = local.groups.iter().find(|g| g.id == group).expect("a rank uses groups it is in");
            (group.clone(), std::mem::take(&mut local.pairs))
        };
        let Header { operation, label, .. } = header.clone();
        let status = CollectiveStatus { operation, label, sequence, size: group.members.len() };
        lock(&self.world.seats[self.rank].status).collective = Some(status.clone());
        let device = (self.all_on_queues.load(Ordering::Relaxed) || !request.is_on_host())
            .then(|| request.device.clone());
        let me = request.me;
        let started = Started { exchange: group.exchange(sequence), group, me, status, device };
        started.record_arrival().map_err(|error| self.world.fail(error.into()))?;

        let arrived = started.exchange.arrive(me, request, &mut pairs);
        if let Err(other) = arrived {
            let (sends, expects) = (to[other.other].len, from[other.other].len);
            return Err(self.mismatch(&started, &header, other, sends, expects));
        }
        let wake = |member: usize| self.world.wake(started.group.members[member]);
        let copied = match &started.device {
            Some(device) => started.exchange.queue_copies(me, &pairs, device, wake),
            None => pairs.iter().try_for_each(|&pair| started.exchange.copy(me, pair, wake)),
        };
        copied.map_err(|error| self.world.fail(error.into()))?;
        if !started.exchange.is_complete(me) {
            self.world.check_left(&started.group, sequence, &started.exchange)?;
        }
        let mut local = lock(&self.local);
        local.pairs = pairs;
        let ticket = local.free.pop().unwrap_or_else(|| {
            local.under_way.push(None);
            local.under_way.len() - 1
        });
        local.under_way[ticket] = Some(started);
        Ok(Ticket(ticket))
    }

    fn test(&self, ticket: Ticket) -> Result<Option<Exchanged>> {
        self.world.check()?;
        let mut local = lock(&self.local);
        let slot = &mut local.under_way[ticket.0];
        if !slot.as_ref().is_some_and(|started| started.exchange.is_complete(started.me)) {
            return Ok(None);
        }
        let started = slot.take().expect("the slot was just seen to be full");
        local.free.push(ticket.0);
        started.queue_wait().map_err(|error| self.world.fail(error.into()))?;
        let at = started.exchange.completed(started.me);
        let (send, recv, last) = started.exchange.take(started.me);
        if last {
            started.group.recycle(started.status.sequence);
        }
        Ok(Some(Exchanged { send, recv, at }))
    }

    fn wait(&self, wanted: Ticket, others: &[Ticket], mut deadline: Option<Instant>) -> Result {
        let started = self.started(wanted);
        let seat = &self.world.seats[self.rank];
        {
            let mut status = lock(&seat.status);
            status.collective = Some(started.status.clone());
            status.waiting = Some(Instant::now());
        }
        let complete = || {
            let local = lock(&self.local);
            let tickets = std::iter::once(&wanted).chain(others);
            let mut all = tickets.filter_map(|ticket| local.under_way[ticket.0].as_ref());
            all.any(|started| started.exchange.is_complete(started.me))
        };
        self.look_for(complete);
        let mut signal = lock(&seat.signal);
        let outcome = loop {
            if let Err(ended) = self.world.check() {
                break Err(ended);
            }
            if complete() {
                break Ok(());
            }
            let now = Instant::now();
            let Some(end) = deadline else {
                signal = seat.changed.wait(signal).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if now < end {
                let waited = seat.changed.wait_timeout(signal, end - now);
                signal = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            // To fail the run is to wake all ranks, this one too, which needs the lock on its signal.
            drop(signal);
            self.late(&started)?;
            deadline = now.checked_add(COPYING);
            signal = lock(&seat.signal);
        };
        drop(signal);
        if outcome.is_ok() {
            lock(&seat.status).waiting = None;
        }
        outcome
    }
}
