//! SPTT (DMT §3.1): vectors go to the members of the holder's group, each of which sees all features of the group for the
//! samples of its peers, and from there among peers to the samples.
//!
//! ```text
//! looked up   (samples of the world in peer order) × (columns of this rank)          d: part j to member j of the group
//! gathered    per member of the group: (samples of the peers) × (its columns)        e: side by side
//! leaving     (samples of the peers, peer by peer) × (columns of the group)          f: part h to the peer in group h
//! arrived     per group: (own samples) × (its columns)                               restored to the model's order
//! ```
//!
//! Gradients take the same way back. Only partial sums are added, in the order of their holders as in the flat dataflow, so that
//! the bits are the same.

mod routes;

use super::carries::{Carries, Payload};
use super::copies::Copies;
use super::exchange::Sums;
use super::input::Input;
use super::tables::SideBySide;
use super::vectors::{Vectors, Way};
use super::{Dataflow, no_phase};
use crate::Error;
use crate::layers::tower::Tower;
use kernels::{Buffer, ColumnCopy, Device, Lookup, Matrix, MatrixMut, Stored, Table, Update};
use routes::{HeldTables, SpttRoutes, TransposeCopies};
use spec::dataflow::{self, PeerPermute};
use spec::model::Model;
use spec::placement::{Placement, Shard};
use spec::volume::Leg;
use spec::wire::Wire;

/// What one rank exchanges in SPTT.
#[derive(Debug)]
pub struct Sptt {
    routes: SpttRoutes,
    copies: Copies,
    /// Looked-up vectors and partial sums in rank order, before step c brings them into peer order.
    unordered: [Buffer<f32>; 2],
    /// Step d: vectors, and partial sums of tables of whose rows some members have a piece.
    gathered: Vectors,
    /// Step d: partial sums of tables of whose rows every member has a piece.
    sums: Sums,
    /// Step f.
    leaving: Vectors,
    /// Step f in reverse.
    returned: Vectors,
    /// Step d in reverse, of vectors.
    gathered_gradients: Vectors,
    /// Step d in reverse, of sums.
    sum_gradients: Sums,
    /// Gradients back in the order of ranks, where step c was taken.
    ordered_gradients: [Buffer<f32>; 2],
}

impl Sptt {
    /// The exchanges of `rank`.
    pub fn new(
        device: &Device,
        model: &Model,
        placement: &Placement,
        plan: &dataflow::Sptt,
        wire: Wire,
        (rank, copies): (usize, Copies),
    ) -> Self {
        let routes = SpttRoutes::new(model, placement, plan, rank);
        let (groups, members) = (routes.groups, routes.groups.size());
        let (group, index) = (groups.group_of(rank), groups.index_of(rank));
        let widths = |shards: &[Shard]| -> Vec<usize> { shards.iter().map(|s| s.columns.len()).collect() };
        let of_members: Vec<Vec<usize>> = (0..members)
            .map(|member| widths(placement.sent_by(groups.rank(group, member), members)))
            .collect();
        let of_groups: Vec<Vec<usize>> =
            (0..groups.count()).map(|group| plan.plan(group).vector_widths().collect()).collect();
        let in_group = |codec, way| Vectors::direct(device, codec, way, &of_members, index);
        let among_peers = |codec, way| Vectors::direct(device, codec, way, &of_groups, group);
        let sums = |codec| Sums::new(device, members, codec, widths(placement.summed_by(rank, members)));
        Self {
            routes,
            copies,
            unordered: [Buffer::new(device), Buffer::new(device)],
            gathered: in_group(wire.vectors, Way::Forward),
            sums: sums(wire.vectors),
            leaving: among_peers(wire.vectors, Way::Forward),
            returned: among_peers(wire.gradients, Way::Backward),
            gathered_gradients: in_group(wire.gradients, Way::Backward),
            sum_gradients: sums(wire.gradients),
            ordered_gradients: [Buffer::new(device), Buffer::new(device)],
        }
    }

