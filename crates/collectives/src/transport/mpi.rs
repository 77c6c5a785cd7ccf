//! Transport between ranks that are processes of an MPI job.
//!
//! Each rank has one worker thread, the only thread that calls MPI. The worker advances all exchanges of the rank while the
//! rank computes. The rank's own thread leaves exchanges on a board, and finds them there when they are done.
//!
//! The world and every group that was split off have an MPI communicator each. Members of a group meet by the number of the
//! exchange, which is the tag of its messages.

mod board;
mod control;
mod ending;
mod exchange;
mod messages;
mod native;
mod start;
mod status;
mod watcher;
mod worker;

pub(crate) use start::{Joined, Started};
pub use status::{ProcessStatus, read_all};
pub use watcher::{Watch, watch_if_asked};

use super::{ExchangeRequest, Exchanged, GroupId, Header, Span, Ticket, Transport};
use crate::{Activity, CollectiveError, CollectiveStatus, Failure, Label};
use board::{Board, Command, Job, JobSlot, State, Vectors};
use kernels::Bytes;
use spec::topology::Topology;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// How long the worker may take to answer. A worker that does not is stuck inside MPI, and the rank ends without it.
const STUCK: Duration = Duration::from_secs(5);

/// One rank's end of the MPI transport.
pub(crate) struct Mpi {
    board: Arc<Board>,
    rank: usize,
    topology: Topology,
    wait_limit: Duration,
}

impl Mpi {
    /// Marks that this rank will start no more exchanges, and waits until all ranks have done so.
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
                // The worker knows which ranks are missing, and ends the run.
                self.board.command(&mut state, Command::LateToLeave);
                deadline = None;
            }
        }
        Ok(())
    }

    /// Ends the run because the body of this rank has failed. `cause` makes the error from the host and the phase of the rank.
    /// Returns the failure of the run, which may have ended before, because of another rank.
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

    /// Error of a wait that took too long.
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

/// Panics if a span reaches beyond the end of `bytes`, as indexing a slice would.
fn check_spans(spans: &[Span], bytes: &Bytes) {
    for span in spans {
        let fits = span.at.checked_add(span.len).is_some_and(|end| end <= bytes.len());
        assert!(fits, "{span:?} of {} bytes", bytes.len());
    }
}

impl Transport for Mpi {
    fn start(&self, request: ExchangeRequest<'_>) -> Result<Ticket> {
        let ExchangeRequest { group, sequence, header, send, to, mut recv, from } = request;
        assert_eq!(to.len(), from.len(), "one range for each member, both ways");
        check_spans(to, &send);
        check_spans(from, &recv);
        let size = to.len();
        let mut state = self.board.state();
        ended(&state)?;
        let header_bytes = messages::header(&header, &state.status.phase);
        let Header { operation, label, .. } = header.clone();
        let status = CollectiveStatus { operation, label, sequence, size };
        state.started(status.clone());
        let group = group.0 as usize;
        let me = state.own_index[group];
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(JobSlot::Free);
            state.slots.len() - 1
        });
        state.slots[slot] = JobSlot::UnderWay(status);
        let room = || Vectors::with_room(self.topology.ranks());
        let vectors = state.spare.pop().unwrap_or_else(room);
        drop(state);

        // This rank's own part is copied before MPI gets the memory, while nobody else uses it.
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
        if !matches!(slot, JobSlot::Done(..)) {
            return Ok(None);
        }
        let JobSlot::Done(job, at) = std::mem::replace(slot, JobSlot::Free) else {
            unreachable!("the slot was just seen to be done")
        };
        state.free.push(ticket.0);
        state.spare.push(job.vectors);
        Ok(Some(Exchanged { send: job.send, recv: job.recv, at }))
    }

    fn wait(&self, wanted: Ticket, others: &[Ticket], mut deadline: Option<Instant>) -> Result {
        let mut state = self.board.state();
        let collective = match &state.slots[wanted.0] {
            JobSlot::UnderWay(collective) => Some(collective.clone()),
            JobSlot::Free | JobSlot::Done(..) => None,
        };
        state.waits(collective);
        let mut late = false;
        loop {
            ended(&state)?;
            let mut tickets = std::iter::once(&wanted).chain(others);
            if tickets.any(|ticket| matches!(state.slots[ticket.0], JobSlot::Done(..))) {
                state.acts(Activity::Computing);
                return Ok(());
            }
            let (next, in_time) = self.board.wait(state, deadline);
            state = next;
            match (in_time, late) {
                (true, _) => {}
                (false, false) => {
                    // The worker knows which ranks are missing, and ends the run.
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
                state.own_index.push(me);
                return Ok(GroupId(made as u64));
            }
            ended(&state)?;
            let (next, in_time) = self.board.wait(state, deadline);
            state = next;
            if !in_time {
                // The worker is inside MPI with the members that have arrived: nobody can say which have not.
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
