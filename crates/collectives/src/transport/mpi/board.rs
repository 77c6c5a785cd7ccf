//! Where a rank's thread and its worker meet: exchanges to start, exchanges that are done, and how the run ended.

use super::wire::{HeaderBytes, set_lengths};
use crate::sync::lock;
use crate::transport::{Header, ROOM, Span};
use crate::{Activity, CollectiveError, CollectiveStatus, Failure, Label, RankStatus};
use kernels::Bytes;
use spec::topology::Topology;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(super) struct Board {
    rank: usize,
    topology: Topology,
    state: Mutex<State>,
    /// Something to do for the worker.
    work: Condvar,
    /// Something to know for the rank.
    changed: Condvar,
}

pub(super) struct State {
    pub(super) commands: Vec<Command>,
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<usize>,
    /// Vectors of jobs that are done.
    pub(super) spare: Vec<Vectors>,
    /// By group: this rank's index in it.
    pub(super) places: Vec<usize>,
    pub(super) status: Status,
    /// The group made last, by its place among the worker's.
    pub(super) made: Option<usize>,
    /// Why the run ends. The first cause stays.
    cause: Option<CollectiveError>,
    /// How the run ended, once all ranks that answer have said where they are.
    pub(super) failure: Option<Arc<Failure>>,
    /// All ranks have left.
    pub(super) finished: bool,
    /// The rank needs its worker no more.
    closed: bool,
}

/// What this rank last said about itself.
pub(super) struct Status {
    pub(super) phase: Label,
    pub(super) collective: Option<CollectiveStatus>,
    pub(super) waiting: Option<Instant>,
    pub(super) failed: bool,
    pub(super) left: bool,
}

/// What the rank wants of its worker.
pub(super) enum Command {
    Start(Job),
    /// The rank has waited too long for the exchange in this slot.
    Late(usize),
    /// Make a group of these world ranks; the number is the same on all of them.
    Group(Vec<usize>, u64),
    /// The rank will start nothing more.
    Leave,
}

/// An exchange to carry out. Owns the memory that MPI reads and writes.
pub(super) struct Job {
    pub(super) slot: usize,
    pub(super) group: usize,
    pub(super) sequence: u64,
    pub(super) header: Header,
    pub(super) send: Bytes,
    pub(super) recv: Bytes,
    pub(super) vectors: Vectors,
}

/// What a job knows of each member. Reused from one to the next.
#[derive(Default)]
pub(super) struct Vectors {
    /// Ranges of `send` and of `recv`, all inside.
    pub(super) to: Vec<Span>,
    pub(super) from: Vec<Span>,
    /// What to tell it, and what it has told.
    pub(super) outgoing: Vec<HeaderBytes>,
    pub(super) incoming: Vec<HeaderBytes>,
}

impl Vectors {
    pub(super) fn fill(mut self, to: &[Span], from: &[Span], header: HeaderBytes) -> Self {
        self.to.clear();
        self.to.extend_from_slice(to);
        self.from.clear();
        self.from.extend_from_slice(from);
        self.outgoing.clear();
        self.outgoing.resize(to.len(), header);
        for (member, bytes) in self.outgoing.iter_mut().enumerate() {
            set_lengths(bytes, to[member].len, from[member].len);
        }
        self.incoming.resize(to.len(), header);
        self
    }
}

/// The place of an exchange that the rank has started.
pub(super) enum Slot {
    Free,
    UnderWay(CollectiveStatus),
    Done(Job),
}

impl Board {
    pub(super) fn new(rank: usize, topology: Topology) -> Self {
        let phase = Label::from("launch");
        let state = State {
            commands: Vec::with_capacity(ROOM),
            slots: Vec::with_capacity(ROOM),
            free: Vec::with_capacity(ROOM),
            spare: Vec::with_capacity(ROOM),
            places: vec![rank],
            status: Status { phase, collective: None, waiting: None, failed: false, left: false },
            made: None,
            cause: None,
            failure: None,
            finished: false,
            closed: false,
        };
        Self { rank, topology, state: Mutex::new(state), work: Condvar::new(), changed: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for the worker to change something, until `deadline` if there is one. False when it has passed.
    pub(super) fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'a, State>, bool) {
        let Some(deadline) = deadline else {
            return (self.changed.wait(state).unwrap_or_else(PoisonError::into_inner), true);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (state, false);
        }
        (self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0, true)
    }

    /// Tells the worker.
    pub(super) fn command(&self, state: &mut State, command: Command) {
        state.commands.push(command);
        self.work.notify_one();
    }

    /// Says why the run must end, unless that is known already. The worker sees to the rest. False if it was known.
    pub(super) fn end(&self, cause: CollectiveError) -> bool {
        let mut state = self.state();
        let first = state.cause.is_none() && state.failure.is_none();
        if first {
            state.cause = Some(cause);
            self.work.notify_one();
        }
        first
    }

    /// Ends the run for this rank.
    pub(super) fn fail(&self, failure: Failure) {
        self.state().failure.get_or_insert_with(|| Arc::new(failure));
        self.changed.notify_all();
    }

    /// Ends the run for this rank with what it knows itself: its worker does not answer.
    pub(super) fn fail_alone(&self, cause: CollectiveError) {
        let silent = |rank| RankStatus {
            rank,
            host: self.topology.host_of(rank),
            phase: Label::from("unknown"),
            activity: Activity::Silent,
            collective: None,
        };
        let mut ranks: Vec<_> = (0..self.topology.ranks()).map(silent).collect();
        ranks[self.rank] = self.status();
        self.fail(Failure { cause, ranks });
    }

    /// Where this rank is.
    pub(super) fn status(&self) -> RankStatus {
        let state = self.state();
        let status = &state.status;
        let activity = match status.waiting {
            _ if status.failed => Activity::Failed,
            _ if status.left => Activity::Finished,
            Some(since) => Activity::Waiting(since.elapsed()),
            None => Activity::Computing,
        };
        let (phase, collective) = (status.phase.clone(), status.collective.clone());
        RankStatus { rank: self.rank, host: self.topology.host_of(self.rank), phase, activity, collective }
    }

    /// For the worker: swaps the rank's commands with an empty vector. Gives the cause if the run must end.
    pub(super) fn take(&self, commands: &mut Vec<Command>) -> Option<CollectiveError> {
        let mut state = self.state();
        std::mem::swap(&mut state.commands, commands);
        state.cause.clone()
    }

    /// For the worker: sleeps until there is something to do, at most so long.
    pub(super) fn sleep(&self, most: Duration) {
        let state = self.state();
        if state.commands.is_empty() && state.cause.is_none() && !state.closed {
            drop(self.work.wait_timeout(state, most));
        }
    }

    /// For the worker: an exchange is done.
    pub(super) fn done(&self, job: Job) {
        let slot = job.slot;
        self.state().slots[slot] = Slot::Done(job);
        self.changed.notify_all();
    }

    /// For the worker: something else the rank waits for.
    pub(super) fn tell(&self, tell: impl FnOnce(&mut State)) {
        tell(&mut self.state());
        self.changed.notify_all();
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.work.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }
}
