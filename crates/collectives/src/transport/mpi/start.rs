//! Starts MPI and the worker, and checks that all processes are of one mind about the cluster.

use super::Mpi;
use super::board::Board;
use super::control::Control;
use super::exchange::{Cutting, Group};
use super::native::{Comm, Environment, Fault, Tester};
use super::worker::{Life, Worker};
use crate::launch::panic_message;
use crate::{CollectiveError, Label, MpiOptions, Peer};
use spec::topology::Topology;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the worker may take to end, once it is told to.
const CLOSING: Duration = Duration::from_secs(2);

/// This process's rank, and the worker that serves it.
pub(crate) struct Started {
    pub(crate) rank: usize,
    pub(crate) transport: Arc<Mpi>,
    worker: JoinHandle<()>,
}

impl Started {
    /// Ends the worker. One that is stuck inside MPI is left behind: the process is about to exit.
    pub(crate) fn close(self) {
        self.transport.board.close();
        let begun = Instant::now();
        while !self.worker.is_finished() && begun.elapsed() < CLOSING {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts MPI on a worker of its own.
pub(crate) fn start(
    topology: Topology,
    wait_limit: Duration,
    options: &MpiOptions,
) -> Result<Started, CollectiveError> {
    let (tell, told) = mpsc::channel();
    let options = options.clone();
    let work = move || {
        let worker = match Worker::new(topology, wait_limit, &options) {
            Ok(worker) => worker,
            Err(cause) => {
                let _ = tell.send(Err(cause));
                return;
            }
        };
        let (rank, board) = (worker.rank, worker.board.clone());
        let _ = tell.send(Ok((rank, board.clone())));
        // What the worker leaves half-done nobody looks at again: the run ends.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| worker.run())) {
            let (host, phase) = (topology.host_of(rank), Label::from("MPI worker"));
            let message = panic_message(&*panic);
            board.fail_alone(CollectiveError::Panicked { rank, host, phase, message });
        }
    };
    let spawn = |message: String| CollectiveError::Spawn { rank: 0, message };
    let worker = thread::Builder::new().name("mpi".to_owned()).spawn(work);
    let worker = worker.map_err(|error| spawn(error.to_string()))?;
    let (rank, board) = told.recv().map_err(|_| spawn("the MPI worker panicked".to_owned()))??;
    let transport = Arc::new(Mpi { board, rank, topology, wait_limit });
    Ok(Started { rank, transport, worker })
}

impl Worker {
    fn new(topology: Topology, wait_limit: Duration, options: &MpiOptions) -> Result<Self, CollectiveError> {
        let fault = |rank: usize| {
            let (operation, label) = ("launch", Label::from("launch"));
            move |Fault { call, message, .. }| {
                let label = label.clone();
                CollectiveError::Mpi { rank, call, peer: Peer::Group, operation, label, message }
            }
        };
        let environment = Environment::start().map_err(fault(0))?;
        let all = Comm::all();
        let rank = all.rank().map_err(fault(0))?;
        let fault = fault(rank);
        let ranks = all.size().map_err(&fault)?;
        // What each can see for itself first, so that a rank that is wrong says so whatever the others do.
        if ranks != topology.ranks() {
            return Err(CollectiveError::WorldSize { topology, got: ranks });
        }
        let mine = format!("{topology}; {}; {}", env!("CARGO_PKG_VERSION"), options.identity);
        let first = all.first_text(&mine).map_err(&fault)?;
        if mine != first {
            return Err(CollectiveError::Differs { rank, expected: first, got: mine });
        }
        let got = all.host().map_err(&fault)?;
        let expected: Vec<usize> = topology.ranks_of(topology.host_of(rank)).collect();
        if options.check_hosts && got != expected {
            return Err(CollectiveError::Hosts { rank, topology, expected, got });
        }
        let world = all.duplicate().map_err(&fault)?;
        let control = Control::new(all.duplicate().map_err(&fault)?).map_err(&fault)?;
        let largest_tag = world.largest_tag().map_err(&fault)?;
        // Longer pieces do not fit MPI's counts, and no piece at all would never end.
        let piece = options.piece.clamp(1, 1 << 30);
        Ok(Self {
            environment,
            board: Arc::new(Board::new(rank, topology)),
            rank,
            topology,
            wait_limit,
            cutting: Cutting { piece, largest_tag },
            control,
            groups: vec![Group { comm: world, members: (0..ranks).collect(), me: rank }],
            life: Life::Running,
            tester: Tester::default(),
            under_way: Vec::new(),
            spare: Vec::new(),
            left: vec![None; ranks],
            heard: vec![None; ranks],
        })
    }
}
