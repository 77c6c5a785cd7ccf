//! The thread that watches a rank's communicators: what a device waits for, its host cannot leave.
//!
//! A rank that reads a result of its device is blocked until the device is done, and a device that waits for a rank which has
//! failed is never done. So another thread looks ten times a second whether the run has ended, whether NCCL has met an error, and
//! whether an operation is overdue. It then aborts the communicators, upon which the devices go on and the rank learns the cause.

use super::link::Link;
use super::{Result, Seat};
use crate::sync::lock;
use crate::transport::Control;
use crate::{CollectiveError, CollectiveStatus};
use kernels::{Device, Event, KernelError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(100);

/// What the watching thread sees of a rank.
pub(super) struct Watched {
    control: Arc<dyn Control>,
    links: Mutex<Vec<Arc<dyn Link>>>,
    /// Recorded behind every operation; past once all are done.
    tail: OnceLock<Event>,
    /// Operations that were queued so far.
    queued: AtomicU64,
    /// Whether the rank is inside the library, which may wait for other ranks.
    inside: AtomicBool,
    last: Mutex<Option<CollectiveStatus>>,
    stopped: Mutex<bool>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watched {
    pub(super) fn new(control: Arc<dyn Control>) -> Self {
        Self {
            control,
            links: Mutex::default(),
            tail: OnceLock::new(),
            queued: AtomicU64::new(0),
            inside: AtomicBool::new(false),
            last: Mutex::default(),
            stopped: Mutex::new(false),
            changed: Condvar::new(),
            thread: Mutex::default(),
        }
    }

    /// Event that is recorded behind every operation.
    pub(super) fn tail(&self, device: &Device) -> std::result::Result<&Event, KernelError> {
        if let Some(tail) = self.tail.get() {
            return Ok(tail);
        }
        let made = device.event()?;
        Ok(self.tail.get_or_init(|| made))
    }

    /// Records which operation is about to be queued.
    pub(super) fn starts(&self, operation: CollectiveStatus) {
        *lock(&self.last) = Some(operation);
    }

    /// Queues an operation by `queue`, under watch.
    pub(super) fn inside<T>(&self, queue: impl FnOnce() -> T) -> T {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.inside.store(true, Ordering::Release);
        let queued = queue();
        self.inside.store(false, Ordering::Release);
        queued
    }

    /// Whether the library, or the device, is still at work on what was queued.
    fn is_at_work(&self) -> bool {
        let past = |tail: &Event| tail.is_past().is_ok_and(|past| past);
        self.inside.load(Ordering::Acquire) || !self.tail.get().is_none_or(past)
    }

    /// Waits until all operations are done.
    pub(super) fn synchronise(&self) -> std::result::Result<(), KernelError> {
        self.tail.get().map_or(Ok(()), Event::synchronise)
    }

    /// Watches one more link, by a thread that the first one starts.
    pub(super) fn watch(self: &Arc<Self>, link: &Arc<dyn Link>, seat: Seat) -> Result {
        lock(&self.links).push(link.clone());
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let (watched, name) = (self.clone(), format!("nccl watch {}", seat.rank));
            let spawned = thread::Builder::new().name(name).spawn(move || watched.run(seat));
            let failed = |error: std::io::Error| CollectiveError::Spawn {
                rank: seat.rank,
                message: error.to_string(),
            };
            *thread = Some(spawned.map_err(|error| self.control.abort(failed(error)))?);
        }
        Ok(())
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        *lock(&self.stopped) = true;
        self.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }

    fn run(&self, seat: Seat) {
        let mut quiet = (0, Instant::now());
        while !self.is_stopped() {
            if self.ends(seat, &mut quiet) {
                for link in lock(&self.links).drain(..) {
                    link.abort();
                }
                return;
            }
        }
    }

    /// Sleeps for a period, or until the thread is to stop.
    fn is_stopped(&self) -> bool {
        let stopped = lock(&self.stopped);
        let waited = self.changed.wait_timeout_while(stopped, PERIOD, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Whether the run has ended, or ends now because of what was seen. `quiet` is the number of operations that were queued, and
    /// since when there are no more.
    fn ends(&self, seat: Seat, quiet: &mut (u64, Instant)) -> bool {
        if self.control.check().is_err() {
            return true;
        }
        if let Err(error) = lock(&self.links).iter().try_for_each(|link| link.check()) {
            self.control.abort(error.into());
            return true;
        }
        let queued = self.queued.load(Ordering::Relaxed);
        if queued != quiet.0 {
            *quiet = (queued, Instant::now());
        }
        // The device is asked only when the host has long queued nothing: it is usually blocked then, or done.
        if quiet.1.elapsed() < seat.wait_limit || !self.is_at_work() {
            return false;
        }
        let last = lock(&self.last).clone().map(Box::new);
        self.control.abort(CollectiveError::DeviceWaitLimit {
            rank: seat.rank,
            last,
            limit: seat.wait_limit,
        });
        true
    }
}
