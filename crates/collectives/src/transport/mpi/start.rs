//! Joins the MPI job, starts the worker, and checks that all processes were started for the same cluster.

use super::Mpi;
use super::board::Board;
use super::control::Control;
use super::exchange::{Group, MessageLimits};
use super::native::{Comm, Environment, Fault, Tester};
use super::status;
use super::watcher::{Watch, Watcher};
use super::worker::{Life, Worker};
use crate::launch::panic_message;
use crate::{CollectiveError, Label, MpiOptions, Remote};
use spec::topology::Topology;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// How long the worker may take to end once it is told to.
const CLOSING: Duration = Duration::from_secs(2);
/// How long the other ranks wait for the report of a rank that was started differently.
const REPORTING: Duration = Duration::from_secs(2);
/// Pause between two checks of whether all processes have arrived.
const NAP: Duration = Duration::from_millis(1);

/// An MPI job that this process has joined, and the thread that owns MPI.
pub(crate) struct Joined {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// Lowest rank on the host of each rank, in rank order.
    pub(crate) hosts: Vec<usize>,
    /// The thread that owns MPI; none during a launch, and after the end of the job.
    thread: Mutex<Option<Serving>>,
}

/// The channel to the thread that owns MPI, and the watcher of this process.
struct Serving {
    ask: Sender<Ask>,
    watcher: Option<Watcher>,
}

/// Request to the thread that owns MPI, outside a launch.
enum Ask {
    /// Answer once all processes have made this request.
    Meet(Sender<Result>),
    /// Answer with the text of rank 0. All processes must make this request.
    FirstText(String, Sender<Result<String>>),
    /// Become the worker of a rank, until all ranks have left.
    Launch(Box<Launch>),
    /// Finalize MPI, and then answer. All processes must make this request.
    Finish(Sender<()>),
}

struct Launch {
    topology: Topology,
    wait_limit: Duration,
    options: MpiOptions,
    answer: Sender<Result<Arc<Board>>>,
    /// Dropped once the worker is done.
    working: Sender<()>,
}

/// A rank that was launched, and the worker that serves it.
pub(crate) struct Started {
    pub(crate) transport: Arc<Mpi>,
    /// Disconnected once the worker is done.
    worker: Receiver<()>,
    serving: Serving,
}

impl Joined {
    /// Starts MPI on a thread of its own. May be called once per process.
    pub(crate) fn new(watch: Option<&Watch>) -> Result<Self> {
        // The watcher starts before MPI, whose files and connections it must not inherit.
        let watcher = Watcher::start(watch);
        let (tell, told) = mpsc::channel();
        let (ask, asked) = mpsc::channel();
        let work = move || match MpiThread::join() {
            Ok(host) => {
                let _ = tell.send(Ok((host.rank, host.hosts.clone())));
                host.serve(&asked);
            }
            Err(cause) => drop(tell.send(Err(cause))),
        };
        let spawn = |message: String| CollectiveError::Spawn { rank: 0, message };
        let thread = thread::Builder::new().name("mpi".to_owned()).spawn(work);
        thread.map_err(|error| spawn(error.to_string()))?;
        let (rank, hosts) = told.recv().map_err(|_| spawn("the MPI worker panicked".to_owned()))??;
        Ok(Self { rank, size: hosts.len(), hosts, thread: Mutex::new(Some(Serving { ask, watcher })) })
    }

    /// Waits until all processes have called this, without a limit.
    pub(crate) fn meet(&self) -> Result {
        let (answer, answered) = mpsc::channel();
        self.ask(Ask::Meet(answer))?;
        answered.recv().map_err(|_| self.gone())?
    }

    /// Returns the text of rank 0 on all ranks, once all processes have called this, without a limit.
    pub(crate) fn first_text(&self, mine: &str) -> Result<String> {
        // A broadcast keeps a core busy while it waits, a meeting does not.
        self.meet()?;
        let (answer, answered) = mpsc::channel();
        self.ask(Ask::FirstText(mine.to_owned(), answer))?;
        answered.recv().map_err(|_| self.gone())?
    }

