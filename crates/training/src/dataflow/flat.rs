//! The flat dataflow: pooled vectors go from holders straight to the ranks that have the samples, over the world.
//!
//! Rows of a send buffer are samples in global order, so that the part for one rank is contiguous, and the gradient
//! that comes back has rows in global sample order. In a hierarchical all-to-all vectors are permuted before they leave, and
//! gradients are laid out in peer order; what arrives is the same. Partial sums of tables cut by rows are added in the order of
//! their holders: by a reduce-scatter where every rank has a piece of the rows, else where the samples are.

use super::carries::{Carries, Payload};
use super::copies::Copies;
use super::exchange::Sums;
use super::input::Input;
use super::order::Order;
use super::tables::{SideBySide, columns};
use super::vectors::{Vectors, Way};
use super::{Dataflow, merge, no_phase, reversed};
use crate::Error;
use kernels::{Buffer, ColumnCopy, Device, Lookup, Matrix, MatrixMut, Stored, Table, Update};
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
    /// Ends of the tables whose vectors are sent one by one, of those that are summed, and of replicated ones; data-parallel ones
    /// follow.
    ends: [usize; 3],
    lookup_columns: Vec<usize>,
    /// Columns of tables whose vectors do not travel among all vectors of a sample; none where there are several ranks.
    pair_columns: Vec<usize>,
    update_columns: Vec<usize>,
    /// Width of what each rank sends, and of what it gets gradients of.
    widths: Vec<(usize, usize)>,
    summed_width: usize,
    replicated_width: usize,
    /// Columns of each source's pooled vectors in feature order: those that are set, and those that are added to others;
    /// the gradient's of each destination.
    arriving: Vec<Vec<ColumnCopy>>,
    adding: Vec<Vec<ColumnCopy>>,
    leaving: Vec<Vec<ColumnCopy>>,
    /// Columns of the sums in feature order, and of their gradients.
    summed: [Vec<ColumnCopy>; 2],
    replicated: Vec<ColumnCopy>,
    /// Columns of the vectors of data-parallel tables in feature order, and of their gradients.
    copied: [Vec<ColumnCopy>; 2],
    copies: Copies,
    order: Order,
    /// The order in which gradients are laid out by holder.
    holders: Vec<usize>,
    /// Pooled vectors.
    pooled: Vectors,
    /// Partial sums of tables of whose rows every rank has a piece.
    sums: Sums,
    own_pooled: Buffer<f32>,
    /// Gradients of pooled vectors.
    gradients: Vectors,
    /// Gradients of the sums.
    sum_gradients: Sums,
}

