//! Pacing: whether computations are executed, replaced by their given time, or executed one rank after the other.

use crate::Error;
use collectives::{Communicator, Label};
use kernels::{Device, Stopwatch};
use std::time::{Duration, Instant};

/// Pacing of the computations of a step.
#[derive(Debug)]
pub(crate) enum Pacing {
    /// Every computation is made as fast as the device can, beside those of other ranks.
    Real,
    /// Computations take the given time of their phase.
    Paced(Vec<Duration>),
    /// One rank after the other, to measure each alone.
    InTurns {
        /// Label of the barriers between turns.
        label: Label,
        /// Measured times of each phase, in seconds.
        taken: Vec<Vec<f64>>,
        /// Stopwatch of each phase, once it has been carried out.
        watches: Vec<Option<Stopwatch>>,
    },
}

impl Pacing {
    /// Whether computations are only waited for.
    pub(crate) fn waits_only(&self) -> bool {
        matches!(self, Pacing::Paced(_))
    }

    /// Carries out the computation `work` of a phase that began at `began`, on the queue of `device`.
    pub(crate) fn carry_out(
        &mut self,
        world: &Communicator,
        device: &Device,
        phase: usize,
        began: Instant,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Pacing::Real => work(),
            Pacing::Paced(times) => {
                work()?;
                rest_until(world, began + times[phase])
            }
            Pacing::InTurns { label, taken, watches } => {
                for _ in 0..world.rank() {
                    world.barrier(label)?;
                }
                let watch = watches[phase].get_or_insert_with(|| Stopwatch::new(device));
                watch.lap(work)?;
                world.device().synchronise()?;
                taken[phase].extend(watch.read()?);
                for _ in world.rank()..world.size() {
                    world.barrier(label)?;
                }
                Ok(())
            }
        }
    }
}

/// The longest sleep: reductions need their rank between their exchanges.
const SLICE: Duration = Duration::from_millis(1);
/// How late a sleep may end; what is left of the time is spent awake.
const LATE: Duration = Duration::from_micros(60);

/// Sleeps until `deadline`, moving outstanding collectives on.
fn rest_until(world: &Communicator, deadline: Instant) -> Result<(), Error> {
    loop {
        world.progress()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        match left.checked_sub(LATE) {
            Some(sleep) => std::thread::sleep(sleep.min(SLICE)),
            None => std::thread::yield_now(),
        }
    }
}
