//! Measures the affinity of the features of a trained model.

use crate::Error;
use crate::cluster::{agree_on, control_of, is_distributed, report_once};
use crate::control::Control;
use crate::event::Unit;
use crate::scoring::Opened;
use spec::affinity::Affinity;
use std::sync::atomic::{AtomicU64, Ordering};
use training::{AffinityRequest, Cluster, Cosines};

/// Samples that are enough for means to settle.
pub const SAMPLES: u64 = 100_000;

/// Measures the affinity of the features of a checkpoint, on at most `limit` samples, over the ranks of `cluster`. All processes
/// of an MPI job get the same.
pub fn measure(
    opened: &Opened,
    cosines: Cosines,
    limit: u64,
    mut cluster: Cluster,
    control: &Control,
) -> Result<Affinity, Error> {
    if is_distributed(&cluster) {
        let identity = format!("{}affinity {cosines:?}, at most {limit} samples\n", opened.identity()?);
        agree_on(&mut cluster, &identity)?;
    }
    let control = control_of(&cluster, control);
    let samples = opened.samples().min(limit);
    let measuring = control.start("measuring affinity", samples, Unit::Count("samples"));
    let done = AtomicU64::new(0);
    let observe = |samples: u64| measuring.at(done.fetch_add(samples, Ordering::Relaxed) + samples);
    let Opened { run, logs, checkpoint, split, .. } = opened;
    let request = AffinityRequest { split: *split, cosines, limit };
    let measured = training::affinity(run, logs, checkpoint, &cluster, request, &observe);
    let affinity = measured.map_err(|error| report_once(&cluster, error))?;
    cluster.leave()?;
    Ok(affinity)
}
