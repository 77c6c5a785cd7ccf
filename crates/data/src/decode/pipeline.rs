//! Pipeline of threads: one reads, several work, and the calling thread takes the results in the order of reading.
//!
//! ```text
//!         ┌──────── free ◄───────────────────────────────┐
//!         ▼                                              │
//!      reader ── read ──► worker, worker, … ── done ──► take
//! ```
//!
//! The number of jobs is fixed. Jobs are reused and keep their memory, so the queues need no bounds, and a thread that is too
//! fast waits for a job. Errors are passed on like results: the first one in the order of reading is the outcome.

use crate::DataError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Result for the calling thread, with its number in the order of reading.
type Done<J> = (u64, Result<J, DataError>);

/// Runs `read` until it returns false, `work` on every job that it filled, and `take` on the results in the order of reading.
/// `work` runs on `threads` threads, each with a state of its own. The first error or panic ends all threads.
pub fn run<J: Send, S>(
    jobs: Vec<J>,
    threads: usize,
    mut read: impl FnMut(&mut J) -> Result<bool, DataError> + Send,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &mut J) + Sync,
    mut take: impl FnMut(&mut J) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let (free, waiting) = channel();
    let (filled, to_do) = channel();
    let (done, results) = channel();
    let to_do = Mutex::new(to_do);
    for job in jobs {
        // The receiver is alive.
        let _ = free.send(job);
    }
    thread::scope(|scope| {
        let failed = done.clone();
        let reader = scope.spawn(move || read_all(&mut read, waiting, filled, failed));
        for _ in 0..threads.max(1) {
            let (done, to_do, state, work) = (done.clone(), &to_do, &state, &work);
            scope.spawn(move || work_all(to_do, done, state, work));
        }
        drop(done);
        // Both ends move into this call: when it returns, with an error or not, all threads find their queues closed.
        let outcome = take_all(results, free, &mut take);
        let reader = reader.join();
        outcome?;
        reader.map_err(|panic| panicked("reader", panic))
    })
}

fn read_all<J>(
    read: &mut impl FnMut(&mut J) -> Result<bool, DataError>,
    waiting: Receiver<J>,
    filled: Sender<(u64, J)>,
    failed: Sender<Done<J>>,
) {
    for (mut job, place) in waiting.into_iter().zip(0..) {
        // A closed queue means that the calling thread has an error already.
        match read(&mut job) {
            Ok(true) if filled.send((place, job)).is_ok() => {}
            Ok(_) => return,
            Err(error) => {
                let _ = failed.send((place, Err(error)));
                return;
            }
        }
    }
}

fn work_all<J, S>(
    to_do: &Mutex<Receiver<(u64, J)>>,
    done: Sender<Done<J>>,
    state: &impl Fn() -> S,
    work: &impl Fn(&mut S, &mut J),
) {
    let mut state = state();
    loop {
        let next = to_do.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((place, mut job)) = next else { return };
        // Were the job lost in a panic, the calling thread would wait for it for ever.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut state, &mut job)));
        let result = outcome.map(|()| job).map_err(|panic| panicked("parser", panic));
        if done.send((place, result)).is_err() {
            return;
        }
    }
}

fn take_all<J>(
    results: Receiver<Done<J>>,
    free: Sender<J>,
    take: &mut impl FnMut(&mut J) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut early = BTreeMap::new();
    let mut place = 0;
    for (at, result) in results {
        early.insert(at, result);
        while let Some(result) = early.remove(&place) {
            let mut job = result?;
            take(&mut job)?;
            place += 1;
            // Sending fails if the reader is done; it then needs no jobs.
            let _ = free.send(job);
        }
    }
    Ok(())
}

fn panicked(thread: &'static str, panic: Box<dyn std::any::Any + Send>) -> DataError {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
    DataError::Panic { thread, message: message.unwrap_or_else(|| "no message".into()) }
}

#[cfg(test)]
mod tests;
