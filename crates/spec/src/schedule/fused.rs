//! Phases that are carried out as one: the lookup with the dot products of its vectors, and the gradients of the dot products with the
//! update of the tables. Vectors are then read where they lie, and need not be written out.

use super::build::Build;
use super::*;
use crate::model::{BlockSource, Layers};

/// The block of dot products that can be fused with the lookup: all its vectors come from tables of the only rank, but for the one that
/// the leading block gives, and no other block reads either.
pub(super) fn dot_of(deployment: &Deployment) -> Option<BlockName> {
    let (network, placement) = (deployment.model.network(), &deployment.placement);
    let flat = matches!(deployment.dataflow, Dataflow::Flat(_));
    let ranks = placement.topology().ranks();
    if !flat || ranks != 1 || deployment.sums() {
        return None;
    }
    let everywhere = !placement.replicated().is_empty() || !placement.copied_by(0).is_empty();
    let leading = network.leading()?;
    let mut readers = network.readers(BlockSource::Features);
    let (dot, others) = (readers.next()?, readers.next());
    let Layers::Dot { vectors, dim } = dot.layers else { return None };
    let held = placement.sent_by(0, ranks);
    let alike = held.len() + 1 == vectors && held.iter().all(|shard| shard.columns.len() == dim);
    let read_once = others.is_none()
        && network.reads_whole(dot)
        && network.readers(BlockSource::Output(leading.name)).next().is_none()
        && leading.layers.output_width() == dim;
    let (count_fits, dim_fits) = (vectors <= 32, dim % 16 == 0 && (16..=256).contains(&dim));
    (!everywhere && alike && read_once && count_fits && dim_fits).then_some(dot.name)
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
        let leading = self.deployment.model.network().leading();
        let mut writes = vec![Slot::Tables];
        writes.extend(leading.map(|block| Slot::Gradient(block.name)));
        self.compute(Operation::DotUpdate(block), &reads, &writes);
    }

    fn ids_and_tables(&self) -> Vec<Slot> {
        let mut reads = vec![Slot::Ids, Slot::Index, Slot::Tables];
        reads.extend(self.weighted().then_some(Slot::Weights));
        reads
    }

    fn leading_output(&self) -> Option<Slot> {
        self.deployment.model.network().leading().map(|block| Slot::Output(block.name))
    }
}
