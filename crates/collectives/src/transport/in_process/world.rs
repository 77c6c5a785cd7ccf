//! State that the ranks of one process share: what each is doing, and whether the run has ended.

use super::exchange::Exchange;
use crate::sync::lock;
use crate::transport::{GroupId, Header};
use crate::{Activity, CollectiveError, CollectiveStatus, Failure, Label, RankStatus};
use kernels::{Device, KernelError};
use spec::topology::Topology;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Number of exchanges that a group of `size` ranks is created with: fewer in large groups, where each takes more memory.
/// More are created when ranks run further ahead of each other.
fn first_exchanges(size: usize) -> usize {
    (512 / size.max(1)).clamp(8, 32)
}

/// Time for which a rank looks for the end of an exchange before it sleeps: longer than copies take, and than ranks that do the same work
/// differ by. A virtual core that sleeps at every exchange is slow when it wakes (`docs/results/kernels.md`, "Why steps vary").
const PATIENCE: Duration = Duration::from_millis(1);

/// All ranks of the process.
pub(crate) struct World {
    pub(super) topology: Topology,
    /// Time for which a rank looks for what it waits for before it sleeps: none where there are more ranks than cores,
    /// which the others need meanwhile.
    pub(super) patience: Duration,
    pub(super) seats: Vec<Seat>,
    ended: AtomicBool,
    failure: Mutex<Option<Arc<Failure>>>,
    /// The group of all ranks.
    pub(super) everyone: Arc<Group>,
    /// Groups that not all of their members have joined yet.
    forming: Mutex<Forming>,
}

/// What the other ranks can see of one rank.
pub(super) struct Seat {
    /// Held while the rank checks for a reason to wake up, so that no wake-up is lost between the check and the sleep.
    pub(super) signal: Mutex<()>,
    pub(super) changed: Condvar,
    pub(super) status: Mutex<Status>,
    left: AtomicBool,
}

/// Last reported status of a rank.
pub(super) struct Status {
    pub(super) phase: Label,
    pub(super) collective: Option<CollectiveStatus>,
    pub(super) waiting: Option<Instant>,
    failed: bool,
}

/// A group and its exchanges.
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) members: Vec<usize>,
    exchanges: Mutex<Exchanges>,
}

struct Exchanges {
    active: Vec<(u64, Arc<Exchange>)>,
    free: Vec<Arc<Exchange>>,
}

struct Forming {
    next: u64,
    /// The group, and how many members have yet to join it, by parent, sequence and color.
    groups: HashMap<(GroupId, u64, usize), (Arc<Group>, usize)>,
}

impl World {
    pub(crate) fn new(topology: Topology) -> Self {
        let phase = Label::from("launch");
        let seat = |_| Seat {
            signal: Mutex::new(()),
            changed: Condvar::new(),
            status: Mutex::new(Status {
                phase: phase.clone(),
                collective: None,
                waiting: None,
                failed: false,
            }),
            left: AtomicBool::new(false),
        };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self {
            topology,
            patience: if topology.ranks() <= cores { PATIENCE } else { Duration::ZERO },
            seats: (0..topology.ranks()).map(seat).collect(),
            ended: AtomicBool::new(false),
            failure: Mutex::new(None),
            everyone: Arc::new(Group::new(GroupId::WORLD, (0..topology.ranks()).collect())),
            forming: Mutex::new(Forming { next: 1, groups: HashMap::new() }),
        }
    }

    /// Failure of the run, if it has failed.
    pub(crate) fn failure(&self) -> Option<Arc<Failure>> {
        lock(&self.failure).clone()
    }

    pub(super) fn check(&self) -> Result<(), CollectiveError> {
        if self.ended.load(Ordering::Acquire) {
            let failure = self.failure().expect("a run ends by a failure");
            return Err(CollectiveError::Ended(failure));
        }
        Ok(())
    }

    /// Ends the run because of `cause`, unless it has ended already: the first failure is reported, not those that follow
    /// from it. Returns the error that the caller should report.
    pub(crate) fn fail(&self, cause: CollectiveError) -> CollectiveError {
        {
            let mut failure = lock(&self.failure);
            if let Some(failure) = &*failure {
                return CollectiveError::Ended(failure.clone());
            }
            let ranks = (0..self.seats.len()).map(|rank| self.status(rank)).collect();
            *failure = Some(Arc::new(Failure { cause: cause.clone(), ranks }));
        }
        self.ended.store(true, Ordering::Release);
        (0..self.seats.len()).for_each(|rank| self.wake(rank));
        cause
    }

    /// Ends the run because the body of a rank has failed. `cause` makes the error from the host and the phase of the rank.
    pub(crate) fn fail_rank(&self, rank: usize, cause: impl FnOnce(usize, Label) -> CollectiveError) {
        let phase = {
            let mut status = lock(&self.seats[rank].status);
            status.failed = true;
            status.phase.clone()
        };
        self.fail(cause(self.topology.host_of(rank), phase));
    }

