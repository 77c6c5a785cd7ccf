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
//! Gradients take the same way back. Nothing here adds but the reduce-scatter of partial sums, so that the bits are those
//! of the flat dataflow.

mod layout;

use super::Step;
use super::exchange::Exchange;
use super::input::Input;
use super::vectors::Vectors;
use crate::Error;
use crate::layers::dense::Parameters;
use crate::layers::tower::Tower;
use kernels::{Buffer, ColumnCopy, Device, Lookup, Matrix, MatrixMut, Table};
use layout::{Layout, Transposed};
use spec::dataflow::{self, PeerPermute};
use spec::model::Model;
use spec::placement::Placement;
use spec::wire::Wire;

/// What one rank exchanges.
#[derive(Debug)]
pub struct Sptt {
    layout: Layout,
    /// The group's towers, and where the output of each begins among what leaves.
    towers: Vec<(Tower, usize)>,
    /// What was looked up in the order of ranks, where step c is yet to bring it into peer order: vectors, partial sums.
    unordered: [Buffer<f32>; 2],
    /// Step d: vectors of whole tables.
    pub gathered: Vectors,
    /// Step d: partial sums.
    pub sums: Exchange<f32>,
    /// Step f.
    pub leaving: Vectors,
    /// Step f in reverse.
    pub returned: Vectors,
    /// Step d in reverse, of whole tables.
    pub gathered_gradients: Vectors,
    /// Step d in reverse, of sums.
    pub sum_gradients: Exchange<f32>,
    /// Gradients back in the order of ranks, where step c was taken.
    ordered_gradients: [Buffer<f32>; 2],
}

impl Sptt {
    /// Of `rank`, with the modules of its group's towers over `parameters`.
    pub fn new(
        device: &Device,
        model: &Model,
        placement: &Placement,
        plan: &dataflow::Sptt,
        wire: Wire,
        rank: usize,
        parameters: &Parameters,
    ) -> Self {
        let layout = Layout::new(model, placement, plan, rank);
        let module = |&(tower, column): &(usize, usize)| {
            let module = Tower::new(&model.towers()[tower], parameters);
            (module.expect("a plan lists towers that have modules"), column)
        };
        let (peers, members) = (layout.groups.count(), layout.groups.size());
        Self {
            towers: layout.towers.iter().map(module).collect(),
            layout,
            unordered: [Buffer::new(device), Buffer::new(device)],
            gathered: Vectors::direct(device, members, wire.vectors),
            sums: Exchange::new(device, members),
            leaving: Vectors::direct(device, peers, wire.vectors),
            returned: Vectors::direct(device, peers, wire.gradients),
            gathered_gradients: Vectors::direct(device, members, wire.gradients),
            sum_gradients: Exchange::new(device, members),
            ordered_gradients: [Buffer::new(device), Buffer::new(device)],
        }
    }

    /// All ranks by (index in group, group).
    pub fn peer_order(&self) -> &[usize] {
        &self.layout.peer_order
    }

    /// Samples of all ranks of one index.
    fn samples_of(&self, input: &Input, index: usize) -> usize {
        self.layout.groups.peers(index).map(|rank| input.samples[rank].len()).sum()
    }

    /// Samples of this rank and its peers.
    fn peer_rows(&self, input: &Input) -> usize {
        self.samples_of(input, self.layout.index)
    }

