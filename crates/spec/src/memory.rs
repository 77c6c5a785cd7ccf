//! Memory that the activations and the vectors of a rank take, buffer by buffer.
//!
//! This is the only estimate of them: the trainer adds what the allocator, stacks and its own tables take, a simulation what
//! parameters and optimizers take.
//!
//! ```
//! use spec::dataflow::{AllToAll, Dataflow, Deployment};
//! use spec::memory::{Buffers, Rounding};
//! use spec::placement::{Layout, Placement};
//! use spec::presets::{ModelKind, Preset};
//! use spec::{program::Algorithm, topology::Topology, wire::Wire};
//! let model = Preset::Demo.model(ModelKind::Dcn, None, None).unwrap();
//! let layouts: Vec<Layout> = (0..26).map(|table| Layout::TableWise { rank: table % 2 }).collect();
//! let placement = Placement::of_layouts(&model, Topology::new(1, 2).unwrap(), &layouts).unwrap();
//! let dataflow = Dataflow::Flat(AllToAll::Flat);
//! let (wire, all_reduce) = (Wire::default(), Algorithm::Direct);
//! let deployment = Deployment { model, placement, dataflow, wire, all_reduce, emulation: None, cached: None };
//! let bytes = |batch, trains| Buffers::new(&deployment, batch, trains, Rounding::NONE).activations(0);
//! assert_eq!(bytes(128, true), 2.0 * bytes(64, true));
//! assert!(bytes(64, false) < bytes(64, true));
//! ```

mod copies;
mod vectors;

use crate::dataflow::{AllToAll, Dataflow, Deployment, Sptt};
use crate::model::{Block, Layers, TowerModule};
use crate::placement::{share, width};
use crate::schedule::{CopiedTable, Schedule};
use crate::topology::Groups;

/// Bytes of memory that a buffer takes, given the bytes that it holds.
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    /// Bytes of a buffer that grew to its size.
    pub grown: fn(f64) -> f64,
    /// Bytes of a buffer that was made for its size.
    pub exact: fn(f64) -> f64,
}

/// Buffers of activations and vectors on the ranks of a deployment. Sizes are counted in floating point, so that none is too
/// large to be counted, whatever a config says.
pub struct Buffers<'a> {
    deployment: &'a Deployment,
    trains: bool,
    batch: usize,
    rounding: Rounding,
    /// Columns that all ranks send in the flat dataflow, added up.
    owned: f64,
    /// Columns whose gradients all ranks get in the flat dataflow, added up.
    held: f64,
    /// Samples of the ranks of each index, where there are tower groups.
    peer_samples: Vec<usize>,
    /// Columns that leave all tower groups, added up.
    leaving: f64,
    /// Data-parallel tables.
    copies: Vec<CopiedTable>,
    /// Whether vectors are looked up where the network reads them.
    in_place: bool,
}

impl Rounding {
    /// A buffer takes as many bytes as it holds.
    pub const NONE: Self = Self { grown: |bytes| bytes, exact: |bytes| bytes };
}

impl<'a> Buffers<'a> {
    /// Buffers for a global batch of `batch` samples, with those of the backward pass if the deployment `trains`.
    pub fn new(deployment: &'a Deployment, batch: usize, trains: bool, rounding: Rounding) -> Self {
        let placement = &deployment.placement;
        let ranks = placement.topology().ranks();
        let all = |of: &dyn Fn(usize) -> usize| (0..ranks).map(|rank| of(rank) as f64).sum::<f64>();
        let samples_of = |rank| share(batch, ranks, rank).len();
        let of_index = |groups: Groups, index: usize| groups.peers(index).map(samples_of).sum();
        let sptt = deployment.dataflow.sptt();
        Self {
            deployment,
            trains,
            batch,
            rounding,
            owned: all(&|rank| width(deployment.sent_by(rank))),
            held: all(&|rank| width(placement.updated_by_samples(rank, deployment.members()))),
            peer_samples: sptt.map_or(Vec::new(), |sptt| {
                let groups = sptt.groups();
                (0..groups.size()).map(|index| of_index(groups, index)).collect()
            }),
            copies: CopiedTable::list(deployment, batch),
            in_place: false,
            leaving: sptt.map_or(0.0, |sptt| {
                (0..sptt.groups().count()).map(|group| sptt.plan(group).output_width() as f64).sum()
            }),
        }
    }

    /// Buffers of a schedule: as [`new`](Self::new), without those of vectors that are looked up in place.
    pub fn of_schedule(schedule: &'a Schedule, batch: usize, trains: bool, rounding: Rounding) -> Self {
        let in_place = schedule.looks_up_in_place();
        Self { in_place, ..Self::new(schedule.deployment(), batch, trains, rounding) }
    }

    /// Samples of `rank` in a batch.
    pub fn samples(&self, rank: usize) -> usize {
        share(self.batch, self.deployment.placement.topology().ranks(), rank).len()
    }

    /// Samples of `rank` and its peers; 0 where there are no tower groups.
    pub fn peer_samples(&self, rank: usize) -> usize {
        self.sptt().map_or(0, |sptt| self.peer_samples[sptt.groups().index_of(rank)])
    }

