//! The flat dataflow: pooled vectors go from holders straight to the ranks that have the samples, over the world.
//!
//! Rows of a send buffer are samples in global order, so that the part for one rank is contiguous, and the gradient
//! that comes back has rows in global sample order.

use super::input::{Exchange, Input};
use crate::Error;
use kernels::{Buffer, ColumnCopy, Device, Table};
use spec::model::Model;
use spec::optimizer::UpdateRule;
use spec::placement::{Placement, Shard, width};
use spec::random::Stream;

/// What one rank holds and exchanges.
#[derive(Debug)]
pub struct Flat {
    rank: usize,
    /// Tables held here: owned ones, then replicated ones.
    pub tables: Vec<Table>,
    owned: usize,
    lookup_columns: Vec<usize>,
    update_columns: Vec<usize>,
    /// Width of what each rank owns, and of what it holds.
    widths: Vec<(usize, usize)>,
    replicated_width: usize,
    /// Columns of each source's pooled vectors in feature order; the gradient's of each destination.
    arriving: Vec<Vec<ColumnCopy>>,
    leaving: Vec<Vec<ColumnCopy>>,
    replicated: Vec<ColumnCopy>,
    dense: Option<ColumnCopy>,
    features_width: usize,
    /// Pooled vectors.
    pub pooled: Exchange<f32>,
    own_pooled: Buffer<f32>,
    /// Their gradients.
    pub gradients: Exchange<f32>,
}

impl Flat {
    /// Allocates and initialises the tables that `rank` holds.
    pub fn new(
        device: &Device,
        model: &Model,
        placement: &Placement,
        rank: usize,
        rule: &UpdateRule,
        seed: u64,
    ) -> Result<Self, Error> {
        let ranks = placement.topology().ranks();
        let held = placement.held_by(rank);
        let owned = placement.owned_by(rank).len();
        let mut tables = Vec::with_capacity(held.len());
        for shard in held {
            let feature = &model.features()[shard.feature];
            let mut table =
                Table::zeroed(device, shard.rows.len(), shard.columns.len(), feature.pooling, rule)?;
            initialise(&mut table, shard, model, seed);
            tables.push(table);
        }
        // A feature's place among the vectors of a sample: behind the dense one.
        let first = usize::from(model.dense_features() > 0);
        let place = |shard: &Shard| (first + shard.feature) * model.dim() + shard.columns.start;
        let into_order = |shards: &[Shard]| {
            let copies = shards.iter().zip(columns(shards));
            copies.map(|(s, from)| ColumnCopy { from, to: place(s), width: s.columns.len() }).collect()
        };
        let arriving: Vec<Vec<ColumnCopy>> =
            (0..ranks).map(|r| merge(into_order(placement.owned_by(r)))).collect();
        let leaving = (0..ranks)
            .map(|r| {
                let back = into_order(placement.held_by(r));
                merge(back.into_iter().map(|c| ColumnCopy { from: c.to, to: c.from, ..c }).collect())
            })
            .collect();
        let owned_columns = columns(&held[..owned]);
        Ok(Self {
            rank,
            tables,
            owned,
            lookup_columns: owned_columns.into_iter().chain(columns(placement.replicated())).collect(),
            update_columns: columns(held),
            widths: (0..ranks).map(|r| (width(placement.owned_by(r)), width(placement.held_by(r)))).collect(),
            replicated_width: width(placement.replicated()),
            arriving,
            leaving,
            replicated: merge(into_order(placement.replicated())),
            dense: (first > 0).then_some(ColumnCopy { from: 0, to: 0, width: model.dim() }),
            features_width: model.vectors() * model.dim(),
            pooled: Exchange::new(ranks),
            own_pooled: Buffer::empty(),
            gradients: Exchange::new(ranks),
        })
    }

    /// Looks up the world's samples in the tables owned here, and this rank's in the replicated ones.
    pub fn lookup(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let (owned_width, _) = self.widths[self.rank];
        let weights = (!input.weights.recv.is_empty()).then_some(&input.weights.recv);
        let (index, values) = (&input.index, &input.ids.recv);
        self.pooled.send.resize(input.world_rows() * owned_width)?;
        device.lookup(
            &self.tables,
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
            &self.tables,
            self.owned..self.tables.len(),
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
        let to_width = self.features_width;
        features.resize(rows * to_width)?;
        if let (Some(copy), Some(dense)) = (self.dense, dense) {
            device.copy_columns(rows, &[copy], dense, 0, copy.width, features, 0, to_width)?;
        }
        let mut at = 0;
        for (copies, (from_width, _)) in self.arriving.iter().zip(&self.widths) {
            device.copy_columns(rows, copies, &self.pooled.recv, at, *from_width, features, 0, to_width)?;
            at += rows * from_width;
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
        let from_width = self.features_width;
        if let Some(copy) = self.dense {
            ddense.resize(rows * copy.width)?;
            device.copy_columns(rows, &[copy], dfeatures, 0, from_width, ddense, 0, copy.width)?;
        }
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
        &mut self,
        device: &Device,
        input: &Input,
        rule: &UpdateRule,
        rate: f32,
        step: u64,
    ) -> Result<(), Error> {
        let weights = (!input.weights.recv.is_empty()).then_some(&input.weights.recv);
        let (_, held) = self.widths[self.rank];
        let all = 0..self.tables.len();
        device.update_tables(
            &mut self.tables,
            all,
            &self.update_columns,
            held,
            &input.index,
            &input.sorted,
            weights,
            &self.gradients.recv,
            rule,
            rate,
            step,
        )?;
        Ok(())
    }
}

/// Where each shard's columns begin when they stand side by side.
fn columns(shards: &[Shard]) -> Vec<usize> {
    let starts = shards.iter().scan(0, |next, shard| {
        let start = *next;
        *next += shard.columns.len();
        Some(start)
    });
    starts.collect()
}

/// Joins copies that continue each other.
fn merge(copies: Vec<ColumnCopy>) -> Vec<ColumnCopy> {
    let mut merged: Vec<ColumnCopy> = Vec::new();
    for copy in copies {
        match merged.last_mut() {
            Some(last) if last.from + last.width == copy.from && last.to + last.width == copy.to => {
                last.width += copy.width;
            }
            _ => merged.push(copy),
        }
    }
    merged
}

/// Uniform in ±1/√rows. Any shard of a table draws the same weights as the whole would.
fn initialise(table: &mut Table, shard: &Shard, model: &Model, seed: u64) {
    let feature = &model.features()[shard.feature];
    let stream = Stream::new(seed, &format!("table.{}", feature.name));
    let bound = 1.0 / (feature.rows as f32).sqrt();
    let dim = model.dim();
    // Row blocks of about a megabyte: the whole table need not exist twice.
    let block = (1usize << 18).div_ceil(shard.columns.len());
    let mut drawn = Vec::new();
    let mut row = shard.rows.start;
    while row < shard.rows.end {
        let end = (row + block).min(shard.rows.end);
        drawn.clear();
        for r in row..end {
            let first = r as u64 * dim as u64;
            drawn.extend(shard.columns.clone().map(|c| stream.symmetric(first + c as u64, bound)));
        }
        table.weights.write((row - shard.rows.start) * shard.columns.len(), &drawn);
        row = end;
    }
}
