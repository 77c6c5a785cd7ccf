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
mod mover;
mod native;
mod start;
mod status;
mod watcher;
mod worker;

pub(crate) use start::{Joined, Started};
pub use status::{ProcessStatus, read_all};
pub use watcher::{Watch, watch_if_asked};

use super::{Control, GroupId};
use crate::{Activity, CollectiveError, CollectiveStatus, Failure, Label};
use board::{Board, Command, State};
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

impl Control for Mpi {
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

    fn started(&self, collective: &CollectiveStatus) {
        self.board.state().started(collective.clone());
    }
}
