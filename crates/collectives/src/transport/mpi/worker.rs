//! The worker: the only thread of a rank that calls MPI. It carries out the rank's exchanges, whatever the rank itself is
//! doing, and receives control messages of the other ranks.

use super::board::{Board, Command, Job};
use super::control::Control;
use super::exchange::{Exchange, Group, MessageLimits, Trouble};
use super::messages::{Message, call};
use super::native::{Fault, Request, Tester};
use crate::{CollectiveError, Label, RankStatus, Remote};
use spec::topology::Topology;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

type Result<T = (), E = CollectiveError> = std::result::Result<T, E>;

/// Number of turns without any event after which the worker sleeps between turns.
const PATIENCE: u32 = 100;
/// Shortest and longest sleep while exchanges are outstanding: ranks may share cores, which the others need.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(500));
/// Sleep while no exchange is outstanding and only control messages may arrive. A command ends it at once.
const REST: Duration = Duration::from_millis(5);
/// How long the message that a rank has left may arrive before the last data of that rank.
const SETTLE: Duration = Duration::from_secs(1);

/// Worker of one rank.
pub(super) struct Worker {
    pub(super) board: Arc<Board>,
    pub(super) rank: usize,
    pub(super) topology: Topology,
    pub(super) wait_limit: Duration,
    pub(super) limits: MessageLimits,
    pub(super) control: Control,
    pub(super) groups: Vec<Group>,
    pub(super) life: Life,
    pub(super) tester: Tester,
    pub(super) under_way: Vec<Exchange>,
    pub(super) spare: Vec<Exchange>,
    /// When each rank reported that it has left, and in which phase.
    pub(super) left: Vec<Option<(Instant, Label)>>,
    /// Status of each rank when the run ended, as far as received.
    pub(super) heard: Vec<Option<RankStatus>>,
}

/// Whether this rank is still running, or how far it is in leaving.
pub(super) enum Life {
    Running,
    /// The rank has told the others that it leaves.
    Leaving,
    /// All ranks have left, and all exchanges of this rank are done; a final barrier is outstanding.
    Closing(Request),
}

impl Worker {
    /// Works until all ranks have left, or the run has ended. Returns whether all ranks have left.
    pub(super) fn run(mut self) -> bool {
        let mut commands = Vec::new();
        let mut idle = 0;
        loop {
            let ended = self.board.take(&mut commands);
            if let Some(cause) = ended {
                self.end(cause);
                return false;
            }
            match self.turn(&mut commands) {
                Ok(Turn::Moved) => idle = 0,
                Ok(Turn::Idle) => {
                    idle += 1;
                    self.pause(idle);
                }
                Ok(Turn::Finished) => {
                    self.finish();
                    return true;
                }
                Err(cause) => {
                    self.board.end(cause);
                }
            }
        }
    }

    fn turn(&mut self, commands: &mut Vec<Command>) -> Result<Turn> {
        let mut moved = !commands.is_empty();
        commands.drain(..).try_for_each(|command| self.obey(command))?;
        moved |= self.move_on()?;
        moved |= self.listen()?;
        self.look_for_left()?;
        if self.may_finish()? {
            return Ok(Turn::Finished);
        }
        Ok(if moved { Turn::Moved } else { Turn::Idle })
    }

    fn pause(&self, idle: u32) {
        let waits = !self.under_way.is_empty() || !matches!(self.life, Life::Running);
        match idle.checked_sub(PATIENCE) {
            None if waits => thread::yield_now(),
            Some(turns) if waits => self.board.sleep((NAPS.0 * (1 << (turns / 8).min(8))).min(NAPS.1)),
            _ => self.board.sleep(REST),
        }
    }

    fn obey(&mut self, command: Command) -> Result {
        match command {
            Command::Start(job) => {
                let room = || Exchange::with_room(self.groups[0].members.len());
                let mut exchange = self.spare.pop().unwrap_or_else(room);
                let group = &self.groups[job.group];
                let posted = exchange.post(job, group, self.limits);
                let posted = posted.map_err(|trouble| self.trouble(&exchange, trouble));
                self.under_way.push(exchange);
                posted
            }
            Command::Late(slot) => self.late(slot),
            Command::LateToLeave => Err(CollectiveError::WaitLimit {
                rank: self.rank,
                operation: "leave",
                label: self.board.status().phase,
                sequence: 0,
                limit: self.wait_limit,
                missing: (0..self.left.len()).filter(|&rank| self.left[rank].is_none()).collect(),
            }),
            Command::Group(members, number) => self.make_group(members, number),
            Command::Leave => {
                let phase = self.board.status().phase;
                self.left[self.rank] = Some((Instant::now(), phase.clone()));
                self.life = Life::Leaving;
                let told = self.control.tell(&Message::Left { rank: self.rank, phase });
                told.map_err(|fault| self.fault(fault, "leave"))
            }
        }
    }

    /// Advances all exchanges, and returns those that are done to the rank.
    fn move_on(&mut self) -> Result<bool> {
        let mut moved = false;
        let mut index = 0;
        while index < self.under_way.len() {
            let exchange = &mut self.under_way[index];
            match exchange.test(&mut self.tester, &self.groups, self.limits) {
                Ok(some) => moved |= some,
                Err(trouble) => return Err(self.trouble(&self.under_way[index], trouble)),
            }
            if let Some(job) = exchange.take() {
                self.board.done(job);
                self.spare.push(self.under_way.swap_remove(index));
                moved = true;
            } else {
                index += 1;
            }
        }
        Ok(moved)
    }