    /// Step b: looks up the world's samples in the tables held here.
    pub fn lookup(&mut self, device: &Device, tables: &[Table], input: &Input) -> Result<(), Error> {
        let rows = input.world_rows();
        let outputs = match self.layout.permute {
            PeerPermute::Vectors => self.unordered.each_mut(),
            PeerPermute::Ids | PeerPermute::None => [&mut self.gathered.floats.send, &mut self.sums.send],
        };
        for (held, output) in [&self.layout.whole, &self.layout.rows].into_iter().zip(outputs) {
            output.resize(rows * held.width)?;
            let (which, columns) = (held.tables.clone(), &self.layout.table_columns);
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
        for member in 0..self.layout.groups.size() {
            let samples = self.samples_of(input, member);
            self.gathered.floats.to[member] = samples * self.layout.whole.width;
            self.sums.to[member] = samples * self.layout.rows.width;
            self.gathered.floats.from[member] = self.peer_rows(input) * self.layout.members[member].0;
        }
        Ok(())
    }

    /// Step c: from the order of ranks to peer order.
    pub fn permute_peers(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let ordered = [&mut self.gathered.floats.send, &mut self.sums.send];
        let widths = [self.layout.whole.width, self.layout.rows.width];
        for ((from, to), width) in self.unordered.iter().zip(ordered).zip(widths) {
            to.resize(input.world_rows() * width)?;
            let mut at = 0;
            for &rank in &self.layout.peer_order {
                let samples = &input.samples[rank];
                copy_rows(device, samples.len(), width, from, samples.start, to, at)?;
                at += samples.len();
            }
        }
        Ok(())
    }

    /// Step e: side by side, for the towers and for what leaves as it is.
    pub fn transpose(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let rows = self.peer_rows(input);
        self.leaving.floats.send.resize(rows * self.layout.leaving_width)?;
        for (tower, _) in &mut self.towers {
            tower.input.resize(rows * tower.width)?;
        }
        let Self { layout, towers, leaving, gathered, sums, .. } = self;
        let mut place = |columns: &[Transposed], from: &Buffer<f32>, at: usize, width: usize| {
            for Transposed { tower, copies, .. } in columns {
                let (to, to_width) = match tower {
                    Some(tower) => {
                        let tower = &mut towers[*tower].0;
                        (&mut tower.input, tower.width)
                    }
                    None => (&mut leaving.floats.send, layout.leaving_width),
                };
                device.copy_columns(
                    rows,
                    copies,
                    Matrix { buffer: from, at, width },
                    MatrixMut { buffer: to, at: 0, width: to_width },
                )?;
            }
            Ok::<(), Error>(())
        };
        let mut at = 0;
        for (width, columns) in &layout.members {
            place(columns, &gathered.floats.recv, at, *width)?;
            at += rows * width;
        }
        place(&layout.summed, &sums.recv, 0, layout.rows.width)?;
        self.expect_peers(input);
        Ok(())
    }

    fn expect_peers(&mut self, input: &Input) {
        for (group, rank) in self.layout.groups.peers(self.layout.index).enumerate() {
            self.leaving.floats.to[group] = input.samples[rank].len() * self.layout.leaving_width;
            self.leaving.floats.from[group] = input.rows() * self.layout.arriving[group].0;
        }
        // The way back.
        self.returned.floats.to.clone_from(&self.leaving.floats.from);
        self.returned.floats.from.clone_from(&self.leaving.floats.to);
    }

    /// The tower modules of the group, over the samples of this rank's peers.
    pub fn towers_forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        input: &Input,
    ) -> Result<(), Error> {
        let rows = self.peer_rows(input);
        for (tower, column) in &mut self.towers {
            tower.forward(device, parameters, rows)?;
            let mut to = *column;
            for output in &tower.outputs {
                let copy = ColumnCopy { from: 0, to, width: output.width };
                let (from, leaving) = (&output.values, &mut self.leaving.floats.send);
                device.copy_columns(
                    rows,
                    &[copy],
                    Matrix { buffer: from, at: 0, width: output.width },
                    MatrixMut { buffer: leaving, at: 0, width: self.layout.leaving_width },
                )?;
                to += output.width;
            }
        }
        Ok(())
    }