    /// Finalizes MPI once all processes have called this, without a limit.
    pub(crate) fn finish(&self) -> Result {
        self.meet()?;
        let (answer, answered) = mpsc::channel();
        self.ask(Ask::Finish(answer))?;
        answered.recv().map_err(|_| self.gone())?;
        drop(crate::sync::lock(&self.thread).take());
        Ok(())
    }

    fn ask(&self, ask: Ask) -> Result {
        match &*crate::sync::lock(&self.thread) {
            Some(serving) => serving.ask.send(ask).map_err(|_| self.gone()),
            None => Err(self.gone()),
        }
    }

    pub(crate) fn launch(
        &self,
        topology: Topology,
        wait_limit: Duration,
        options: &MpiOptions,
    ) -> Result<Started> {
        let mut serving = crate::sync::lock(&self.thread).take().ok_or_else(|| self.gone())?;
        let ((answer, answered), (working, worker)) = (mpsc::channel(), mpsc::channel());
        let launch = Launch { topology, wait_limit, options: options.clone(), answer, working };
        let asked = serving.ask.send(Ask::Launch(Box::new(launch)));
        asked.map_err(|_| self.gone())?;
        let board = answered.recv().map_err(|_| self.gone())??;
        if let Some(watcher) = &mut serving.watcher {
            watcher.follow(board.status_path().as_deref());
        }
        let transport = Arc::new(Mpi { board, rank: self.rank, topology, wait_limit });
        Ok(Started { transport, worker, serving })
    }

    /// Ends the worker of a launch. After a launch that succeeded the job can be launched again. After a failure a worker that
    /// is stuck inside MPI is left behind: the process is about to exit.
    pub(crate) fn close(&self, started: Started, succeeded: bool) {
        let Started { transport, worker, mut serving } = started;
        transport.board.close();
        // Nothing is sent: the worker drops its end of the channel.
        let _ = worker.recv_timeout(CLOSING);
        transport.board.remove_status();
        if succeeded {
            if let Some(watcher) = &mut serving.watcher {
                watcher.follow(None);
            }
            *crate::sync::lock(&self.thread) = Some(serving);
        }
    }

    fn gone(&self) -> CollectiveError {
        let message = "the MPI job of this process has ended, or is being launched already".to_owned();
        CollectiveError::Spawn { rank: self.rank, message }
    }
}

/// State of the thread that owns MPI, outside a launch.
struct MpiThread {
    environment: Environment,
    all: Comm,
    rank: usize,
    hosts: Vec<usize>,
    tester: Tester,
}

impl MpiThread {
    fn join() -> Result<Self> {
        let environment = Environment::start().map_err(fault(0))?;
        let all = Comm::all();
        let rank = all.rank().map_err(fault(0))?;
        let hosts = all.hosts().map_err(fault(rank))?;
        Ok(Self { environment, all, rank, hosts, tester: Tester::default() })
    }

    /// Answers requests, and works for the rank during a launch, until a launch fails or the job is finished. Where nobody is
    /// left to ask, the process is about to exit: MPI is not finalized, since the other processes may be gone.
    fn serve(mut self, asked: &Receiver<Ask>) {
        while let Ok(ask) = asked.recv() {
            match ask {
                Ask::Meet(answer) => drop(answer.send(self.meet())),
                Ask::FirstText(mine, answer) => {
                    drop(answer.send(self.all.first_text(&mine).map_err(fault(self.rank))));
                }
                Ask::Launch(launch) => {
                    if !self.work(*launch) {
                        return;
                    }
                }
                Ask::Finish(answer) => {
                    self.environment.finish();
                    let _ = answer.send(());
                    return;
                }
            }
        }
    }

