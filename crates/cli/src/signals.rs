//! Signals that ask a command to stop, and how it ends then.
//!
//! The first SIGINT, SIGTERM, SIGHUP or SIGUSR1 sets a flag: the command saves what it can, and exits with 128 plus the
//! signal's number, as a shell reports a command that the signal ended. So `train && deploy` deploys no half-trained
//! model. A second signal ends the process at once.
//!
//! SIGUSR1 is for launchers: `mpirun` passes it on to all ranks and waits, while it follows any other of these signals
//! with SIGKILL after a second. Slurm's `--signal=USR1@120` sends it before a job's time is up.

use anyhow::{Result, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether the command was asked to stop, and by which signal first. Dereferences to the flag.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// Number of the first signal; 0 for none.
    signal: Arc<AtomicUsize>,
}

impl Deref for Stop {
    type Target = AtomicBool;

    fn deref(&self) -> &AtomicBool {
        &self.asked
    }
}

/// Handles SIGINT, SIGTERM, SIGHUP and SIGUSR1 from now on. A SIGHUP that is ignored, as under `nohup`, stays so.
pub fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] {
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        // In this order: a second signal ends the process, the first is noted, and then the flag is set.
        let registered = flag::register_conditional_shutdown(signal, 128 + signal, stop.asked.clone())
            .and_then(|_| flag::register_usize(signal, stop.signal.clone(), signal as usize))
            .and_then(|_| flag::register(signal, stop.asked.clone()));
        registered.map_err(|e| anyhow!("signal {signal} cannot be handled: {e}"))?;
    }
    Ok(stop)
}

/// Lets a write beyond `ulimit -f` fail, so that it becomes an error with the name of the file. Unhandled, the signal
/// that comes with it ends the process without a word.
pub fn survive_file_size_limit() {
    // Where it cannot be handled all is as it was.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Whether the process was started with a signal ignored, by what the system says of it.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl Stop {
    /// The flag that is set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.asked.clone()
    }

    /// What the command ends with once it was stopped; `said` tells what was saved, and how to go on.
    pub fn interrupted(&self, said: impl Into<String>) -> Interrupted {
        let signal = match self.signal.load(Ordering::SeqCst) {
            // Another rank of the job was asked.
            0 => SIGTERM,
            signal => signal as i32,
        };
        Interrupted { signal, said: said.into() }
    }

    /// `result`; an error after a signal is due to the signal.
    pub fn ended<T, E: Into<anyhow::Error>>(&self, result: Result<T, E>) -> Result<T> {
        match result.map_err(Into::into) {
            Err(error) if self.asked.load(Ordering::SeqCst) && !error.is::<Interrupted>() => {
                Err(self.interrupted(format!("{error:#}")).into())
            }
            result => result,
        }
    }
}

/// The end of a command that a signal stopped: no failure, but no success either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    signal: i32,
    said: String,
}

impl Interrupted {
    /// The code to exit with: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP, 138 for SIGUSR1.
    pub fn exit_code(&self) -> u8 {
        u8::try_from(128 + self.signal).unwrap_or(1)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests;