impl Flat {
    /// The exchanges of `rank`.
    pub fn new(
        device: &Device,
        model: &Model,
        placement: &Placement,
        all_to_all: AllToAll,
        wire: Wire,
        (rank, copies): (usize, Copies),
    ) -> Self {
        let ranks = placement.topology().ranks();
        let sent = |rank| placement.sent_by(rank, ranks);
        let updated = |rank| placement.updated_by_samples(rank, ranks);
        let (summed, replicated) = (placement.summed_by(rank, ranks), placement.replicated());
        let into_order = |shards: &mut dyn Iterator<Item = &Shard>, which: &dyn Fn(&Shard) -> bool| {
            let shards: Vec<&Shard> = shards.collect();
            let columns = columns(shards.iter().copied());
            let copies = shards.into_iter().zip(columns).filter(|(shard, _)| which(shard));
            let copy = |(s, from): (&Shard, usize)| {
                let to = model.feature_offset(s.feature, s.columns.start);
                ColumnCopy { from, to, width: s.columns.len() }
            };
            merge(copies.map(copy).collect())
        };
        // The first piece of a table's rows sets its columns, the others are added.
        let first = |shard: &Shard| shard.piece() == 0;
        let hosts = match all_to_all {
            AllToAll::Flat => None,
            AllToAll::Hierarchical => Some(Groups::of_hosts(placement.topology())),
        };
        let widths = |shards: &mut dyn Iterator<Item = &Shard>| shards.map(|s| s.columns.len()).collect();
        let sent_widths: Vec<Vec<usize>> = (0..ranks).map(|r| widths(&mut sent(r).iter())).collect();
        let held_widths: Vec<Vec<usize>> = (0..ranks).map(|r| widths(&mut updated(r))).collect();
        let sums = |codec| Sums::new(device, ranks, codec, widths(&mut summed.iter()));
        let (sent_columns, summed_columns) = (columns(sent(rank)), columns(summed));
        let (sent_width, replicated_columns) = (width(sent(rank)), columns(replicated));
        let into_sums = into_order(&mut summed.iter(), &|_| true);
        let copied = placement.copied_by(rank);
        let into_copies = into_order(&mut copied.iter(), &|_| true);
        let unused = vec![0; copied.len()];
        let owned = sent_columns.len() + summed_columns.len();
        let in_order = |shard: &Shard| model.feature_offset(shard.feature, shard.columns.start);
        let pair_columns = if ranks == 1 { sent(rank).iter().map(in_order).collect() } else { Vec::new() };
        let leg = |leg: Leg, way, widths: &[Vec<usize>]| match hosts {
            None => Vectors::direct(device, wire.of(leg), way, widths, rank),
            Some(hosts) => Vectors::by_hosts(device, hosts, wire.of(leg), way, widths, rank),
        };
        Self {
            rank,
            pair_columns,
            ends: [sent_columns.len(), owned, owned + replicated.len()],
            // Replicated tables are looked up apart, but their gradients come behind those of the tables that were sent.
            lookup_columns: [&sent_columns[..], &summed_columns, &replicated_columns, &unused].concat(),
            update_columns: sent_columns
                .into_iter()
                .chain(summed_columns)
                .chain(replicated_columns.into_iter().map(|column| sent_width + column))
                .chain(unused)
                .collect(),
            widths: (0..ranks).map(|r| (width(sent(r)), width(updated(r)))).collect(),
            summed_width: width(summed),
            replicated_width: width(replicated),
            arriving: (0..ranks).map(|r| into_order(&mut sent(r).iter(), &first)).collect(),
            adding: (0..ranks).map(|r| into_order(&mut sent(r).iter(), &|s| !first(s))).collect(),
            leaving: (0..ranks).map(|r| reversed(into_order(&mut updated(r), &|_| true))).collect(),
            summed: [into_sums.clone(), reversed(into_sums)],
            replicated: into_order(&mut replicated.iter(), &|_| true),
            copied: [into_copies.clone(), reversed(into_copies)],
            copies,
            order: Order::new(model),
            holders: hosts.map_or((0..ranks).collect(), |hosts| hosts.peer_order()),
            pooled: leg(Leg::Pooled, Way::Forward, &sent_widths),
            sums: sums(wire.vectors),
            own_pooled: Buffer::new(device),
            gradients: leg(Leg::Gradient, Way::Backward, &held_widths),
            sum_gradients: sums(wire.gradients),
        }
    }
}