    /// Works for the rank until all ranks have left, which it returns true for, or the launch fails.
    fn work(&mut self, launch: Launch) -> bool {
        let Launch { topology, wait_limit, options, answer, working } = launch;
        let worker = match self.worker(topology, wait_limit, &options) {
            Ok(worker) => worker,
            Err(cause) => {
                let _ = answer.send(Err(cause));
                return false;
            }
        };
        let (rank, board) = (self.rank, worker.board.clone());
        let _ = answer.send(Ok(board.clone()));
        // Values that the panic may have left half-changed are not used again: the run ends.
        let left = catch_unwind(AssertUnwindSafe(|| worker.run())).unwrap_or_else(|panic| {
            let (host, phase) = (topology.host_of(rank), Label::from("MPI worker"));
            let message = panic_message(&*panic);
            board.fail_alone(CollectiveError::Panicked { rank, host, phase, message });
            false
        });
        drop(working);
        left
    }

    fn meet(&mut self) -> Result {
        let mut barrier = self.all.start_barrier().map_err(fault(self.rank))?;
        while !barrier.is_none() {
            let mut outcome = Ok(());
            let tested = self.tester.test(std::slice::from_mut(&mut barrier), |_, how| outcome = how);
            tested.and(outcome).map_err(fault(self.rank))?;
            thread::sleep(NAP);
        }
        Ok(())
    }

    /// Checks that all ranks were started alike, and creates the worker of this rank.
    fn worker(&mut self, topology: Topology, wait_limit: Duration, options: &MpiOptions) -> Result<Worker> {
        let (all, rank, hosts) = (self.all, self.rank, &self.hosts);
        let (ranks, fault) = (hosts.len(), fault(rank));
        let mine = format!("{topology}\ncollectives {}\n{}", env!("CARGO_PKG_VERSION"), options.identity);
        let first = all.first_text(&mine).map_err(&fault)?;
        let got: Vec<usize> = (0..ranks).filter(|&other| hosts[other] == hosts[rank]).collect();
        let expected: Vec<usize> = match rank < topology.ranks() {
            true => topology.ranks_of(topology.host_of(rank)).collect(),
            false => Vec::new(),
        };
        let refusal = if ranks != topology.ranks() {
            Some(CollectiveError::WorldSize { topology, got: ranks })
        } else if mine != first {
            Some(CollectiveError::Differs { rank, expected: first, got: mine })
        } else if options.check_hosts && got != expected {
            Some(CollectiveError::Hosts { rank, topology, expected, got })
        } else {
            None
        };
        // If one rank refuses to start, all do, so that no launcher need end the others. The lowest that refuses says why.
        let refused = all.gather(u64::from(refusal.is_some())).map_err(&fault)?;
        let first = refused.iter().position(|&refused| refused > 0);
        if let Some(cause) = refusal.filter(|_| first == Some(rank)) {
            return Err(cause);
        }
        if let Some(rank) = first {
            // The rank that was started differently needs time to report: the launcher ends all processes as soon as one of
            // them exits with an error.
            thread::sleep(REPORTING);
            let message =
                format!("rank {rank} was started differently from the other ranks; see its own message");
            return Err(CollectiveError::Elsewhere { rank, message, gave_up: false });
        }
        let job = all.first_text(&status::job_id()).map_err(&fault)?;
        let file = status::keep(&job, rank, topology.host_of(rank));
        let world = all.duplicate().map_err(&fault)?;
        let control = Control::new(all.duplicate().map_err(&fault)?).map_err(&fault)?;
        let largest_tag = world.largest_tag().map_err(&fault)?;
        // Longer pieces do not fit the counts of MPI, and pieces of no bytes would never end.
        let piece = options.piece.clamp(1, 1 << 30);
        Ok(Worker {
            board: Arc::new(Board::new(rank, topology, file)),
            rank,
            topology,
            wait_limit,
            limits: MessageLimits { piece, largest_tag },
            control,
            groups: vec![Group { comm: world, members: (0..ranks).collect(), me: rank }],
            life: Life::Running,
            tester: std::mem::take(&mut self.tester),
            under_way: Vec::new(),
            spare: Vec::new(),
            left: vec![None; ranks],
            heard: vec![None; ranks],
        })
    }
}

/// Error of a call that failed before any collective.
fn fault(rank: usize) -> impl Fn(Fault) -> CollectiveError {
    move |Fault { call, message, .. }| {
        let (operation, label) = ("launch", Label::from("launch"));
        CollectiveError::Mpi { rank, call, remote: Remote::Group, operation, label, message }
    }
}
