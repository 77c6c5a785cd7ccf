//! The watcher: a process that names a rank which dies without a report (killed, out of memory, a fault in native code).
//!
//! Each rank starts a small process, its watcher, from the same executable, and holds the only write end of a pipe to
//! it. A rank that ends in good order, after reporting its failure if there was one, says so on the pipe. If the pipe
//! closes without that, the watcher reads the rank's status file and reports the phase in which the rank died.
//!
//! The watcher stays in the rank's process group. A launcher that ends a job signals the process groups of the remaining
//! ranks (Open MPI 4.1: SIGTERM one second after the first death, then SIGKILL). So a watcher that has received SIGTERM
//! knows that its rank did not die by itself, and reports nothing: only the rank that died first is named. The watcher
//! inherits standard error, which the launcher still reads during that second. It is started before MPI, whose files and
//! connections it must not inherit.

use super::status;
use crate::sync::lock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The first argument of a watcher; the second is the process it watches.
const ARGUMENT: &str = "--campanile-watch";
/// Message of a rank that ends in good order.
const BYE: &str = "bye";
/// How long the launcher's signal may take to arrive after the rank that it ended is gone.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a watcher may live once its rank is gone, even if the launcher does not read its report.
const LAST: Duration = Duration::from_secs(3);

/// Permission to start this executable as a watcher. Only [`watch_if_asked`] returns it, which proves that the program can
/// act as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch(());

/// Runs this process as the watcher of a rank, and never returns, if it was started as one. A program whose ranks should be
/// watched must call this first in `main`, and pass the result to [`MpiJob::join`](crate::MpiJob::join).
pub fn watch_if_asked() -> Watch {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        let pid = arguments.next().unwrap_or_default();
        // An error of the watcher is not reported: the run is fine without it.
        let _ = watch(&pid.to_string_lossy());
        std::process::exit(0);
    }
    Watch(())
}

/// The watcher of this process. Dropping the value tells the watcher that the rank ends in good order.
pub(super) struct Watcher {
    child: Child,
    pipe: ChildStdin,
    /// Pipe on which the watcher says that it is ready.
    ready: Option<ChildStdout>,
}

impl Watcher {
    /// Starts the watcher, if the program can act as one. A run goes on without a watcher if it cannot be started.
    pub(super) fn start(watch: Option<&Watch>) -> Option<Self> {
        watch?;
        let start = || -> io::Result<Self> {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([ARGUMENT, &std::process::id().to_string()]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let ready = child.stdout.take();
            Ok(Self { child, pipe, ready })
        };
        let missing = |error: &io::Error| eprintln!("rank {} has no watcher: {error}", launcher_rank());
        start().inspect_err(missing).ok()
    }

    /// Waits until the watcher handles signals, and then tells it the path of the rank's status file, if there is one now.
    pub(super) fn follow(&mut self, status: Option<&Path>) {
        if let Some(mut ready) = self.ready.take() {
            let _ = ready.read(&mut [0]);
        }
        // The run goes on even if the watcher is gone.
        let _ = writeln!(self.pipe, "{}", status.unwrap_or(Path::new("")).display());
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = writeln!(self.pipe, "{BYE}");
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < LAST {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Main function of a watcher process.
fn watch(pid: &str) -> io::Result<()> {
    // From here on, these signals do not end the process.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    io::stdout().write_all(b"\n")?;
    let mut lines = io::stdin().lock().lines();
    let path = match lines.next().transpose()? {
        Some(line) if line == BYE => return Ok(()),
        Some(line) => PathBuf::from(line),
        None => {
            thread::sleep(SETTLE);
            if signals.pending().next().is_none() {
                // Written in one piece, because all ranks write to the same stream.
                io::stderr().write_all(died(pid, " before its first step").as_bytes())?;
            }
            return Ok(());
        }
    };
    let (told, path) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(path)));
    let (tell, file) = (told.clone(), path.clone());
    thread::spawn(move || {
        for _ in signals.forever() {
            tell.store(true, Ordering::SeqCst);
            // Removed now, because a rank that ignores the signal is killed together with its watcher.
            status::remove(&lock(&file));
        }
    });
    // A path for each launch, and none between two of them.
    while let Some(line) = lines.next().transpose()? {
        if line == BYE {
            return Ok(());
        }
        *lock(&path) = PathBuf::from(line);
    }
    let path = lock(&path).clone();
    // The rank is gone. Whatever happens now, this process must not stay.
    thread::spawn(|| {
        thread::sleep(LAST);
        std::process::exit(0);
    });
    thread::sleep(SETTLE);
    if !told.load(Ordering::SeqCst) {
        let report = match status::read(&path) {
            _ if path.as_os_str().is_empty() => died(pid, ""),
            Ok(process) => format!("{process}\n"),
            Err(error) => format!("process {pid} died; its status file could not be read: {error}\n"),
        };
        if let (Err(_), Some(folder)) = (io::stderr().write_all(report.as_bytes()), path.parent()) {
            std::fs::write(folder.join("failure.txt"), report)?;
        }
    }
    status::remove(&path);
    Ok(())
}

/// Report of the death of a rank that has no status file.
fn died(pid: &str, when: &str) -> String {
    format!("rank {} ({}, pid {pid}) died{when}\n", launcher_rank(), status::node_name())
}

/// World rank of a process that has not started MPI yet, from the environment that Open MPI, MPICH and Slurm set.
fn launcher_rank() -> String {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
    names.iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "unknown".to_owned())
}