    fn listen(&mut self) -> Result<bool> {
        let message = self.control.listen(&mut self.tester).map_err(|fault| self.fault(fault, "control"))?;
        let heard = message.is_some();
        match message {
            Some(Message::Left { rank, phase }) => self.left[rank] = Some((Instant::now(), phase)),
            Some(Message::Ended { origin, cause, gave_up, status }) => {
                let from = status.rank;
                self.heard[from] = Some(status);
                return Err(CollectiveError::Elsewhere { rank: origin, message: cause, gave_up });
            }
            None => {}
        }
        Ok(heard)
    }

    /// Fails because the rank has waited too long for an exchange, unless it is done by now.
    fn late(&self, slot: usize) -> Result {
        let late = |exchange: &&Exchange| exchange.job().is_some_and(|job| job.slot == slot);
        let Some(exchange) = self.under_way.iter().find(late) else { return Ok(()) };
        let Some(Job { group, header, sequence, .. }) = exchange.job() else { return Ok(()) };
        let members = &self.groups[*group].members;
        Err(CollectiveError::WaitLimit {
            rank: self.rank,
            operation: header.operation,
            label: header.label.clone(),
            sequence: *sequence,
            limit: self.wait_limit,
            missing: exchange.missing().into_iter().map(|member| members[member]).collect(),
        })
    }

    fn make_group(&mut self, members: Vec<usize>, number: u64) -> Result {
        let tag = (number % self.limits.largest_tag) as i32;
        let made = self.groups[0].comm.subgroup(&members, tag);
        let comm = made.map_err(|fault| self.fault(fault, "split"))?;
        let me = comm.rank().map_err(|fault| self.fault(fault, "split"))?;
        let place = self.groups.len();
        self.groups.push(Group { comm, members, me });
        self.board.tell(|state| state.made = Some(place));
        Ok(())
    }

    /// Fails if an exchange needs a rank that has left.
    fn look_for_left(&self) -> Result {
        for (rank, left) in self.left.iter().enumerate() {
            let Some((since, phase)) = left else { continue };
            if rank == self.rank || since.elapsed() < SETTLE {
                continue;
            }
            for exchange in &self.under_way {
                let Some(job) = exchange.job() else { continue };
                let members = &self.groups[job.group].members;
                let Some(member) = members.iter().position(|&other| other == rank) else { continue };
                let young = exchange.posted().is_none_or(|posted| posted.elapsed() < SETTLE);
                if young || exchange.arrived(member) {
                    continue;
                }
                let waiting = (0..members.len()).filter(|&other| exchange.arrived(other));
                return Err(CollectiveError::LeftEarly {
                    rank,
                    host: self.topology.host_of(rank),
                    phase: phase.clone(),
                    operation: job.header.operation,
                    label: job.header.label.clone(),
                    sequence: job.sequence,
                    waiting: waiting.map(|other| members[other]).collect(),
                });
            }
        }
        Ok(())
    }

    /// Whether all ranks have left and know that all exchanges of all ranks are done.
    fn may_finish(&mut self) -> Result<bool> {
        match &mut self.life {
            Life::Leaving if self.left.iter().all(Option::is_some) && self.under_way.is_empty() => {
                let told = self.control.is_told(&mut self.tester);
                if told.map_err(|fault| self.fault(fault, "leave"))? {
                    let barrier = self.control.start_barrier();
                    self.life = Life::Closing(barrier.map_err(|fault| self.fault(fault, "leave"))?);
                }
                Ok(false)
            }
            Life::Closing(barrier) => {
                let mut outcome = Ok(());
                let tested = self.tester.test(std::slice::from_mut(barrier), |_, how| outcome = how);
                let done = tested.and_then(|count| outcome.map(|()| count > 0));
                done.map_err(|fault| self.fault(fault, "leave"))
            }
            Life::Running | Life::Leaving => Ok(false),
        }
    }

    /// Frees the communicators of the launch, as all ranks do now.
    fn finish(self) {
        let freed = || -> Result<(), Fault> {
            self.control.close()?;
            self.groups.into_iter().try_for_each(|group| group.comm.free())
        };
        if let Err(fault) = freed() {
            // Nothing depends on this any more.
            eprintln!("rank {}: {}: {}", self.rank, fault.call, fault.message);
        }
        self.board.tell(|state| state.finished = true);
    }

    fn trouble(&self, exchange: &Exchange, trouble: Trouble) -> CollectiveError {
        let job = exchange.job().expect("an exchange in trouble is under way");
        let members = &self.groups[job.group].members;
        match trouble {
            Trouble::Mismatch(member) => CollectiveError::Mismatch {
                sequence: job.sequence,
                members: members.clone(),
                first: Box::new(call(members[member], &exchange.theirs(member))),
                second: Box::new(call(self.rank, &job.vectors.outgoing[member].header)),
            },
            Trouble::Fault(member, fault) => CollectiveError::Mpi {
                rank: self.rank,
                call: fault.call,
                remote: member.map_or(Remote::Group, |member| Remote::Rank(members[member])),
                operation: job.header.operation,
                label: job.header.label.clone(),
                message: fault.message,
            },
        }
    }

    /// Error of an MPI call outside any exchange.
    fn fault(&self, fault: Fault, operation: &'static str) -> CollectiveError {
        let Fault { call, message, .. } = fault;
        let (rank, label) = (self.rank, self.board.status().phase);
        CollectiveError::Mpi { rank, call, remote: Remote::Group, operation, label, message }
    }
}

/// Outcome of one turn of the worker.
enum Turn {
    Moved,
    Idle,
    /// All ranks are done.
    Finished,
}
