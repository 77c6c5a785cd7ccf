//! Amount of work of a phase on a rank, in the units of machine rates.

use crate::schedule::{Cost, PhaseId, Schedule, Work};
use crate::volume::{BatchSizes, Quantity, Volume};

/// Amount of work of a computation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Number of floating-point operations.
    pub flops: f64,
    /// Bytes of memory that the computation must touch; for a block of the network, the bytes that its layers read and
    /// write.
    pub bytes: f64,
    /// Number of items: ids of a lookup or an update, samples of a loss, numbers in the samples that are read.
    pub items: f64,
}

impl Amount {
    /// Amount that a phase of `schedule` computes on `rank`; nothing for a collective.
    pub fn of(schedule: &Schedule, id: PhaseId, sizes: &BatchSizes, rank: usize) -> Self {
        let phase = &schedule.phases()[id.0];
        let Work::Compute(operation) = &phase.work else { return Self::default() };
        let described = schedule.describe(operation);
        let bind = |volume: &Volume| volume.bind(schedule.deployment(), sizes, rank) as f64;
        let Cost { flops, memory } = &phase.cost;
        // Of a block of which a part is frozen, layers read and write so much less.
        let (left, whole) = (bind(flops), bind(&described.cost.flops));
        let bytes = described.bytes.as_ref().map_or(bind(memory), |bytes| match whole > 0.0 {
            true => bind(bytes) * (left / whole),
            false => bind(bytes),
        });
        Self { flops: left, bytes, items: bind(&described.items) }
    }

    /// Amount that is read for the samples of `rank`.
    pub fn read_ahead(schedule: &Schedule, sizes: &BatchSizes, rank: usize) -> Self {
        let ids = Volume::of(1, Quantity::Ids).bind(schedule.deployment(), sizes, rank);
        let dense = sizes.samples[rank] * schedule.model().dense_features() as u64;
        Self { items: (ids + dense) as f64, ..Self::default() }
    }
}
