//! Phases that are carried out as one, where no vector leaves its rank.
//!
//! The lookup is fused with the dot products of its vectors, and the gradients of the dot products with the update of the tables:
//! vectors are then read where they lie, and need not be written out. Whatever else reads the vectors has them looked up in place,
//! where it reads them, and tables are updated from where it leaves the gradients: vectors and gradients are then written once.

use super::build::Build;
use super::*;
use crate::model::{BlockSource, Layers};

/// What the lookup and the update of the tables are fused with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fused {
    /// With nothing: vectors are exchanged, and brought into order.
    Nothing,
    /// With this block of dot products.
    Dot(BlockName),
    /// With the order of the vectors.
    InPlace,
}

impl Fused {
    /// What a step of a deployment fuses, of what its options allow.
    pub(super) fn new(deployment: &Deployment, options: StepOptions) -> Self {
        let StepOptions { fuse_pairs, in_place, .. } = options;
        // Fused dot products read rows of f32.
        let model = &deployment.model;
        let rounded = (0..model.features().len()).any(|feature| model.table_format(feature).rounds());
        let dot = if fuse_pairs && !rounded { dot_of(deployment) } else { None };
        match dot {
            Some(dot) => Self::Dot(dot),
            None if in_place && stays_in_place(deployment) => Self::InPlace,
            None => Self::Nothing,
        }
    }
}

/// Whether every vector of a sample comes from a table of the only rank.
fn stays(deployment: &Deployment) -> bool {
    let placement = &deployment.placement;
    let flat = matches!(deployment.dataflow, Dataflow::Flat(_));
    let everywhere = !placement.replicated().is_empty() || !placement.copied_by(0).is_empty();
    flat && placement.topology().ranks() == 1 && !deployment.sums() && !everywhere
}

/// Whether vectors can be looked up where the network reads them: each is the result of one lookup, and a wire would leave it and
/// its gradient as they are.
fn stays_in_place(deployment: &Deployment) -> bool {
    let encoded = [Leg::Pooled, Leg::Gradient].iter().any(|&leg| deployment.wire.of(leg).encodes());
    let whole = || deployment.placement.held_by(0).iter().all(|shard| shard.row_pieces() == 1);
    stays(deployment) && !encoded && whole()
}

/// The block of dot products that can be fused with the lookup: all its vectors come from tables of the only rank, but for the one that
/// the leading block gives, and no other block reads either.
fn dot_of(deployment: &Deployment) -> Option<BlockName> {
    let (network, placement) = (deployment.model.network(), &deployment.placement);
    if !stays(deployment) {
        return None;
    }
    let leading = network.leading()?;
    let mut readers = network.readers(BlockSource::Features);
    let (dot, others) = (readers.next()?, readers.next());
    let Layers::Dot { vectors, dim } = dot.layers else { return None };
    let held = placement.sent_by(0, 1);
    let alike = held.len() + 1 == vectors && held.iter().all(|shard| shard.columns.len() == dim);
    let read_once = others.is_none()
        && network.reads_whole(dot)
        && network.readers(BlockSource::Output(leading.name)).next().is_none()
        && leading.layers.output_width() == dim;
    let (count_fits, dim_fits) = (vectors <= 32, dim % 16 == 0 && (16..=256).contains(&dim));
    (alike && read_once && count_fits && dim_fits).then_some(dot.name)
}

impl Build<'_> {
    /// The lookup, fused with the dot products of its vectors.
    pub(super) fn lookup_dot(&mut self, block: BlockName) {
        let mut reads = self.ids_and_tables();
        reads.extend(self.leading_output());
        self.compute(Operation::LookupDot(block), &reads, &[Slot::Output(block)]);
    }

    /// The gradients of the dot products, fused with the update of the tables.
    pub(super) fn dot_update(&mut self, block: BlockName) {
        let mut reads = vec![Slot::Gradient(block), Slot::Sorted];
        reads.extend(self.ids_and_tables());
        reads.extend(self.leading_output());
        let mut writes = vec![Slot::Tables];
        writes.extend(self.leading_gradient());
        self.compute(Operation::DotUpdate(block), &reads, &writes);
    }

    /// The lookup, where the network reads the vectors, behind the output of the leading block.
    pub(super) fn lookup_in_place(&mut self) {
        let mut reads = self.ids_and_tables();
        reads.extend(self.leading_output());
        self.compute(Operation::LookupInPlace, &reads, &[Slot::Features]);
    }

    /// The update of the tables, from where the network left the gradients of the vectors.
    pub(super) fn update_in_place(&mut self) {
        let reads = self.sorted_and_tables(&self.features_gradients());
        let mut writes = vec![Slot::Tables];
        writes.extend(self.leading_gradient());
        self.compute(Operation::UpdateInPlace, &reads, &writes);
    }
}
