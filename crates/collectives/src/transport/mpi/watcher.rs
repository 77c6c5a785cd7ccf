//! Names a rank that dies without a word: killed, out of memory, by a fault in native code.
//!
//! Each rank starts a small process, its watcher, from the same executable, and holds the only write end of a pipe to
//! it. A rank that ends in good order, its failure reported if there was one, says so on the pipe. If the pipe closes
//! without that, the watcher reads the rank's status file and says where the rank died.
//!
//! The watcher stays in the rank's process group. A launcher that ends a job signals the groups of the ranks that are
//! left (Open MPI 4.1: a second after the first death SIGTERM, then SIGKILL), so a watcher that has got SIGTERM knows that
//! its rank did not end by itself, and keeps quiet: only the rank that died first is named. It inherits standard error,
//! which the launcher reads on for that second. It is started before MPI, whose files and connections it must not hold.

use super::status;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The first argument of a watcher; the second is the process it watches.
const ARGUMENT: &str = "--campanile-watch";
/// What a rank says that ends in good order.
const BYE: &str = "bye";
/// How long a launcher's signal may take to get here after the rank that it ended is gone.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a watcher may take once its rank is gone. A launcher that does not read what it says must not keep it.
const LAST: Duration = Duration::from_secs(3);

/// The right to start this program as a watcher, which it has proved to understand: see [`watch_if_asked`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch(());

/// Turns this process into the watcher of a rank if that is what it was started for, and then never returns. To be called
/// first thing in `main`, by programs whose ranks are to be watched: see [`MpiJob::join`](crate::MpiJob::join).
pub fn watch_if_asked() -> Watch {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        let pid = arguments.next().unwrap_or_default();
        // No watcher is better than one that fails loudly: the job is not its own.
        let _ = watch(&pid.to_string_lossy());
        std::process::exit(0);
    }
    Watch(())
}

/// The watcher of this process. Dropped, it is told that all is in order.
pub(super) struct Watcher {
    child: Child,
    pipe: ChildStdin,
    /// On which it says that it is ready.
    ready: Option<ChildStdout>,
}

impl Watcher {
    /// Starts it, if the program is able to. Without one a run is as good as with it, as long as nobody dies.
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

    /// Says where the rank's status file is, if it has one, once the watcher is ready to be signalled.
    pub(super) fn follow(&mut self, status: Option<&Path>) {
        if let Some(mut ready) = self.ready.take() {
            let _ = ready.read(&mut [0]);
        }
        // A watcher that is gone watches no more; that is no reason to end the run.
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

/// The life of a watcher.
fn watch(pid: &str) -> io::Result<()> {
    // From here on, these do not end it.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    io::stdout().write_all(b"\n")?;
    let mut lines = io::stdin().lock().lines();
    let path = match lines.next().transpose()? {
        Some(line) if line == BYE => return Ok(()),
        Some(line) => PathBuf::from(line),
        None => {
            thread::sleep(SETTLE);
            if signals.pending().next().is_none() {
                let (rank, node) = (launcher_rank(), status::node_name());
                // In one piece, as all that is said here: all ranks write to one place.
                io::stderr().write_all(
                    format!("rank {rank} ({node}, pid {pid}) died before its first step\n").as_bytes(),
                )?;
            }
            return Ok(());
        }
    };
    let told = Arc::new(AtomicBool::new(false));
    let (tell, file) = (told.clone(), path.clone());
    thread::spawn(move || {
        for _ in signals.forever() {
            tell.store(true, Ordering::SeqCst);
            // Now, because a rank that does not heed the signal is killed together with its watcher.
            status::remove(&file);
        }
    });
    if lines.next().transpose()?.is_some_and(|line| line == BYE) {
        return Ok(());
    }
    // The rank is gone. Whatever happens now, this process must not stay.
    thread::spawn(|| {
        thread::sleep(LAST);
        std::process::exit(0);
    });
    thread::sleep(SETTLE);
    if !told.load(Ordering::SeqCst) {
        let report = match status::read(&path) {
            Ok(process) => format!("{process}\n"),
            Err(error) => format!("process {pid} died, nobody knows where: {error}\n"),
        };
        if let (Err(_), Some(folder)) = (io::stderr().write_all(report.as_bytes()), path.parent()) {
            std::fs::write(folder.join("failure.txt"), report)?;
        }
    }
    status::remove(&path);
    Ok(())
}

/// The rank of a process that has not asked MPI yet, by what launchers tell it: Open MPI, MPICH and Slurm.
fn launcher_rank() -> String {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
    names.iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "unknown".to_owned())
}