    fn status(&self, rank: usize) -> RankStatus {
        let seat = &self.seats[rank];
        let status = lock(&seat.status);
        let activity = match status.waiting {
            _ if status.failed => Activity::Failed,
            _ if seat.left.load(Ordering::SeqCst) => Activity::Finished,
            Some(since) => Activity::Waiting(since.elapsed()),
            None => Activity::Computing,
        };
        let (phase, collective) = (status.phase.clone(), status.collective.clone());
        RankStatus { rank, host: self.topology.host_of(rank), phase, activity, collective, answers: true }
    }

    pub(super) fn wake(&self, rank: usize) {
        let seat = &self.seats[rank];
        drop(lock(&seat.signal));
        seat.changed.notify_all();
    }

    /// Marks that `rank` will start no more exchanges. The caller must do so before it looks at the rank's groups: a member
    /// that starts an exchange looks at these marks after it has arrived, so that one of the two sees the other.
    pub(super) fn leave(&self, rank: usize) {
        self.seats[rank].left.store(true, Ordering::SeqCst);
    }

    /// Fails the run if an exchange was started that needs a rank which has left.
    pub(super) fn check_left(
        &self,
        group: &Group,
        sequence: u64,
        exchange: &Exchange,
    ) -> Result<(), CollectiveError> {
        let mut left = None;
        let mut there: Option<Header> = None;
        exchange.for_each(|member, header| {
            let rank = group.members[member];
            match header {
                None if self.seats[rank].left.load(Ordering::SeqCst) => left = Some(rank),
                None => {}
                Some(header) if there.is_none() => there = Some(header.clone()),
                Some(_) => {}
            }
        });
        let (Some(rank), Some(header)) = (left, there) else { return Ok(()) };
        // The phase is read first: `fail` looks at all ranks and so needs this lock itself.
        let phase = lock(&self.seats[rank].status).phase.clone();
        let mut waiting = Vec::new();
        exchange.for_each(|member, header| waiting.extend(header.map(|_| group.members[member])));
        Err(self.fail(CollectiveError::LeftEarly {
            rank,
            host: self.topology.host_of(rank),
            phase,
            operation: header.operation,
            label: header.label,
            sequence,
            waiting,
        }))
    }

    /// Returns the group of `members`, the same one for all of them.
    pub(super) fn join(&self, parent: GroupId, sequence: u64, color: usize, members: &[usize]) -> Arc<Group> {
        let mut forming = lock(&self.forming);
        let Forming { next, groups } = &mut *forming;
        let key = (parent, sequence, color);
        let (group, absent) = groups.entry(key).or_insert_with(|| {
            let id = GroupId(*next);
            *next += 1;
            (Arc::new(Group::new(id, members.to_vec())), members.len())
        });
        let group = group.clone();
        *absent -= 1;
        if *absent == 0 {
            groups.remove(&key);
        }
        group
    }
}

impl Group {
    fn new(id: GroupId, members: Vec<usize>) -> Self {
        let exchanges = Exchanges { active: Vec::new(), free: Vec::new() };
        let group = Self { id, members, exchanges: Mutex::new(exchanges) };
        lock(&group.exchanges).grow(group.members.len());
        group
    }

    /// Returns the exchange with this number.
    pub(super) fn exchange(&self, sequence: u64) -> Arc<Exchange> {
        let mut exchanges = lock(&self.exchanges);
        if let Some((_, exchange)) = exchanges.active.iter().find(|(number, _)| *number == sequence) {
            return exchange.clone();
        }
        if exchanges.free.is_empty() {
            exchanges.grow(self.members.len());
        }
        let exchange = exchanges.free.pop().expect("it has just grown");
        exchanges.active.push((sequence, exchange.clone()));
        exchange
    }

    /// Makes the events of member `me`, whose device is `device`, in all exchanges of the group, so that none are made later.
    pub(super) fn make_events(&self, me: usize, device: &Device) -> Result<(), KernelError> {
        let exchanges = lock(&self.exchanges);
        let active = exchanges.active.iter().map(|(_, exchange)| exchange);
        active.chain(&exchanges.free).try_for_each(|exchange| exchange.make_events(me, device))
    }

    /// Makes an exchange that all members have ended available again.
    pub(super) fn recycle(&self, sequence: u64) {
        let mut exchanges = lock(&self.exchanges);
        if let Some(index) = exchanges.active.iter().position(|(number, _)| *number == sequence) {
            let (_, exchange) = exchanges.active.swap_remove(index);
            exchanges.free.push(exchange);
        }
    }

    /// Exchanges that some member has started and not all have ended.
    pub(super) fn active(&self) -> Vec<(u64, Arc<Exchange>)> {
        lock(&self.exchanges).active.clone()
    }
}

impl Exchanges {
    /// Triples the number of exchanges. How many are in use at once depends on timing, but with d operations outstanding on
    /// each rank it is rarely more than 2d + 1, so twice as many as warm-up needed leave room for that.
    fn grow(&mut self, size: usize) {
        let more = (2 * self.active.len()).max(first_exchanges(size));
        self.free.extend((0..more).map(|_| Arc::new(Exchange::new(size))));
        let total = self.active.len() + self.free.len();
        self.active.reserve(total - self.active.len());
        self.free.reserve(total - self.free.len());
    }
}
