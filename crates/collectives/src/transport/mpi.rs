//! Ranks that are processes, joined by MPI.
//!
//! Each rank has one worker thread, the only one that calls MPI. It progresses whatever the rank has started, on all
//! lanes, while the rank computes. The rank's own thread leaves exchanges on a board and finds them there when done.
//!
//! The world and every group split off it have a communicator each; members of a group meet by the exchange's number,
//! which is the messages' tag.

mod board;
mod control;
mod ending;
mod exchange;
mod native;
mod start;
mod status;
mod watcher;
mod wire;
mod worker;

pub(crate) use start::{Joined, Started};
pub use status::{ProcessStatus, read_all};
pub use watcher::{Watch, watch_if_asked};

use super::{Exchanged, GroupId, Header, Span, Ticket, Transport};
use crate::{Activity, CollectiveError, CollectiveStatus, Failure, Label};
use board::{Board, Command, Job, Slot, State, Vectors};
use kernels::Bytes;
use spec::topology::Topology;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// How long the worker may take to answer. When it does not, it is stuck inside MPI, and the rank ends alone.
const STUCK: Duration = Duration::from_secs(5);

/// One rank's end.
pub(crate) struct Mpi {
    board: Arc<Board>,
    rank: usize,
    topology: Topology,
    wait_limit: Duration,
}

impl Mpi {
    /// Starts nothing more, and returns when all ranks do the same.
    pub(crate) fn leave(&self) -> Result {
        let mut state = self.board.state();
        state.acts(Activity::Finished);
        self.board.command(&mut state, Command::Leave);
        let mut deadline = Instant::now().checked_add(self.wait_limit);
        while !state.finished {
            ended(&state)?;
            let (next, in_time) = self.board.wait(state, deadline);
            state = next;
            if !in_time {
                // The worker knows who is missing, and ends the run.
                self.board.command(&mut state, Command::LateToLeave);
                deadline = None;
            }
        }
        Ok(())
    }

    /// This rank's body has failed; `cause` makes the error from its host and phase. Gives how the run ended, which
    /// may have been before, and by another rank.
    pub(crate) fn fail(&self, cause: impl FnOnce(usize, Label) -> CollectiveError) -> Failure {
        let mut state = self.board.state();
        if state.failure.is_none() {
            state.acts(Activity::Failed);
            let cause = cause(self.topology.host_of(self.rank), state.status.phase.clone());
            drop(state);
            self.abort(cause);
            state = self.board.state();
        }
        Failure::clone(state.failure.as_ref().expect("the run has just ended"))
    }

    /// The error of a wait that took too long.
    fn limit(&self, collective: Option<CollectiveStatus>, missing: Vec<usize>) -> CollectiveError {
        let (operation, label, sequence) = match collective {
            Some(CollectiveStatus { operation, label, sequence, .. }) => (operation, label, sequence),
            None => ("split", Label::from("split"), 0),
        };
        CollectiveError::WaitLimit {
            rank: self.rank,
            operation,
            label,
            sequence,
            limit: self.wait_limit,
            missing,
        }
    }
}

/// Fails if the run has ended.
fn ended(state: &State) -> Result {
    match &state.failure {
        Some(failure) => Err(CollectiveError::Ended(failure.clone())),
        None => Ok(()),
    }
}

/// Panics if a span reaches past the end, as a slice would.
fn check_spans(spans: &[Span], bytes: &Bytes) {
    for span in spans {
        let fits = span.at.checked_add(span.len).is_some_and(|end| end <= bytes.len());
        assert!(fits, "{span:?} of {} bytes", bytes.len());
    }
}