    /// Number and size of the groups of ranks in which vectors are exchanged; `None` if they are exchanged directly.
    pub fn groups(&self) -> Option<(usize, usize)> {
        let groups = match &self.deployment.dataflow {
            Dataflow::Flat(AllToAll::Flat) => return None,
            Dataflow::Flat(AllToAll::Hierarchical) => Groups::of_hosts(self.deployment.placement.topology()),
            Dataflow::Sptt(sptt) => sptt.groups(),
        };
        Some((groups.count(), groups.size()))
    }

    /// Bytes of the outputs that the layers of the network and of tower modules keep on `rank`, and of their gradients.
    pub fn activations(&self, rank: usize) -> f64 {
        self.network(self.samples(rank)) + self.towers(rank)
    }

    /// Outputs of the network's blocks for so many samples, and their gradients.
    fn network(&self, samples: usize) -> f64 {
        let network = self.deployment.model.network();
        let of = |width: usize| self.floats(samples as f64 * width as f64);
        let (mut forward, mut backward) = (
            of(network.features_width()) + 4.0 * of(self.deployment.model.outputs()),
            of(network.features_width()),
        );
        for block in network.blocks() {
            let (kept, back) = of_block(block, &of);
            // What is read of several buffers is joined in one.
            let joined = if network.reads_whole(block) { 0.0 } else { of(block.layers.input_width()) };
            forward += kept + joined;
            backward += back;
        }
        if self.trains { forward + backward } else { forward }
    }

    fn towers(&self, rank: usize) -> f64 {
        let Some(sptt) = self.sptt() else { return 0.0 };
        let peers = self.peer_samples(rank) as f64;
        let towers = &sptt.plan(sptt.groups().group_of(rank)).towers;
        towers.iter().map(|&tower| self.tower(tower, peers)).sum()
    }

    /// What a tower module sees, keeps and gives, and the gradients of all.
    fn tower(&self, tower: usize, samples: f64) -> f64 {
        let tower = &self.deployment.model.towers()[tower];
        let of = |width: usize| self.floats(samples * width as f64);
        let (input, output) = (of(tower.input_width()), of(tower.output_width()));
        let (kept, back) = match &tower.module {
            TowerModule::PassThrough => (0.0, 0.0),
            TowerModule::Projection { each, .. } if each.len() < 2 => (0.0, 0.0),
            // The members of a width lie side by side as they are mapped.
            TowerModule::Projection { each, .. } => {
                let inputs = of(each.iter().map(|map| tower.members_of(map) * map.inputs).max().unwrap_or(0));
                let outputs = each.iter().map(|map| tower.members_of(map) * map.outputs).max();
                (inputs + of(outputs.unwrap_or(0)), inputs)
            }
            TowerModule::Cross { layer, .. } => {
                let inner = of(layer.v.as_ref().map_or(0, |v| v.outputs));
                (inner + 2.0 * input, inner + 3.0 * input)
            }
        };
        input + output + kept + if self.trains { input + output + back } else { 0.0 }
    }

    fn sptt(&self) -> Option<&'a Sptt> {
        self.deployment.dataflow.sptt()
    }

    /// Bytes of a buffer that grew to `elements` floats.
    fn floats(&self, elements: f64) -> f64 {
        (self.rounding.grown)(4.0 * elements)
    }
}

/// What a block keeps of the forward pass, and what the backward pass needs besides; `of` gives the bytes of so many columns.
fn of_block(block: &Block, of: &dyn Fn(usize) -> f64) -> (f64, f64) {
    // What only products read may be stored in two parts of bf16, padded to 32 columns: more than f32 where layers are narrow.
    let hidden = |width: usize| of(width.next_multiple_of(32));
    match &block.layers {
        Layers::Mlp(layers) => {
            let last = layers.last().map_or(0.0, |layer| of(layer.outputs));
            let below_last = &layers[..layers.len().saturating_sub(1)];
            let outputs = below_last.iter().map(|layer| hidden(layer.outputs)).sum::<f64>() + last;
            // Each output has a gradient; the input has one if something below needs it.
            let below = layers.first().filter(|layer| layer.input_gradient);
            (outputs, outputs + below.map_or(0.0, |layer| of(layer.inputs)))
        }
        Layers::Dot { .. } => (of(block.layers.output_width()), 0.0),
        Layers::Cross { width, layers } => {
            let inner = layers.iter().map(|layer| layer.v.as_ref().map_or(0, |v| v.outputs));
            let kept = inner.clone().map(|inner| hidden(inner) + 2.0 * of(*width)).sum::<f64>();
            (kept, of(*width) + hidden(*width) + hidden(inner.max().unwrap_or(0)))
        }
        Layers::Fm { .. } => (of(1), of(1)),
        Layers::Project(_) => {
            // One vector lies apart as it is mapped.
            let maps = block.layers.maps();
            let inputs = of(maps.iter().map(|map| map.inputs).max().unwrap_or(0));
            let output = of(block.layers.output_width());
            (output + inputs + of(maps.first().map_or(0, |map| map.outputs)), output + inputs)
        }
        Layers::Sum { width } => (0.0, of(*width)),
    }
}

#[cfg(test)]
mod tests;
