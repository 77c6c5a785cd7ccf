//! How much a phase computes on a rank, in the terms that rates are measured in.

use crate::model::BlockName;
use crate::schedule::{Operation, PhaseId, Schedule, Work};
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

/// Bytes of a float.
const FLOAT: f64 = 4.0;

impl Amount {
    /// Of a phase of `schedule` on `rank`; nothing for a collective.
    pub fn of(schedule: &Schedule, id: PhaseId, sizes: &BatchSizes, rank: usize) -> Self {
        let Work::Compute(operation) = &schedule.phases()[id.0].work else { return Self::default() };
        let samples = sizes.samples[rank] as f64;
        let network = schedule.model().network();
        let bytes = match operation {
            Operation::Forward(block) if *block != BlockName::TOWERS => {
                let layers = &network.block(*block).layers;
                FLOAT * samples * layers.floats_touched(0..layers.count()) as f64
            }
            Operation::Backward(block, layers) if *block != BlockName::TOWERS => {
                FLOAT * samples * network.block(*block).layers.floats_touched(layers.clone()) as f64
            }
            _ => schedule.memory(id, sizes, rank) as f64,
        };
        let items = match operation {
            Operation::Lookup | Operation::UpdateTables => {
                Volume::of(1, Quantity::HeldIds).bind(schedule.deployment(), sizes, rank) as f64
            }
            _ => samples,
        };
        Self { flops: schedule.flops(id, sizes, rank) as f64, bytes, items }
    }

    /// Of what is read for `rank`'s samples.
    pub fn read_ahead(schedule: &Schedule, sizes: &BatchSizes, rank: usize) -> Self {
        let ids = Volume::of(1, Quantity::Ids).bind(schedule.deployment(), sizes, rank);
        let dense = sizes.samples[rank] * schedule.model().dense_features() as u64;
        Self { items: (ids + dense) as f64, ..Self::default() }
    }
}
