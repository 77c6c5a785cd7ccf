//! Where a rank's thread and its worker meet: exchanges to start, exchanges that are done, and how the run ended.

use super::status::{self, StatusFile};
use super::wire::{Envelope, HeaderBytes, set_lengths};
use crate::sync::lock;
use crate::transport::{Header, ROOM, Span};
use crate::{Activity, CollectiveError, CollectiveStatus, Failure, Label, RankStatus};
use kernels::Bytes;
use spec::topology::Topology;
use std::path::PathBuf;
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
    /// Where others on this machine can read that, unless no file could be made.
    file: Option<StatusFile>,
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
    /// It has waited too long for the others to leave.
    LateToLeave,
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
pub(super) struct Vectors {
    /// Ranges of `send` and of `recv`, all inside.
    pub(super) to: Vec<Span>,
    pub(super) from: Vec<Span>,
    /// What to tell it, and what it has told.
    pub(super) outgoing: Vec<Envelope>,
    pub(super) incoming: Vec<Envelope>,
}

impl Vectors {
    /// For a group of this size; for the largest, because any job may get them next.
    pub(super) fn with_room(size: usize) -> Self {
        Self {
            to: Vec::with_capacity(size),
            from: Vec::with_capacity(size),
            outgoing: Vec::with_capacity(size),
            incoming: Vec::with_capacity(size),
        }
    }

    /// For an exchange that sends these ranges, which lie inside `send`, and receives those.
    pub(super) fn fill(mut self, send: &Bytes, to: &[Span], from: &[Span], header: HeaderBytes) -> Self {
        self.to.clear();
        self.to.extend_from_slice(to);
        self.from.clear();
        self.from.extend_from_slice(from);
        self.outgoing.resize(to.len(), Envelope::EMPTY);
        self.incoming.resize(to.len(), Envelope::EMPTY);
        for (envelope, (to, from)) in self.outgoing.iter_mut().zip(to.iter().zip(from)) {
            envelope.header = header;
            set_lengths(&mut envelope.header, to.len, from.len);
            if let Some(place) = envelope.data.get_mut(..to.len) {
                // SAFETY: the span lies inside `send`, which nobody else has now, and `place` is as long.
                unsafe { place.as_mut_ptr().copy_from_nonoverlapping(send.as_ptr().add(to.at), to.len) };
            }
        }
        self
    }
}

/// The place of an exchange that the rank has started.
pub(super) enum Slot {
    Free,
    UnderWay(CollectiveStatus),
    /// When the last of it had come and gone.
    Done(Job, Instant),
}

impl State {
    /// The rank enters a phase.
    pub(super) fn enter(&mut self, phase: &Label) {
        self.status.phase = phase.clone();
        if let Some(file) = &mut self.file {
            file.enter(phase.as_str());
        }
    }

    /// The rank has started this collective.
    pub(super) fn started(&mut self, collective: CollectiveStatus) {
        if let Some(file) = &mut self.file {
            file.say(Activity::Computing, Some(&collective));
        }
        self.status.collective = Some(collective);
    }

    /// The rank waits from now on; in this collective, if it is still under way.
    pub(super) fn waits(&mut self, collective: Option<CollectiveStatus>) {
        self.status.waiting = Some(Instant::now());
        if let Some(file) = &mut self.file {
            file.say(Activity::Waiting(Duration::ZERO), collective.as_ref());
        }
        self.status.collective = collective.or(self.status.collective.take());
    }

    /// The rank waits no longer, or has left or failed.
    pub(super) fn acts(&mut self, activity: Activity) {
        self.status.waiting = None;
        self.status.left |= activity == Activity::Finished;
        self.status.failed |= activity == Activity::Failed;
        if let Some(file) = &mut self.file {
            file.say(activity, None);
        }
    }
}

impl Board {
    pub(super) fn new(rank: usize, topology: Topology, file: Option<StatusFile>) -> Self {
        let phase = Label::from("launch");
        let mut state = State {
            commands: Vec::with_capacity(ROOM),
            slots: Vec::with_capacity(ROOM),
            free: Vec::with_capacity(ROOM),
            spare: Vec::with_capacity(ROOM),
            places: vec![rank],
            status: Status { phase, collective: None, waiting: None, failed: false, left: false },
            file,
            made: None,
            cause: None,
            failure: None,
            finished: false,
            closed: false,
        };
        state.enter(&Label::from("launch"));
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
        let mut ranks: Vec<_> = (0..self.topology.ranks()).map(|rank| self.silent(rank)).collect();
        ranks[self.rank] = self.status();
        self.fail(Failure { cause, ranks });
    }

    /// What is known of a rank that does not answer: what its status file says, if it is on this machine.
    pub(super) fn silent(&self, rank: usize) -> RankStatus {
        let folder = self.state().file.as_ref().map(|file| file.folder().to_owned());
        folder.and_then(|folder| status::of_silent(&folder, rank)).unwrap_or_else(|| RankStatus {
            rank,
            host: self.topology.host_of(rank),
            phase: Label::from("unknown"),
            activity: Activity::Silent,
            collective: None,
            answers: false,
        })
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
        RankStatus {
            rank: self.rank,
            host: self.topology.host_of(self.rank),
            phase,
            activity,
            collective,
            answers: true,
        }
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
        self.state().slots[slot] = Slot::Done(job, Instant::now());
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

    /// Where the status file of this rank lies, if there is one.
    pub(super) fn status_path(&self) -> Option<PathBuf> {
        self.state().file.as_ref().map(|file| file.path().to_owned())
    }

    /// Removes the status file: nobody will ask for it any more.
    pub(super) fn remove_status(&self) {
        drop(self.state().file.take());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }
}
