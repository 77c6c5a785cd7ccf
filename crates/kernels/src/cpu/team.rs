//! Threads that take the pieces of one operation, and meet when all are done.
//!
//! A thread without work looks for it for [`PATIENCE`] before it sleeps, as long as no other thread wants its core.
//! A core that falls asleep at every join is slow afterwards where cores
//! are virtual: the host lends it to others meanwhile, and may run two cores of this machine on one of its own when it wakes
//! (`docs/results/kernels.md`, "Why steps vary").
#![allow(unsafe_code)]

use crate::KernelError;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time for which a thread looks for work, giving its core to whoever else wants it, before it sleeps: longer than what one
/// thread does alone between two operations of a step.
pub const PATIENCE: Duration = Duration::from_millis(2);
/// Looks between two offers of the core to others.
const LOOKS: usize = 64;
/// An offer of the core that takes longer counts as accepted by another thread.
const ACCEPTED: Duration = Duration::from_micros(20);

/// Offers the core to other threads, and returns whether one took it: then a thread that only looks for work should sleep.
pub fn offer_core() -> bool {
    let offered = Instant::now();
    thread::yield_now();
    offered.elapsed() > ACCEPTED
}

/// The caller of [`Team::run`] and some threads that help it.
#[derive(Debug)]
pub struct Team {
    meeting: Arc<Meeting>,
    /// Held while an operation is under way.
    leading: Mutex<()>,
    members: Vec<JoinHandle<()>>,
}

/// Where the caller and the members of a team meet.
#[derive(Debug)]
struct Meeting {
    /// The operation under way. The caller writes it while no member is called, members read it once they are.
    job: UnsafeCell<Option<Job>>,
    /// The first piece that nobody has taken.
    next: AtomicUsize,
    /// Number of members that were called and are not done.
    working: AtomicUsize,
    /// Number of calls of each member.
    calls: Box<[Calls]>,
    ends: AtomicBool,
    /// Number of threads that sleep, or are about to.
    asleep: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
    /// What a member panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A counter with a cache line of its own, so that looking at it disturbs nobody.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Calls(AtomicUsize);

/// Pieces of an operation.
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    pieces: usize,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Job").field("pieces", &self.pieces).finish_non_exhaustive()
    }
}

// SAFETY: `job` is written by the one caller that holds `leading`, while `working` is 0; members read it between a call, which is
// published after the writing, and their leaving, which the caller waits for. What it points to is `Sync`.
unsafe impl Sync for Meeting {}
// SAFETY: as above.
unsafe impl Send for Meeting {}

impl Team {
    /// Starts all threads of a team of `threads` but one, which is the caller.
    pub fn new(threads: usize) -> Result<Self, KernelError> {
        let meeting = Arc::new(Meeting {
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            calls: (1..threads).map(|_| Calls::default()).collect(),
            ends: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            lock: Mutex::new(()),
            changed: Condvar::new(),
            panic: Mutex::new(None),
        });
        let mut team = Self { meeting, leading: Mutex::new(()), members: Vec::with_capacity(threads) };
        for member in 0..threads - 1 {
            let meeting = team.meeting.clone();
            let thread = thread::Builder::new().name(format!("kernels {}", member + 1));
            let thread = thread.spawn(move || meeting.serve(member));
            team.members.push(thread.map_err(|e| KernelError::Device(format!("{threads} threads: {e}")))?);
        }
        Ok(team)
    }

    /// Runs `work` on every piece `0..pieces`, at the same time as far as there are threads, and returns when all are done. A caller that finds
    /// the team at work, as pieces of an operation do, works alone.
    pub fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        let meeting = &*self.meeting;
        let Ok(_leading) = self.leading.try_lock() else {
            return (0..pieces).for_each(work);
        };
        let called = &meeting.calls[..meeting.calls.len().min(pieces.saturating_sub(1))];
        // SAFETY: only the lifetime changes. All that were called leave before this function does, by its end or by a panic.
        let work: *const (dyn Fn(usize) + Sync + 'static) =
            unsafe { std::mem::transmute(std::ptr::from_ref(work)) };
        // SAFETY: this caller holds `leading`, and no member is at work: the caller before waited for all.
        unsafe { *meeting.job.get() = Some(Job { work, pieces }) };
        meeting.next.store(0, Ordering::Relaxed);
        meeting.working.store(called.len(), Ordering::Relaxed);
        for calls in called {
            calls.0.fetch_add(1, Ordering::SeqCst);
        }
        meeting.wake();
        let own = catch_unwind(AssertUnwindSafe(|| meeting.take_pieces()));
        meeting.wait(|| meeting.working.load(Ordering::SeqCst) == 0);
        let of_member = meeting.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(_leading);
        if let Some(panic) = own.err().or(of_member) {
            resume_unwind(panic);
        }
    }
}

impl Meeting {
    /// What a member does all its life.
    fn serve(&self, member: usize) {
        let calls = &self.calls[member].0;
        for served in 0.. {
            self.wait(|| calls.load(Ordering::SeqCst) != served);
            if self.ends.load(Ordering::SeqCst) {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_pieces())) {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
            if self.working.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.wake();
            }
        }
    }

    /// Runs pieces of the operation under way until all are taken.
    fn take_pieces(&self) {
        // SAFETY: the calling thread leads the operation, or was called to it and has not left.
        let Some(Job { work, pieces }) = (unsafe { *self.job.get() }) else { return };
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return;
            }
            // SAFETY: the caller keeps what `work` points to until all threads have left.
            unsafe { (*work)(piece) };
        }
    }

    /// Returns once `done` holds; whoever makes it hold calls [`Meeting::wake`] afterwards.
    fn wait(&self, done: impl Fn() -> bool) {
        for _ in 0..LOOKS {
            if done() {
                return;
            }
            std::hint::spin_loop();
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for _ in 0..LOOKS {
                if done() {
                    return;
                }
                std::hint::spin_loop();
            }
            if offer_core() {
                break;
            }
        }
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before `done` is looked at: whoever makes it hold either sees this thread, or is seen by it.
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while !done() {
            lock = self.changed.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes all threads that sleep.
    fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.meeting.ends.store(true, Ordering::SeqCst);
        for calls in &self.meeting.calls {
            calls.0.fetch_add(1, Ordering::SeqCst);
        }
        self.meeting.wake();
        for member in self.members.drain(..) {
            // A member catches what its work panics with.
            let _ = member.join();
        }
    }
}
