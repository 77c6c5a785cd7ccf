//! How much a phase computes on a rank, in the terms that rates are measured in.

use crate::model::{Block, CrossLayer, Interaction, LinearLayer, Network};
use crate::schedule::{Cost, PhaseId, Schedule, Work};
use crate::volume::{BatchSizes, Quantity, Volume};
use std::ops::Range;

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

    /// Of what is read for `rank`'s samples.
    pub fn read_ahead(schedule: &Schedule, sizes: &BatchSizes, rank: usize) -> Self {
        let ids = Volume::of(1, Quantity::Ids).bind(schedule.deployment(), sizes, rank);
        let dense = sizes.samples[rank] * schedule.model().dense_features() as u64;
        Self { items: (ids + dense) as f64, ..Self::default() }
    }
}

/// Floats that layers of a block read and give for a sample.
pub(crate) fn floats(network: &Network, block: Block, layers: Range<usize>) -> u64 {
    let linear = |layer: &LinearLayer| layer.inputs + layer.outputs;
    // Beside its maps, a cross layer reads what it began with and adds its input.
    let cross =
        |layer: &CrossLayer| layer.v.as_ref().map_or(0, linear) + linear(&layer.w) + 2 * layer.w.outputs;
    let floats: usize = match (block, &network.interaction) {
        (Block::Bottom, _) => network.bottom[layers].iter().map(linear).sum(),
        (Block::Top, _) => network.top[layers].iter().map(linear).sum(),
        (Block::Interaction, Interaction::Cross { layers: all, .. }) => all[layers].iter().map(cross).sum(),
        (Block::Interaction, dot) => dot.input_width() + dot.output_width(),
        (Block::Towers, _) => 0,
    };
    floats as u64
}