    /// Samples of all ranks of one index.
    fn samples_of(&self, input: &Input, index: usize) -> usize {
        self.routes.groups.peers(index).map(|rank| input.samples[rank].len()).sum()
    }

    /// Samples of this rank and its peers.
    fn peer_rows(&self, input: &Input) -> usize {
        self.samples_of(input, self.routes.index)
    }

    fn expect_peers(&mut self, input: &Input) {
        for (group, rank) in self.routes.groups.peers(self.routes.index).enumerate() {
            self.leaving.floats.to[group] = input.samples[rank].len() * self.routes.leaving_width;
            self.leaving.floats.from[group] = input.rows() * self.routes.arriving[group].0;
        }
        // The way back.
        self.returned.floats.to.clone_from(&self.leaving.floats.from);
        self.returned.floats.from.clone_from(&self.leaving.floats.to);
    }

    /// Tables that are exchanged in one way.
    fn side_by_side<'a>(&'a self, held: &HeldTables) -> SideBySide<'a> {
        let (tables, columns) = (held.tables.clone(), &self.routes.table_columns[..]);
        SideBySide { tables, columns, width: held.width }
    }
}

impl Dataflow for Sptt {
    fn name(&self) -> &'static str {
        "SPTT"
    }

    fn copies(&mut self) -> &mut Copies {
        &mut self.copies
    }

    fn leg(&mut self, leg: Leg) -> Result<&mut Vectors, Error> {
        match leg {
            Leg::Group => Ok(&mut self.gathered),
            Leg::Peer => Ok(&mut self.leaving),
            Leg::PeerGradient => Ok(&mut self.returned),
            Leg::GroupGradient => Ok(&mut self.gathered_gradients),
            leg => no_phase(self.name(), format_args!("the {leg} exchange")),
        }
    }

    fn payload(&mut self, carries: Carries) -> Result<Payload<'_>, Error> {
        match carries {
            Carries::Vectors(leg) => Ok(self.leg(leg)?.last()),
            Carries::PartialSums => Ok(Payload::Sums(&mut self.sums)),
            Carries::SumGradients => Ok(Payload::Sums(&mut self.sum_gradients)),
            carries => {
                let name = self.name();
                self.copies.payload(carries, name)
            }
        }
    }

    fn peer_order(&self) -> Result<&[usize], Error> {
        Ok(&self.routes.peer_order)
    }

    fn tower_rows(&self, input: &Input) -> Result<usize, Error> {
        Ok(self.peer_rows(input))
    }

    /// Step b: the world's samples are looked up in the tables held here.
    fn lookup(&mut self, device: &Device, tables: &[Table], input: &Input) -> Result<(), Error> {
        let rows = input.world_rows();
        let outputs = match self.routes.permute {
            PeerPermute::Vectors => self.unordered.each_mut(),
            PeerPermute::Ids | PeerPermute::None => [&mut self.gathered.floats.send, &mut self.sums.send],
        };
        for (held, output) in [&self.routes.sent, &self.routes.summed].into_iter().zip(outputs) {
            output.resize(rows * held.width)?;
            let (which, columns) = (held.tables.clone(), &self.routes.table_columns);
            let (index, ids, weights) = (&input.index, &input.ids.recv, input.weights());
            device.lookup(Lookup {
                tables,
                which,
                columns,
                width: held.width,
                index,
                samples: 0..rows,
                values: ids,
                weights,
                out: output,
            })?;
        }
        let served = self.peer_rows(input);
        self.copies.lookup(device, tables, input, served)?;
        for member in 0..self.routes.groups.size() {
            let samples = self.samples_of(input, member);
            self.gathered.floats.to[member] = samples * self.routes.sent.width;
            self.sums.samples[member] = samples;
            self.gathered.floats.from[member] = self.peer_rows(input) * self.routes.members[member].0;
        }
        Ok(())
    }

    /// Step c: from the order of ranks to peer order.
    fn permute_peers(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let ordered = [&mut self.gathered.floats.send, &mut self.sums.send];
        let widths = [self.routes.sent.width, self.routes.summed.width];
        for ((from, to), width) in self.unordered.iter().zip(ordered).zip(widths) {
            to.resize(input.world_rows() * width)?;
            let mut at = 0;
            for &rank in &self.routes.peer_order {
                let samples = &input.samples[rank];
                copy_rows(device, samples.len(), width, from, samples.start, to, at)?;
                at += samples.len();
            }
        }
        Ok(())
    }

    /// Step e: side by side, for the towers and for what leaves as it is.
    fn transpose(&mut self, device: &Device, input: &Input, towers: &mut [Tower]) -> Result<(), Error> {
        let rows = self.peer_rows(input);
        self.leaving.floats.send.resize(rows * self.routes.leaving_width)?;
        for tower in &mut *towers {
            tower.input.resize(rows * tower.width)?;
        }
        let Self { routes, leaving, gathered, sums, copies, .. } = self;
        let mut place = |columns: &[TransposeCopies], from: &Buffer<f32>, at: usize, width: usize| {
            for TransposeCopies { tower, copies, adds, .. } in columns {
                let (to, to_width) = match tower {
                    Some(tower) => {
                        let tower = &mut towers[*tower];
                        (&mut tower.input, tower.width)
                    }
                    None => (&mut leaving.floats.send, routes.leaving_width),
                };
                device.copy_columns(
                    rows,
                    copies,
                    Matrix { buffer: from, at, width },
                    MatrixMut { buffer: to, at: 0, width: to_width },
                )?;
                device.add_columns(
                    rows,
                    adds,
                    Matrix { buffer: from, at, width },
                    MatrixMut { buffer: to, at: 0, width: to_width },
                )?;
            }
            Ok::<(), Error>(())
        };
        let mut at = 0;
        for (width, columns) in &routes.members {
            place(columns, &gathered.floats.recv, at, *width)?;
            at += rows * width;
        }
        place(&routes.sums, &sums.recv, 0, routes.summed.width)?;
        place(&routes.copied, &copies.pooled, 0, copies.width)?;
        self.expect_peers(input);
        Ok(())
    }

    fn take_outputs(&mut self, device: &Device, input: &Input, towers: &[Tower]) -> Result<(), Error> {
        let (rows, to_width) = (self.peer_rows(input), self.routes.leaving_width);
        for (tower, (_, column)) in towers.iter().zip(&self.routes.towers) {
            let mut to = *column;
            for output in &tower.outputs {
                let (width, leaving) = (output.width, &mut self.leaving.floats.send);
                let copy = ColumnCopy { from: 0, to, width };
                device.copy_columns(
                    rows,
                    &[copy],
                    Matrix { buffer: &output.values, at: 0, width },
                    MatrixMut { buffer: leaving, at: 0, width: to_width },
                )?;
                to += width;
            }
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
        self.routes.order.begin(device, rows, dense, (features, Stored::Plain))?;
        let to_width = self.routes.order.width;
        let mut at = 0;
        for (width, copies) in &self.routes.arriving {
            device.copy_columns(
                rows,
                copies,
                Matrix { buffer: &self.leaving.floats.recv, at, width: *width },
                MatrixMut { buffer: features, at: 0, width: to_width },
            )?;
            at += rows * width;
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
        self.routes.order.take_dense(device, rows, dfeatures, ddense)?;
        let from_width = self.routes.order.width;
        let send = &mut self.returned.floats.send;
        send.resize(self.returned.floats.to.iter().sum())?;
        let mut at = 0;
        for (copies, (width, _)) in self.routes.returning.iter().zip(&self.routes.arriving) {
            device.copy_columns(
                rows,
                copies,
                Matrix { buffer: dfeatures, at: 0, width: from_width },
                MatrixMut { buffer: send, at, width: *width },
            )?;
            at += rows * width;
        }
        Ok(())
    }

    fn give_gradients(&self, device: &Device, input: &Input, towers: &mut [Tower]) -> Result<(), Error> {
        let (rows, from_width) = (self.peer_rows(input), self.routes.leaving_width);
        for (tower, (_, column)) in towers.iter_mut().zip(&self.routes.towers) {
            let mut from = *column;
            for output in &mut tower.outputs {
                let (width, returned) = (output.width, &self.returned.floats.recv);
                output.gradient.resize(rows * width)?;
                let copy = ColumnCopy { from, to: 0, width };
                let to = &mut output.gradient;
                device.copy_columns(
                    rows,
                    &[copy],
                    Matrix { buffer: returned, at: 0, width: from_width },
                    MatrixMut { buffer: to, at: 0, width },
                )?;
                from += width;
            }
        }
        Ok(())
    }

    /// Step e in reverse.
    fn reverse_transpose(&mut self, device: &Device, input: &Input, towers: &[Tower]) -> Result<(), Error> {
        let rows = self.peer_rows(input);
        for member in 0..self.routes.groups.size() {
            let samples = self.samples_of(input, member);
            self.gathered_gradients.floats.to[member] = rows * self.routes.members[member].0;
            self.gathered_gradients.floats.from[member] = samples * self.routes.sent.width;
            self.sum_gradients.samples[member] = samples;
        }
        let Self { routes, returned, copies, .. } = self;
        let (gathered, sums) = (&mut self.gathered_gradients.floats.send, &mut self.sum_gradients.send);
        gathered.resize(self.gathered_gradients.floats.to.iter().sum())?;
        sums.resize(rows * routes.summed.width)?;
        copies.gradients.resize(rows * copies.width)?;
        let place = |columns: &[TransposeCopies], to: &mut Buffer<f32>, at: usize, width: usize| {
            for TransposeCopies { tower, back, .. } in columns {
                let (from, from_width) = match tower {
                    Some(tower) => (&towers[*tower].input_gradient, towers[*tower].width),
                    None => (&returned.floats.recv, routes.leaving_width),
                };
                device.copy_columns(
                    rows,
                    back,
                    Matrix { buffer: from, at: 0, width: from_width },
                    MatrixMut { buffer: to, at, width },
                )?;
            }
            Ok::<(), Error>(())
        };
        let mut at = 0;
        for (width, columns) in &routes.members {
            place(columns, gathered, at, *width)?;
            at += rows * width;
        }
        place(&routes.sums, sums, 0, routes.summed.width)?;
        place(&routes.copied, &mut copies.gradients, 0, copies.width)
    }

    /// Step c in reverse.
    fn reverse_permute(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let arrived = [&self.gathered_gradients.floats.recv, &self.sum_gradients.recv];
        let widths = [self.routes.sent.width, self.routes.summed.width];
        for ((from, to), width) in arrived.into_iter().zip(&mut self.ordered_gradients).zip(widths) {
            to.resize(input.world_rows() * width)?;
            let mut at = 0;
            for &rank in &self.routes.peer_order {
                let samples = &input.samples[rank];
                copy_rows(device, samples.len(), width, from, at, to, samples.start)?;
                at += samples.len();
            }
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
        let gradients = match self.routes.permute {
            PeerPermute::Vectors => self.ordered_gradients.each_ref(),
            PeerPermute::Ids | PeerPermute::None => {
                [&self.gathered_gradients.floats.recv, &self.sum_gradients.recv]
            }
        };
        for (held, gradients) in [&self.routes.sent, &self.routes.summed].into_iter().zip(gradients) {
            self.side_by_side(held).update(device, tables, update, input, gradients)?;
        }
        Ok(())
    }
}

/// Copies whole rows.
fn copy_rows(
    device: &Device,
    rows: usize,
    width: usize,
    from: &Buffer<f32>,
    from_row: usize,
    to: &mut Buffer<f32>,
    to_row: usize,
) -> Result<(), Error> {
    let copy = ColumnCopy { from: 0, to: 0, width };
    Ok(device.copy_columns(
        rows,
        &[copy],
        Matrix { buffer: from, at: from_row * width, width },
        MatrixMut { buffer: to, at: to_row * width, width },
    )?)
}
