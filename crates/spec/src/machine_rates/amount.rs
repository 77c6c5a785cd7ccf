//! How much a phase computes on a rank, in the terms that rates are measured in.

use crate::schedule::{Cost, PhaseId, Schedule, Work};
use crate::volume::{BatchSizes, Quantity, Volume};

/// What a computation has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes of memory it must touch; in a block of the network, those of what its layers read and give.
    pub bytes: f64,
    /// Ids of a lookup or an update, samples of a loss, numbers of the samples that are read.
    pub items: f64,
}

impl Amount {
    /// Amount that a phase of `schedule` computes on `rank`; nothing for a collective.
    pub fn of(schedule: &Schedule, id: PhaseId, sizes: &BatchSizes, rank: usize) -> Self {
        let Work::Compute(operation) = &schedule.phases()[id.0].work else { return Self::default() };
        let described = schedule.describe(operation);
        let bind = |volume: &Volume| volume.bind(schedule.deployment(), sizes, rank) as f64;
        let Cost { flops, memory } = &described.cost;
        let bytes = described.bytes.as_ref().unwrap_or(memory);
        Self { flops: bind(flops), bytes: bind(bytes), items: bind(&described.items) }
    }

    /// Amount that is read for the samples of `rank`.
    pub fn read_ahead(schedule: &Schedule, sizes: &BatchSizes, rank: usize) -> Self {
        let ids = Volume::of(1, Quantity::Ids).bind(schedule.deployment(), sizes, rank);
        let dense = sizes.samples[rank] * schedule.model().dense_features() as u64;
        Self { items: (ids + dense) as f64, ..Self::default() }
    }
}
