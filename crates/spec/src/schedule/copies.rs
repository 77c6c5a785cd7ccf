//! The steps of data-parallel tables: each copy sums the gradients of its samples by row, the sums are added up over the copies,
//! and every copy updates each touched row once.
//!
//! ```text
//! ahead   find rows     row counts exchange
//! sum rows   reduce rows (dense)   or   touched rows exchange and row sums exchange (by rows)   update copies
//! ```
//!
//! Sums are added in the order of the copies either way, so both give the same bits. They travel in f32.

use super::build::{Build, exchange, phase};
use super::*;
use crate::placement::Shard;
use crate::volume::{CopyItem, ReducedVector};

/// How the sums of gradients by row are added up over the copies of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyReduction {
    /// A vector with the sum of every row, and for each row how many copies touched it, is reduced.
    Dense,
    /// Every copy gets the numbers and the sums of the rows that the others touched.
    Rows,
}

/// Table with copies, and how the sums of their gradients are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedTable {
    /// Index of the feature.
    pub feature: usize,
    /// Reduction of the sums of gradients by row.
    pub reduction: CopyReduction,
}

impl CopyReduction {
    /// Name of the reduction.
    pub fn name(self) -> &'static str {
        match self {
            CopyReduction::Dense => "dense",
            CopyReduction::Rows => "by rows",
        }
    }
}

impl CopiedTable {
    /// Tables of rows with copies in a deployment, by feature, each with the reduction that sends fewer bytes in a typical global batch
    /// of `batch` samples; by rows where both send as many.
    pub fn list(deployment: &Deployment, batch: usize) -> Vec<Self> {
        let Deployment { model, placement, .. } = deployment;
        let with_rows = || placement.copied().filter(|shard| !shard.is_tensor_train());
        if with_rows().next().is_none() {
            return Vec::new();
        }
        let sizes = BatchSizes::typical(model, placement, batch);
        let of = |shard: &Shard| {
            let (ranks, width) = (shard.holders.ranks(), shard.columns.len() as f64);
            let touched = ranks.iter().map(|&rank| sizes.touched_in(rank, shard)).max().unwrap_or(0) as f64;
            let others = ranks.len() as f64 - 1.0;
            // A number and a sum for each row go to every other copy, behind the count of rows.
            let by_rows = others * 4.0 * (1.0 + touched * (1.0 + width));
            // Sums are made of one share of the vector of every other copy, then shared out.
            let dense = 2.0 * others / ranks.len() as f64 * 4.0 * shard.rows.len() as f64 * (width + 1.0);
            let reduction = if by_rows <= dense { CopyReduction::Rows } else { CopyReduction::Dense };
            Self { feature: shard.feature, reduction }
        };
        with_rows().map(of).collect()
    }
}

/// Features of the tables that are reduced in one way.
pub(super) fn of_reduction(copies: &[CopiedTable], reduction: CopyReduction) -> Vec<usize> {
    copies.iter().filter(|table| table.reduction == reduction).map(|table| table.feature).collect()
}

impl Build<'_> {
    /// Whether there are tables with copies that serve some samples only.
    pub fn copied(&self) -> bool {
        self.deployment.placement.copied().next().is_some()
    }

    fn copies_reduced(&self, reduction: CopyReduction) -> Vec<usize> {
        of_reduction(&self.copies, reduction)
    }

    /// Ranks that hold copies of the same tables.
    fn copy_group(&self) -> Group {
        if self.deployment.dataflow.sptt().is_some() { Group::Tower } else { Group::World }
    }

    fn gather(&self, name: &str, item: CopyItem, features: Vec<usize>, from: &[Slot], to: Slot) -> Phase {
        let traffic = Traffic::ToCopies { item, features };
        let (kind, group) = (CollectiveKind::AllGather, self.copy_group());
        let mut phase = exchange(name, kind, group, traffic, from[0], to);
        phase.reads.extend(&from[1..]);
        phase
    }

    /// Finds the rows that the next batch touches in the copies held here, and says how many there are.
    pub fn find_rows_ahead(&mut self) {
        if !self.copied() {
            return;
        }
        let find = self.computation(Operation::FindRows, &[Slot::Sorted], &[Slot::TouchedRows]);
        self.push_ahead(find);
        let by_rows = self.copies_reduced(CopyReduction::Rows);
        if !by_rows.is_empty() {
            let from = [Slot::TouchedRows];
            let counts = self.gather("row counts exchange", CopyItem::Count, by_rows, &from, Slot::RowCounts);
            self.push_ahead(counts);
        }
    }

    /// Sums the gradients of the samples that a copy serves by row, and sets the sums out.
    pub fn sum_copies(&mut self) {
        if self.copies.is_empty() {
            return;
        }
        let (dense, by_rows) =
            (self.copies_reduced(CopyReduction::Dense), self.copies_reduced(CopyReduction::Rows));
        let mut reads = vec![Slot::CopyGradient, Slot::TouchedRows, Slot::Sorted, Slot::Index];
        reads.extend((!by_rows.is_empty()).then_some(Slot::RowCounts));
        reads.extend(self.weighted().then_some(Slot::Weights));
        let mut writes = Vec::new();
        writes.extend((!dense.is_empty()).then_some(Slot::RowVector));
        writes.extend((!by_rows.is_empty()).then_some(Slot::RowSums));
        self.compute(Operation::SumRows(self.copies.clone()), &reads, &writes);
        if !dense.is_empty() {
            let slot = [Slot::RowVector];
            let traffic = self.row_vectors(&dense);
            let collective = Collective::new(CollectiveKind::AllReduce, self.copy_group(), traffic);
            self.push(phase("reduce rows", Work::Collective(collective), Lane::Gradients, &slot, &slot));
        }
        if !by_rows.is_empty() {
            // How many rows come from each copy is known once sums are laid out.
            let from = [Slot::TouchedRows, Slot::RowSums];
            let item = CopyItem::Row;
            self.push(self.gather("touched rows exchange", item, by_rows.clone(), &from, Slot::CopyRows));
            let from = [Slot::RowSums];
            self.push(self.gather("row sums exchange", CopyItem::Sum, by_rows, &from, Slot::CopySums));
        }
    }

    /// Updates every row that any copy touched.
    pub fn update_copies(&mut self) {
        if self.copies.is_empty() {
            return;
        }
        let mut reads = vec![Slot::Tables];
        if !self.copies_reduced(CopyReduction::Dense).is_empty() {
            reads.push(Slot::RowVector);
        }
        if !self.copies_reduced(CopyReduction::Rows).is_empty() {
            reads.extend([Slot::CopyRows, Slot::CopySums]);
        }
        self.compute(Operation::UpdateCopies(self.copies.clone()), &reads, &[Slot::Tables]);
    }

    /// A reduction, in f32, of the vectors of the tables that are reduced densely.
    fn row_vectors(&self, dense: &[usize]) -> Traffic {
        let Deployment { placement, dataflow, .. } = self.deployment;
        let vector = |rank: usize| {
            let copies = placement.copied_by(rank).iter().filter(|shard| dense.contains(&shard.feature));
            ReducedVector::whole(copies.map(|shard| shard.rows.len() * (shard.columns.len() + 1)).sum())
        };
        match dataflow.sptt().map(|sptt| sptt.groups()) {
            None => Traffic::AllReduce { elements: vector(0), codec: Codec::F32 },
            Some(groups) => {
                let elements = (0..groups.count()).map(|group| vector(groups.rank(group, 0))).collect();
                Traffic::GroupAllReduce { elements, codec: Codec::F32 }
            }
        }
    }
}