impl Transport for Mpi {
    fn start(
        &self,
        group: GroupId,
        sequence: u64,
        header: Header,
        send: Bytes,
        to: &[Span],
        mut recv: Bytes,
        from: &[Span],
    ) -> Result<Ticket> {
        assert_eq!(to.len(), from.len(), "one range for each member, both ways");
        check_spans(to, &send);
        check_spans(from, &recv);
        let size = to.len();
        let mut state = self.board.state();
        ended(&state)?;
        let header_bytes = wire::header(&header, &state.status.phase);
        let Header { operation, label, .. } = header.clone();
        let status = CollectiveStatus { operation, label, sequence, size };
        state.started(status.clone());
        let group = group.0 as usize;
        let me = state.places[group];
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::Free);
            state.slots.len() - 1
        });
        state.slots[slot] = Slot::UnderWay(status);
        let room = || Vectors::with_room(self.topology.ranks());
        let vectors = state.spare.pop().unwrap_or_else(room);
        drop(state);

        // Before MPI gets any of this memory, so that nobody else is looking.
        if to[me].len > 0 {
            recv.copy_from(from[me].at, &send, to[me].at, to[me].len)?;
        }
        let vectors = vectors.fill(&send, to, from, header_bytes);
        let job = Job { slot, group, sequence, header, send, recv, vectors };
        self.board.command(&mut self.board.state(), Command::Start(job));
        Ok(Ticket(slot))
    }

    fn test(&self, ticket: Ticket) -> Result<Option<Exchanged>> {
        let mut state = self.board.state();
        ended(&state)?;
        let slot = &mut state.slots[ticket.0];
        if !matches!(slot, Slot::Done(..)) {
            return Ok(None);
        }
        let Slot::Done(job, at) = std::mem::replace(slot, Slot::Free) else {
            unreachable!("looked at just now")
        };
        state.free.push(ticket.0);
        state.spare.push(job.vectors);
        Ok(Some(Exchanged { send: job.send, recv: job.recv, at }))
    }

    fn wait(&self, wanted: Ticket, others: &[Ticket], mut deadline: Option<Instant>) -> Result {
        let mut state = self.board.state();
        let collective = match &state.slots[wanted.0] {
            Slot::UnderWay(collective) => Some(collective.clone()),
            Slot::Free | Slot::Done(..) => None,
        };
        state.waits(collective);
        let mut late = false;
        loop {
            ended(&state)?;
            let mut tickets = std::iter::once(&wanted).chain(others);
            if tickets.any(|ticket| matches!(state.slots[ticket.0], Slot::Done(..))) {
                state.acts(Activity::Computing);
                return Ok(());
            }
            let (next, in_time) = self.board.wait(state, deadline);
            state = next;
            match (in_time, late) {
                (true, _) => {}
                (false, false) => {
                    // The worker knows who is missing, and ends the run.
                    self.board.command(&mut state, Command::Late(wanted.0));
                    (late, deadline) = (true, Instant::now().checked_add(STUCK));
                }
                (false, true) => {
                    let cause = self.limit(state.status.collective.clone(), Vec::new());
                    drop(state);
                    self.board.fail_alone(cause);
                    state = self.board.state();
                }
            }
        }
    }

    fn create_group(
        &self,
        _parent: GroupId,
        sequence: u64,
        _color: usize,
        members: &[usize],
    ) -> Result<GroupId> {
        let me = members.iter().position(|&rank| rank == self.rank).expect("a rank makes groups it is in");
        let mut state = self.board.state();
        ended(&state)?;
        self.board.command(&mut state, Command::Group(members.to_vec(), sequence));
        let deadline = Instant::now().checked_add(self.wait_limit);
        loop {
            if let Some(made) = state.made.take() {
                state.places.push(me);
                return Ok(GroupId(made as u64));
            }
            ended(&state)?;
            let (next, in_time) = self.board.wait(state, deadline);
            state = next;
            if !in_time {
                // The worker is inside MPI with those members that have come: nobody can say who has not.
                let collective = state.status.collective.clone();
                let others = members.iter().copied().filter(|&rank| rank != self.rank).collect();
                drop(state);
                self.board.fail_alone(self.limit(collective, others));
                return self.check().map(|()| GroupId::WORLD);
            }
        }
    }

    fn abort(&self, cause: CollectiveError) -> CollectiveError {
        let first = self.board.end(cause.clone());
        let deadline = Instant::now().checked_add(STUCK);
        let mut state = self.board.state();
        loop {
            if let Err(told) = ended(&state) {
                return if first { cause } else { told };
            }
            let (next, in_time) = self.board.wait(state, deadline);
            state = next;
            if !in_time {
                drop(state);
                self.board.fail_alone(cause.clone());
                state = self.board.state();
            }
        }
    }

    fn check(&self) -> Result {
        ended(&self.board.state())
    }

    fn enter(&self, phase: &Label) {
        self.board.state().enter(phase);
    }
}
