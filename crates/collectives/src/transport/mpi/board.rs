//! The board between a rank's thread and its MPI worker: exchanges to start, exchanges that are done, and how the run
//! ended.

use super::messages::{Envelope, HeaderBytes, set_lengths};
use super::status::{self, StatusFile};
use crate::sync::lock;
use crate::transport::{Header, ROOM, Span};
use crate::{Activity, CollectiveError, CollectiveStatus, Failure, Label, RankStatus};
use kernels::Bytes;
use spec::topology::Topology;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// State that a rank's thread and its worker share.
pub(super) struct Board {
    rank: usize,
    topology: Topology,
    state: Mutex<State>,
    /// Signals that the worker has something to do.
    work: Condvar,
    /// Signals that the worker has changed something that the rank may wait for.
    changed: Condvar,
}

/// Contents of the board.
pub(super) struct State {
    pub(super) commands: Vec<Command>,
    pub(super) slots: Vec<JobSlot>,
    pub(super) free: Vec<usize>,
    /// Vectors of jobs that are done, to be reused.
    pub(super) spare: Vec<Vectors>,
    /// Index of this rank in each group.
    pub(super) own_index: Vec<usize>,
    pub(super) status: Status,
    /// Status file, in which other processes on this machine can read `status`; none if it could not be created.
    file: Option<StatusFile>,
    /// Index, among the worker's groups, of the group that was just created.
    pub(super) made: Option<usize>,
    /// Cause of the end of the run. Only the first one is kept.
    cause: Option<CollectiveError>,
    /// Failure of the run, once all ranks that answer have reported their status.
    pub(super) failure: Option<Arc<Failure>>,
    /// Whether all ranks have left.
    pub(super) finished: bool,
    /// Whether the rank no longer needs its worker.
    closed: bool,
}

/// Last reported status of this rank.
pub(super) struct Status {
    pub(super) phase: Label,
    pub(super) collective: Option<CollectiveStatus>,
    pub(super) waiting: Option<Instant>,
    pub(super) failed: bool,
    pub(super) left: bool,
}

/// Command of a rank to its worker.
#[expect(
    clippy::large_enum_variant,
    reason = "a job is moved from place to place, so that no exchange allocates"
)]
pub(super) enum Command {
    /// Start this exchange.
    Start(Job),
    /// The rank has waited too long for the exchange in this slot.
    Late(usize),
    /// Create a group of these world ranks. The number is the same on all of them.
    Group(Vec<usize>, u64),
    /// The rank will start no more exchanges.
    Leave,
    /// The rank has waited too long for the others to leave.
    LateToLeave,
}

/// An exchange for the worker to carry out. The job owns the memory that MPI reads and writes.
pub(super) struct Job {
    pub(super) slot: usize,
    pub(super) group: usize,
    pub(super) sequence: u64,
    pub(super) header: Header,
    pub(super) send: Bytes,
    pub(super) recv: Bytes,
    /// Longest data in bytes that are sent with their header: none of device memory, which only MPI can read.
    pub(super) short: usize,
    pub(super) vectors: Vectors,
}

/// Ranges and envelopes of a job, for each member. The vectors are reused for the next job.
pub(super) struct Vectors {
    /// Ranges of `send` by member, checked to lie inside it.
    pub(super) to: Vec<Span>,
    /// Ranges of `recv` by member, checked to lie inside it.
    pub(super) from: Vec<Span>,
    /// Envelopes to send, by member.
    pub(super) outgoing: Vec<Envelope>,
    /// Envelopes received, by member.
    pub(super) incoming: Vec<Envelope>,
}

impl Vectors {
    /// Vectors with capacity for a group of `size` members. Callers pass the size of the largest group, because any job may
    /// get the vectors next.
    pub(super) fn with_room(size: usize) -> Self {
        Self {
            to: Vec::with_capacity(size),
            from: Vec::with_capacity(size),
            outgoing: Vec::with_capacity(size),
            incoming: Vec::with_capacity(size),
        }
    }

    /// Fills the vectors for an exchange that sends the ranges `to`, which lie inside `send`, and receives the ranges `from`.
    /// Data of up to `short` bytes go with their header.
    pub(super) fn fill(
        mut self,
        send: &Bytes,
        to: &[Span],
        from: &[Span],
        header: HeaderBytes,
        short: usize,
    ) -> Self {
        self.to.clear();
        self.to.extend_from_slice(to);
        self.from.clear();
        self.from.extend_from_slice(from);
        self.outgoing.resize(to.len(), Envelope::EMPTY);
        self.incoming.resize(to.len(), Envelope::EMPTY);
        for (envelope, (to, from)) in self.outgoing.iter_mut().zip(to.iter().zip(from)) {
            envelope.header = header;
            set_lengths(&mut envelope.header, to.len, from.len);
            if let Some(place) = envelope.data[..short].get_mut(..to.len).filter(|place| !place.is_empty()) {
                // SAFETY: the host can address `send`, since short data are those of host memory only. The span lies inside `send`, which nobody else uses now, and `place` is as long as the span.
                unsafe { place.as_mut_ptr().copy_from_nonoverlapping(send.as_ptr().add(to.at), to.len) };
            }
        }
        self
    }
}

