//! Counts of what costs time on a device: a step after warm-up allocates nothing, and waits only where its schedule reads back.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a rank's device has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allocations of device memory and of page-locked host memory.
    pub allocations: u64,
    /// Times that the host waited for the device.
    pub synchronisations: u64,
    /// Kernels and copies that were queued.
    pub launches: u64,
    /// Lists of them that the device was given as one graph.
    pub replays: u64,
    /// Lists that could not be made a graph.
    pub spoiled: u64,
}

/// Counters of one rank's device.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    allocations: AtomicU64,
    synchronisations: AtomicU64,
    launches: AtomicU64,
    replays: AtomicU64,
    spoiled: AtomicU64,
}

impl Counters {
    pub(crate) fn allocated(&self) {
        self.allocations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self) {
        self.synchronisations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn launched(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn replayed(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn spoiled(&self) {
        self.spoiled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        Counts {
            allocations: self.allocations.load(Ordering::Relaxed),
            synchronisations: self.synchronisations.load(Ordering::Relaxed),
            launches: self.launches.load(Ordering::Relaxed),
            replays: self.replays.load(Ordering::Relaxed),
            spoiled: self.spoiled.load(Ordering::Relaxed),
        }
    }
}
