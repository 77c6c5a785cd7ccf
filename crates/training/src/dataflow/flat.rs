//! The flat dataflow: pooled vectors go from holders straight to the ranks that have the samples, over the world.
//!
//! Rows of a send buffer are samples in global order, so that the part for one rank is contiguous, and the gradient
//! that comes back has rows in global sample order. In a hierarchical all-to-all vectors are permuted before they leave, and
//! gradients are laid out in peer order; what arrives is the same. Partial sums of tables cut by rows are added where the samples are, in
//! the order of their holders.

use super::input::Input;
use super::order::Order;
use super::tables::{SideBySide, columns};
use super::vectors::{Vectors, Way};
use super::{Dataflow, merge, no_phase, reversed};
use crate::Error;
use kernels::{Buffer, ColumnCopy, Device, Lookup, Matrix, MatrixMut, Table, Update};
use spec::dataflow::AllToAll;
use spec::model::Model;
use spec::placement::{Placement, Shard, width};
use spec::topology::Groups;
use spec::volume::Leg;
use spec::wire::Wire;

/// What one rank exchanges in the flat dataflow.
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
    /// The order in which gradients are laid out by holder.
    holders: Vec<usize>,
    /// Pooled vectors.
    pooled: Vectors,
    own_pooled: Buffer<f32>,
    /// Gradients of pooled vectors.
    gradients: Vectors,
}

impl Flat {
    /// The exchanges of `rank`.
    pub fn new(
        device: &Device,
        model: &Model,
        placement: &Placement,
        all_to_all: AllToAll,
        wire: Wire,
        rank: usize,
    ) -> Self {
        let ranks = placement.topology().ranks();
        let held = placement.held_by(rank);
        let owned = placement.owned_by(rank).len();
        let into_order = |shards: &[Shard], which: &dyn Fn(&Shard) -> bool| {
            let copies = shards.iter().zip(columns(shards)).filter(|(shard, _)| which(shard));
            let copy = |(s, from): (&Shard, usize)| {
                let to = model.feature_offset(s.feature, s.columns.start);
                ColumnCopy { from, to, width: s.columns.len() }
            };
            merge(copies.map(copy).collect())
        };
        // The first piece of a table's rows sets its columns, the others are added.
        let first = |shard: &Shard| shard.piece() == 0;
        let owned_columns = columns(&held[..owned]);
        let hosts = match all_to_all {
            AllToAll::Flat => None,
            AllToAll::Hierarchical => Some(Groups::of_hosts(placement.topology())),
        };
        let widths = |shards: &[Shard]| shards.iter().map(|shard| shard.columns.len()).collect();
        let owned_widths: Vec<Vec<usize>> = (0..ranks).map(|r| widths(placement.owned_by(r))).collect();
        let held_widths: Vec<Vec<usize>> = (0..ranks).map(|r| widths(placement.held_by(r))).collect();
        let leg = |leg: Leg, way, widths: &[Vec<usize>]| match hosts {
            None => Vectors::direct(device, wire.of(leg), way, widths, rank),
            Some(hosts) => Vectors::by_hosts(device, hosts, wire.of(leg), way, widths, rank),
        };
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
            holders: hosts.map_or((0..ranks).collect(), |hosts| hosts.peer_order()),
            pooled: leg(Leg::Pooled, Way::Forward, &owned_widths),
            own_pooled: Buffer::new(device),
            gradients: leg(Leg::Gradient, Way::Backward, &held_widths),
        }
    }
}

impl Dataflow for Flat {
    fn name(&self) -> &'static str {
        "flat"
    }

    fn leg(&mut self, leg: Leg) -> Result<&mut Vectors, Error> {
        match leg {
            Leg::Pooled => Ok(&mut self.pooled),
            Leg::Gradient => Ok(&mut self.gradients),
            leg => no_phase(self.name(), format_args!("the {leg} exchange")),
        }
    }

    /// The world's samples are looked up in the tables owned here, and this rank's in the replicated ones.
    fn lookup(&mut self, device: &Device, tables: &[Table], input: &Input) -> Result<(), Error> {
        let (owned_width, _) = self.widths[self.rank];
        let weights = input.weights();
        let (index, values) = (&input.index, &input.ids.recv);
        self.pooled.floats.send.resize(input.world_rows() * owned_width)?;
        device.lookup(Lookup {
            tables,
            which: 0..self.owned,
            columns: &self.lookup_columns,
            width: owned_width,
            index,
            samples: 0..input.world_rows(),
            values,
            weights,
            out: &mut self.pooled.floats.send,
        })?;
        self.own_pooled.resize(input.rows() * self.replicated_width)?;
        device.lookup(Lookup {
            tables,
            which: self.owned..tables.len(),
            columns: &self.lookup_columns,
            width: self.replicated_width,
            index,
            samples: input.own(),
            values,
            weights,
            out: &mut self.own_pooled,
        })?;
        let (samples, widths) = (&input.samples, &self.widths);
        self.pooled.expect(|from, to| samples[to].len() * widths[from].0);
        Ok(())
    }

    fn restore_order(
        &self,
        device: &Device,
        input: &Input,
        dense: Option<&Buffer<f32>>,
        features: &mut Buffer<f32>,
    ) -> Result<(), Error> {
        let rows = input.rows();
        self.order.begin(device, rows, dense, features)?;
        let to_width = self.order.width;
        let mut at = 0;
        for ((copies, sums), (from_width, _)) in self.arriving.iter().zip(&self.adding).zip(&self.widths) {
            let (from, width) = (&self.pooled.floats.recv, *from_width);
            device.copy_columns(
                rows,
                copies,
                Matrix { buffer: from, at, width },
                MatrixMut { buffer: features, at: 0, width: to_width },
            )?;
            device.add_columns(
                rows,
                sums,
                Matrix { buffer: from, at, width },
                MatrixMut { buffer: features, at: 0, width: to_width },
            )?;
            at += rows * width;
        }
        let from_width = self.replicated_width;
        device.copy_columns(
            rows,
            &self.replicated,
            Matrix { buffer: &self.own_pooled, at: 0, width: from_width },
            MatrixMut { buffer: features, at: 0, width: to_width },
        )?;
        Ok(())
    }

    fn split_gradients(
        &mut self,
        device: &Device,
        input: &Input,
        dfeatures: &Buffer<f32>,
        ddense: Option<&mut Buffer<f32>>,
    ) -> Result<(), Error> {
        let rows = input.rows();
        self.order.take_dense(device, rows, dfeatures, ddense)?;
        let from_width = self.order.width;
        let (samples, widths) = (&input.samples, &self.widths);
        self.gradients.expect(|from, to| samples[from].len() * widths[to].1);
        let send = self.gradients.outgoing();
        send.resize(rows * widths.iter().map(|(_, held)| held).sum::<usize>())?;
        let mut at = 0;
        for &holder in &self.holders {
            let (copies, (_, to_width)) = (&self.leaving[holder], self.widths[holder]);
            device.copy_columns(
                rows,
                copies,
                Matrix { buffer: dfeatures, at: 0, width: from_width },
                MatrixMut { buffer: send, at, width: to_width },
            )?;
            at += rows * to_width;
        }
        Ok(())
    }

    fn update(
        &self,
        device: &Device,
        tables: &mut [Table],
        input: &Input,
        update: Update,
    ) -> Result<(), Error> {
        let (_, width) = self.widths[self.rank];
        let which = SideBySide { tables: 0..tables.len(), columns: &self.update_columns, width };
        which.update(device, tables, update, input, &self.gradients.floats.recv)
    }
}
