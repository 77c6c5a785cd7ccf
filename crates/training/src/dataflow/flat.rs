//! The flat dataflow: pooled vectors go from holders straight to the ranks that have the samples, over the world.
//!
//! Rows of a send buffer are samples in global order, so that the part for one rank is contiguous, and the gradient
//! that comes back has rows in global sample order. Partial sums of tables cut by rows are added where the samples are, in
//! the order of their holders.

use super::exchange::Exchange;
use super::input::Input;
use super::order::Order;
use super::tables::columns;
use super::{Step, merge, reversed};
use crate::Error;
use kernels::{Buffer, ColumnCopy, Device, Table};
use spec::model::Model;
use spec::placement::{Placement, Shard, width};

/// What one rank exchanges.
#[derive(Debug)]
pub struct Flat {
    rank: usize,
    owned: usize,
    lookup_columns: Vec<usize>,
    update_columns: Vec<usize>,
    /// Width of what each rank owns, and of what it holds.
    widths: Vec<(usize, usize)>,
    replicated_width: usize,
    /// Columns of each source's pooled vectors in feature order: those that are set, and those that are added to others;
    /// the gradient's of each destination.
    arriving: Vec<Vec<ColumnCopy>>,
    adding: Vec<Vec<ColumnCopy>>,
    leaving: Vec<Vec<ColumnCopy>>,
    replicated: Vec<ColumnCopy>,
    order: Order,
    /// Pooled vectors.
    pub pooled: Exchange<f32>,
    own_pooled: Buffer<f32>,
    /// Their gradients.
    pub gradients: Exchange<f32>,
}

impl Flat {
    /// Of `rank`.
    pub fn new(model: &Model, placement: &Placement, rank: usize) -> Self {
        let ranks = placement.topology().ranks();
        let held = placement.held_by(rank);
        let owned = placement.owned_by(rank).len();
        let into_order = |shards: &[Shard], which: &dyn Fn(&Shard) -> bool| {
            let copies = shards.iter().zip(columns(shards)).filter(|(shard, _)| which(shard));
            let copy = |(s, from): (&Shard, usize)| {
                let to = model.place(s.feature, s.columns.start);
                ColumnCopy { from, to, width: s.columns.len() }
            };
            merge(copies.map(copy).collect())
        };
        // The first piece of a table's rows sets its columns, the others are added.
        let first = |shard: &Shard| shard.piece() == 0;
        let owned_columns = columns(&held[..owned]);
        Self {
            rank,
            owned,
            lookup_columns: owned_columns.into_iter().chain(columns(placement.replicated())).collect(),
            update_columns: columns(held),
            widths: (0..ranks).map(|r| (width(placement.owned_by(r)), width(placement.held_by(r)))).collect(),
            replicated_width: width(placement.replicated()),
            arriving: (0..ranks).map(|r| into_order(placement.owned_by(r), &first)).collect(),
            adding: (0..ranks).map(|r| into_order(placement.owned_by(r), &|s| !first(s))).collect(),
            leaving: (0..ranks).map(|r| reversed(into_order(placement.held_by(r), &|_| true))).collect(),
            replicated: into_order(placement.replicated(), &|_| true),
            order: Order::new(model),
            pooled: Exchange::new(ranks),
            own_pooled: Buffer::empty(),
            gradients: Exchange::new(ranks),
        }
    }

    /// Looks up the world's samples in the tables owned here, and this rank's in the replicated ones.
    pub fn lookup(&mut self, device: &Device, tables: &[Table], input: &Input) -> Result<(), Error> {
        let (owned_width, _) = self.widths[self.rank];
        let weights = input.weights();
        let (index, values) = (&input.index, &input.ids.recv);
        self.pooled.send.resize(input.world_rows() * owned_width)?;
        device.lookup(
            tables,
            0..self.owned,
            &self.lookup_columns,
            owned_width,
            index,
            0..input.world_rows(),
            values,
            weights,
            &mut self.pooled.send,
        )?;
        self.own_pooled.resize(input.rows() * self.replicated_width)?;
        device.lookup(
            tables,
            self.owned..tables.len(),
            &self.lookup_columns,
            self.replicated_width,
            index,
            input.own(),
            values,
            weights,
            &mut self.own_pooled,
        )?;
        for (rank, samples) in input.samples.iter().enumerate() {
            self.pooled.to[rank] = samples.len() * owned_width;
            self.pooled.from[rank] = input.rows() * self.widths[rank].0;
        }
        Ok(())
    }

    /// Brings all vectors of this rank's samples into feature order.
    pub fn restore_order(
        &self,
        device: &Device,
        rows: usize,
        dense: Option<&Buffer<f32>>,
        features: &mut Buffer<f32>,
    ) -> Result<(), Error> {
        self.order.begin(device, rows, dense, features)?;
        let to_width = self.order.width;
        let mut at = 0;
        for ((copies, sums), (from_width, _)) in self.arriving.iter().zip(&self.adding).zip(&self.widths) {
            let (from, width) = (&self.pooled.recv, *from_width);
            device.copy_columns(rows, copies, from, at, width, features, 0, to_width)?;
            device.add_columns(rows, sums, from, at, width, features, 0, to_width)?;
            at += rows * width;
        }
        let from_width = self.replicated_width;
        device.copy_columns(
            rows,
            &self.replicated,
            &self.own_pooled,
            0,
            from_width,
            features,
            0,
            to_width,
        )?;
        Ok(())
    }

    /// Lays out the gradients of this rank's vectors by holder, and the dense vector's apart.
    pub fn split_gradients(
        &mut self,
        device: &Device,
        input: &Input,
        dfeatures: &Buffer<f32>,
        ddense: &mut Buffer<f32>,
    ) -> Result<(), Error> {
        let rows = input.rows();
        self.order.take_dense(device, rows, dfeatures, ddense)?;
        let from_width = self.order.width;
        let (_, held_here) = self.widths[self.rank];
        for (rank, samples) in input.samples.iter().enumerate() {
            self.gradients.to[rank] = rows * self.widths[rank].1;
            self.gradients.from[rank] = samples.len() * held_here;
        }
        let send = &mut self.gradients.send;
        send.resize(self.gradients.to.iter().sum())?;
        let mut at = 0;
        for (copies, (_, to_width)) in self.leaving.iter().zip(&self.widths) {
            device.copy_columns(rows, copies, dfeatures, 0, from_width, send, at, *to_width)?;
            at += rows * to_width;
        }
        Ok(())
    }

    /// Backward of the lookup, fused with the optimizer.
    pub fn update(
        &self,
        device: &Device,
        tables: &mut [Table],
        input: &Input,
        step: &Step,
    ) -> Result<(), Error> {
        let (_, held) = self.widths[self.rank];
        let which = 0..tables.len();
        step.update(device, tables, which, &self.update_columns, held, input, &self.gradients.recv)
    }
}