/// Slot of an exchange that the rank has started.
#[expect(clippy::large_enum_variant, reason = "as for commands")]
pub(super) enum JobSlot {
    Free,
    UnderWay(CollectiveStatus),
    /// The exchange is complete since this time.
    Done(Job, Instant),
}

impl State {
    /// Records that the rank has entered a phase.
    pub(super) fn enter(&mut self, phase: &Label) {
        self.status.phase = phase.clone();
        if let Some(file) = &mut self.file {
            file.enter(phase.as_str());
        }
    }

    /// Records that the rank has started this collective.
    pub(super) fn started(&mut self, collective: CollectiveStatus) {
        if let Some(file) = &mut self.file {
            file.say(Activity::Computing, Some(&collective));
        }
        self.status.collective = Some(collective);
    }

    /// Records that the rank waits from now on: in this collective, if it is still outstanding.
    pub(super) fn waits(&mut self, collective: Option<CollectiveStatus>) {
        self.status.waiting = Some(Instant::now());
        if let Some(file) = &mut self.file {
            file.say(Activity::Waiting(Duration::ZERO), collective.as_ref());
        }
        self.status.collective = collective.or(self.status.collective.take());
    }

    /// Records that the rank computes again, or has left or failed.
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
            own_index: vec![rank],
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

    /// Waits for the worker to change something, until `deadline` if there is one. Returns false if the deadline has passed.
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

    /// Gives the worker a command.
    pub(super) fn command(&self, state: &mut State, command: Command) {
        state.commands.push(command);
        self.work.notify_one();
    }

    /// Tells the worker to end the run because of `cause`. Returns false if the run was already ending.
    pub(super) fn end(&self, cause: CollectiveError) -> bool {
        let mut state = self.state();
        let first = state.cause.is_none() && state.failure.is_none();
        if first {
            state.cause = Some(cause);
            self.work.notify_one();
        }
        first
    }

    /// Ends the run for this rank, with this failure.
    pub(super) fn fail(&self, failure: Failure) {
        self.state().failure.get_or_insert_with(|| Arc::new(failure));
        self.changed.notify_all();
    }

    /// Ends the run for this rank with only what it knows itself, because its worker does not answer.
    pub(super) fn fail_alone(&self, cause: CollectiveError) {
        let mut ranks: Vec<_> = (0..self.topology.ranks()).map(|rank| self.silent(rank)).collect();
        ranks[self.rank] = self.status();
        self.fail(Failure { cause, ranks });
    }

    /// Status of a rank that does not answer: from its status file, if the rank is on this machine.
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

    /// Current status of this rank.
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

    /// Swaps the rank's commands with an empty vector, for the worker. Returns the cause if the run must end.
    pub(super) fn take(&self, commands: &mut Vec<Command>) -> Option<CollectiveError> {
        let mut state = self.state();
        std::mem::swap(&mut state.commands, commands);
        state.cause.clone()
    }

    /// Lets the worker sleep until there is something to do, at most for `most`.
    pub(super) fn sleep(&self, most: Duration) {
        let state = self.state();
        if state.commands.is_empty() && state.cause.is_none() && !state.closed {
            drop(self.work.wait_timeout(state, most));
        }
    }

    /// Returns a completed exchange from the worker to the rank.
    pub(super) fn done(&self, job: Job) {
        let slot = job.slot;
        self.state().slots[slot] = JobSlot::Done(job, Instant::now());
        self.changed.notify_all();
    }

    /// Lets the worker change the board and wakes the rank.
    pub(super) fn tell(&self, tell: impl FnOnce(&mut State)) {
        tell(&mut self.state());
        self.changed.notify_all();
    }

    /// Tells the worker that the rank no longer needs it.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.work.notify_one();
    }

    /// Path of this rank's status file, if there is one.
    pub(super) fn status_path(&self) -> Option<PathBuf> {
        self.state().file.as_ref().map(|file| file.path().to_owned())
    }

    /// Removes this rank's status file, which nobody will read any more.
    pub(super) fn remove_status(&self) {
        drop(self.state().file.take());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }
}