    /// Brings all vectors of this rank's samples into the order that the interaction sees.
    pub fn restore_order(
        &self,
        device: &Device,
        rows: usize,
        dense: Option<&Buffer<f32>>,
        features: &mut Buffer<f32>,
    ) -> Result<(), Error> {
        self.layout.order.begin(device, rows, dense, features)?;
        let to_width = self.layout.order.width;
        let mut at = 0;
        for (width, copies) in &self.layout.arriving {
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

    /// Lays out the gradients of this rank's vectors by group, and the dense vector's apart.
    pub fn split_gradients(
        &mut self,
        device: &Device,
        rows: usize,
        dfeatures: &Buffer<f32>,
        ddense: Option<&mut Buffer<f32>>,
    ) -> Result<(), Error> {
        self.layout.order.take_dense(device, rows, dfeatures, ddense)?;
        let from_width = self.layout.order.width;
        let send = &mut self.returned.floats.send;
        send.resize(self.returned.floats.to.iter().sum())?;
        let mut at = 0;
        for (copies, (width, _)) in self.layout.returning.iter().zip(&self.layout.arriving) {
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

    /// The tower modules backward.
    pub fn towers_backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        input: &Input,
    ) -> Result<(), Error> {
        let rows = self.peer_rows(input);
        for (tower, column) in &mut self.towers {
            let mut from = *column;
            for output in &mut tower.outputs {
                output.gradient.resize(rows * output.width)?;
                let copy = ColumnCopy { from, to: 0, width: output.width };
                let (returned, to) = (&self.returned.floats.recv, &mut output.gradient);
                device.copy_columns(
                    rows,
                    &[copy],
                    Matrix { buffer: returned, at: 0, width: self.layout.leaving_width },
                    MatrixMut { buffer: to, at: 0, width: output.width },
                )?;
                from += output.width;
            }
            tower.backward(device, parameters, rows)?;
        }
        Ok(())
    }

    /// Step e in reverse.
    pub fn reverse_transpose(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let rows = self.peer_rows(input);
        for member in 0..self.layout.groups.size() {
            let samples = self.samples_of(input, member);
            self.gathered_gradients.floats.to[member] = rows * self.layout.members[member].0;
            self.gathered_gradients.floats.from[member] = samples * self.layout.whole.width;
            self.sum_gradients.from[member] = samples * self.layout.rows.width;
        }
        let Self { layout, towers, returned, .. } = self;
        let (gathered, sums) = (&mut self.gathered_gradients.floats.send, &mut self.sum_gradients.send);
        gathered.resize(self.gathered_gradients.floats.to.iter().sum())?;
        sums.resize(rows * layout.rows.width)?;
        let place = |columns: &[Transposed], to: &mut Buffer<f32>, at: usize, width: usize| {
            for Transposed { tower, back, .. } in columns {
                let (from, from_width) = match tower {
                    Some(tower) => (&towers[*tower].0.input_gradient, towers[*tower].0.width),
                    None => (&returned.floats.recv, layout.leaving_width),
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
        for (width, columns) in &layout.members {
            place(columns, gathered, at, *width)?;
            at += rows * width;
        }
        place(&layout.summed, sums, 0, layout.rows.width)
    }

    /// Step c in reverse.
    pub fn reverse_permute(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let arrived = [&self.gathered_gradients.floats.recv, &self.sum_gradients.recv];
        let widths = [self.layout.whole.width, self.layout.rows.width];
        for ((from, to), width) in arrived.into_iter().zip(&mut self.ordered_gradients).zip(widths) {
            to.resize(input.world_rows() * width)?;
            let mut at = 0;
            for &rank in &self.layout.peer_order {
                let samples = &input.samples[rank];
                copy_rows(device, samples.len(), width, from, at, to, samples.start)?;
                at += samples.len();
            }
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
        let gradients = match self.layout.permute {
            PeerPermute::Vectors => self.ordered_gradients.each_ref(),
            PeerPermute::Ids | PeerPermute::None => {
                [&self.gathered_gradients.floats.recv, &self.sum_gradients.recv]
            }
        };
        for (held, gradients) in [&self.layout.whole, &self.layout.rows].into_iter().zip(gradients) {
            let (which, columns) = (held.tables.clone(), &self.layout.table_columns);
            step.update(device, tables, which, columns, held.width, input, gradients)?;
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