impl Dataflow for Flat {
    fn name(&self) -> &'static str {
        "flat"
    }

    fn copies(&mut self) -> &mut Copies {
        &mut self.copies
    }

    fn leg(&mut self, leg: Leg) -> Result<&mut Vectors, Error> {
        match leg {
            Leg::Pooled => Ok(&mut self.pooled),
            Leg::Gradient => Ok(&mut self.gradients),
            leg => no_phase(self.name(), format_args!("the {leg} exchange")),
        }
    }

    fn pair_columns(&self) -> Result<&[usize], Error> {
        Ok(&self.pair_columns)
    }

    fn lookup_in_place(
        &self,
        device: &Device,
        tables: &[Table],
        input: &Input,
        dense: Option<&Buffer<f32>>,
        (features, stored): (&mut Buffer<f32>, Stored),
    ) -> Result<(), Error> {
        let rows = input.rows();
        self.order.begin(device, rows, dense, (features, stored))?;
        Ok(device.lookup(Lookup {
            tables,
            which: 0..tables.len(),
            columns: &self.pair_columns,
            width: self.order.width,
            index: &input.index,
            samples: 0..rows,
            values: &input.ids.recv,
            weights: input.weights(),
            out: features,
        })?)
    }

    fn update_in_place(
        &self,
        device: &Device,
        tables: &mut [Table],
        input: &Input,
        update: Update,
        (dfeatures, ddense): (&Buffer<f32>, Option<&mut Buffer<f32>>),
    ) -> Result<(), Error> {
        self.order.take_dense(device, input.rows(), dfeatures, ddense)?;
        let (columns, width) = (&self.pair_columns[..], self.order.width);
        let all = SideBySide { tables: 0..tables.len(), columns, width };
        all.update(device, tables, update, input, dfeatures)
    }

    fn payload(&mut self, carries: Carries) -> Result<Payload<'_>, Error> {
        match carries {
            Carries::Vectors(leg) => Ok(self.leg(leg)?.last()),
            Carries::VectorsInHost(leg) => self.leg(leg)?.in_host(),
            Carries::PartialSums => Ok(Payload::Sums(&mut self.sums)),
            Carries::SumGradients => Ok(Payload::Sums(&mut self.sum_gradients)),
            carries => {
                let name = self.name();
                self.copies.payload(carries, name)
            }
        }
    }

    /// The world's samples are looked up in the tables owned here, and this rank's in the copies.
    fn lookup(&mut self, device: &Device, tables: &[Table], input: &Input) -> Result<(), Error> {
        let (sent_width, _) = self.widths[self.rank];
        let [sent, owned, replicated] = self.ends;
        let (world, own) = (0..input.world_rows(), input.own());
        for (which, width, samples, out) in [
            (0..sent, sent_width, world.clone(), &mut self.pooled.floats.send),
            (sent..owned, self.summed_width, world, &mut self.sums.send),
            (owned..replicated, self.replicated_width, own, &mut self.own_pooled),
        ] {
            out.resize(samples.len() * width)?;
            device.lookup(Lookup {
                tables,
                which,
                columns: &self.lookup_columns,
                width,
                index: &input.index,
                samples,
                values: &input.ids.recv,
                weights: input.weights(),
                out,
            })?;
        }
        self.copies.lookup(device, tables, input, input.rows())?;
        let (samples, widths) = (&input.samples, &self.widths);
        self.pooled.expect(|from, to| samples[to].len() * widths[from].0);
        for sums in [&mut self.sums, &mut self.sum_gradients] {
            sums.samples.iter_mut().zip(samples).for_each(|(count, samples)| *count = samples.len());
        }
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
        self.order.begin(device, rows, dense, (features, Stored::Plain))?;
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
        for (copies, buffer, width) in [
            (&self.summed[0], &self.sums.recv, self.summed_width),
            (&self.replicated, &self.own_pooled, self.replicated_width),
            (&self.copied[0], &self.copies.pooled, self.copies.width),
        ] {
            device.copy_columns(
                rows,
                copies,
                Matrix { buffer, at: 0, width },
                MatrixMut { buffer: features, at: 0, width: to_width },
            )?;
        }
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
        let copies = &mut self.copies;
        for (columns, to, width) in [
            (&self.summed[1], &mut self.sum_gradients.send, self.summed_width),
            (&self.copied[1], &mut copies.gradients, copies.width),
        ] {
            to.resize(rows * width)?;
            device.copy_columns(
                rows,
                columns,
                Matrix { buffer: dfeatures, at: 0, width: from_width },
                MatrixMut { buffer: to, at: 0, width },
            )?;
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
        let (_, held) = self.widths[self.rank];
        let ([sent, owned, replicated], columns) = (self.ends, &self.update_columns[..]);
        let (gradients, sums) = (&self.gradients.floats.recv, &self.sum_gradients.recv);
        for (which, width, gradients) in [
            (0..sent, held, gradients),
            (sent..owned, self.summed_width, sums),
            (owned..replicated, held, gradients),
        ] {
            let side_by_side = SideBySide { tables: which, columns, width };
            side_by_side.update(device, tables, update, input, gradients)?;
        }
        Ok(())
    }
}
