//! Measures the affinity of the features of a trained model.

use crate::Error;
use crate::control::Control;
use crate::event::Unit;
use crate::scoring::Opened;
use spec::affinity::Affinity;
use std::sync::atomic::{AtomicU64, Ordering};
use training::Cosines;

/// Samples that are enough for means to settle.
pub const SAMPLES: u64 = 100_000;

/// Measures the affinity of the features of a checkpoint, on at most `limit` samples.
pub fn measure(opened: &Opened, of: Cosines, limit: u64, control: &Control) -> Result<Affinity, Error> {
    let samples = opened.samples().min(limit);
    let measuring = control.start("measuring affinity", samples, Unit::Count("samples"));
    let done = AtomicU64::new(0);
    let observe = |samples: u64| measuring.at(done.fetch_add(samples, Ordering::Relaxed) + samples);
    let Opened { run, logs, checkpoint, split, .. } = opened;
    Ok(training::affinity(run, logs, checkpoint, *split, of, limit, &observe)?)
}
