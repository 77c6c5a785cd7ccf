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

use super::exchange::Exchange;
use super::input::Input;
use super::tables::columns;
use super::{Step, dense_vector, merge, reversed};
use crate::Error;
use crate::dense::Parameters;
use crate::tower::Tower;
use kernels::{Buffer, ColumnCopy, Device, Table};
use spec::dataflow::{self, PeerPermute, Route, Source};
use spec::model::Model;
use spec::placement::{Placement, Shard, width};
use spec::topology::Groups;
use std::ops::Range;

/// What one rank exchanges.
#[derive(Debug)]
pub struct Sptt {
    groups: Groups,
    index: usize,
    permute: PeerPermute,
    peer_order: Vec<usize>,
    /// Whole tables and pieces of rows, and where the columns of each begin among its like.
    whole: Held,
    rows: Held,
    table_columns: Vec<usize>,
    /// Columns that each member of the group sends in step d, and where they go.
    members: Vec<(usize, Vec<Transposed>)>,
    summed: Vec<Transposed>,
    /// The group's towers, and where the output of each begins among what leaves.
    towers: Vec<(Tower, usize)>,
    leaving_width: usize,
    /// Columns that arrive from each group, and where they go in the order that the interaction sees.
    arriving: Vec<(usize, Vec<ColumnCopy>)>,
    returning: Vec<Vec<ColumnCopy>>,
    dense: Option<ColumnCopy>,
    features_width: usize,
    /// What was looked up in the order of ranks, where step c is yet to bring it into peer order.
    unordered: [Buffer<f32>; 2],
    /// Step d: vectors of whole tables.
    pub gathered: Exchange<f32>,
    /// Step d: partial sums.
    pub sums: Exchange<f32>,
    /// Step f.
    pub leaving: Exchange<f32>,
    /// Step f in reverse.
    pub returned: Exchange<f32>,
    /// Step d in reverse, of whole tables.
    pub gathered_gradients: Exchange<f32>,
    /// Step d in reverse, of sums.
    pub sum_gradients: Exchange<f32>,
    ordered_gradients: [Buffer<f32>; 2],
}

/// Tables held here that are exchanged in one way.
#[derive(Debug)]
struct Held {
    /// Which of the rank's tables.
    tables: Range<usize>,
    /// Their columns side by side.
    width: usize,
}

/// Columns of what a member sent that go to one place.
#[derive(Debug)]
struct Transposed {
    /// Which of the group's towers sees them; `None` for what leaves as it is.
    tower: Option<usize>,
    copies: Vec<ColumnCopy>,
    back: Vec<ColumnCopy>,
}

impl Sptt {
    /// Of `rank`, with the modules of its group's towers over `parameters`.
    pub fn new(
        model: &Model,
        placement: &Placement,
        plan: &dataflow::Sptt,
        rank: usize,
        parameters: &Parameters,
    ) -> Self {
        let groups = plan.groups();
        let (group, index) = (groups.group_of(rank), groups.index_of(rank));
        let here = plan.plan(group);
        let whole = placement.whole_by(rank);
        let rows = placement.rows_by(rank);
        let transposed = |shards: &[Shard]| {
            let routes = shards.iter().zip(columns(shards)).flat_map(|(shard, at)| {
                let at_column = move |route: Route| Route { from: at + route.from, ..route };
                plan.routes(model, group, shard).into_iter().map(at_column)
            });
            by_place(routes.collect(), &here.towers)
        };
        let mut towers = Vec::new();
        let mut column = 0;
        for output in &here.outputs {
            if let Source::Tower(tower) = output.source {
                let module = Tower::new(&model.towers()[tower], parameters);
                towers.push((tower, module.expect("a plan lists towers that have modules"), column));
            }
            column += output.width;
        }
        towers.sort_by_key(|(tower, ..)| *tower);
        let arriving: Vec<(usize, Vec<ColumnCopy>)> = (0..groups.count())
            .map(|g| {
                let mut from = 0;
                let copy = |output: &dataflow::Output| {
                    let copy = ColumnCopy { from, to: output.place, width: output.width };
                    from += output.width;
                    copy
                };
                (plan.plan(g).output_width(), merge(plan.plan(g).outputs.iter().map(copy).collect()))
            })
            .collect();
        let (peers, members) = (groups.count(), groups.size());
        Self {
            groups,
            index,
            permute: plan.permute(),
            peer_order: groups.peer_order(),
            whole: Held { tables: 0..whole.len(), width: width(whole) },
            rows: Held { tables: whole.len()..whole.len() + rows.len(), width: width(rows) },
            table_columns: columns(whole).into_iter().chain(columns(rows)).collect(),
            members: groups
                .members(group)
                .map(|member| placement.whole_by(member))
                .map(|shards| (width(shards), transposed(shards)))
                .collect(),
            summed: transposed(rows),
            towers: towers.into_iter().map(|(_, module, column)| (module, column)).collect(),
            leaving_width: here.output_width(),
            returning: arriving.iter().map(|(_, copies)| reversed(copies.clone())).collect(),
            arriving,
            dense: dense_vector(model),
            features_width: model.network().interaction.input_width(),
            unordered: [Buffer::empty(), Buffer::empty()],
            gathered: Exchange::new(members),
            sums: Exchange::new(members),
            leaving: Exchange::new(peers),
            returned: Exchange::new(peers),
            gathered_gradients: Exchange::new(members),
            sum_gradients: Exchange::new(members),
            ordered_gradients: [Buffer::empty(), Buffer::empty()],
        }
    }

    /// All ranks by (index in group, group).
    pub fn peer_order(&self) -> &[usize] {
        &self.peer_order
    }

    /// Samples of all ranks of one index.
    fn samples_of(&self, input: &Input, index: usize) -> usize {
        self.groups.peers(index).map(|rank| input.samples[rank].len()).sum()
    }

    /// Samples of this rank and its peers.
    fn peer_rows(&self, input: &Input) -> usize {
        self.samples_of(input, self.index)
    }

    /// Step b: looks up the world's samples in the tables held here.
    pub fn lookup(&mut self, device: &Device, tables: &[Table], input: &Input) -> Result<(), Error> {
        let rows = input.world_rows();
        let outputs = match self.permute {
            PeerPermute::Vectors => self.unordered.each_mut(),
            PeerPermute::Ids | PeerPermute::None => [&mut self.gathered.send, &mut self.sums.send],
        };
        for (held, output) in [&self.whole, &self.rows].into_iter().zip(outputs) {
            output.resize(rows * held.width)?;
            let (which, columns) = (held.tables.clone(), &self.table_columns);
            let (index, ids, weights) = (&input.index, &input.ids.recv, input.weights());
            device.lookup(tables, which, columns, held.width, index, 0..rows, ids, weights, output)?;
        }
        for member in 0..self.groups.size() {
            let samples = self.samples_of(input, member);
            self.gathered.to[member] = samples * self.whole.width;
            self.sums.to[member] = samples * self.rows.width;
            self.gathered.from[member] = self.peer_rows(input) * self.members[member].0;
        }
        Ok(())
    }

    /// Step c: from the order of ranks to peer order.
    pub fn permute_peers(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let ordered = [&mut self.gathered.send, &mut self.sums.send];
        let widths = [self.whole.width, self.rows.width];
        for ((from, to), width) in self.unordered.iter().zip(ordered).zip(widths) {
            to.resize(input.world_rows() * width)?;
            let mut at = 0;
            for &rank in &self.peer_order {
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
        self.leaving.send.resize(rows * self.leaving_width)?;
        for (tower, _) in &mut self.towers {
            tower.input.resize(rows * tower.width)?;
        }
        let Self { members, summed, towers, leaving, leaving_width, gathered, sums, .. } = self;
        let mut place = |columns: &[Transposed], from: &Buffer<f32>, at: usize, width: usize| {
            for Transposed { tower, copies, .. } in columns {
                let (to, to_width) = match tower {
                    Some(tower) => {
                        let tower = &mut towers[*tower].0;
                        (&mut tower.input, tower.width)
                    }
                    None => (&mut leaving.send, *leaving_width),
                };
                device.copy_columns(rows, copies, from, at, width, to, 0, to_width)?;
            }
            Ok::<(), Error>(())
        };
        let mut at = 0;
        for (width, columns) in members.iter() {
            place(columns, &gathered.recv, at, *width)?;
            at += rows * width;
        }
        place(summed, &sums.recv, 0, self.rows.width)?;
        self.expect_peers(input);
        Ok(())
    }

    fn expect_peers(&mut self, input: &Input) {
        for (group, rank) in self.groups.peers(self.index).enumerate() {
            self.leaving.to[group] = input.samples[rank].len() * self.leaving_width;
            self.leaving.from[group] = input.rows() * self.arriving[group].0;
        }
        // The way back.
        self.returned.to.clone_from(&self.leaving.from);
        self.returned.from.clone_from(&self.leaving.to);
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
                let (from, leaving) = (&output.values, &mut self.leaving.send);
                device.copy_columns(rows, &[copy], from, 0, output.width, leaving, 0, self.leaving_width)?;
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
        let to_width = self.features_width;
        features.resize(rows * to_width)?;
        if let (Some(copy), Some(dense)) = (self.dense, dense) {
            device.copy_columns(rows, &[copy], dense, 0, copy.width, features, 0, to_width)?;
        }
        let mut at = 0;
        for (width, copies) in &self.arriving {
            device.copy_columns(rows, copies, &self.leaving.recv, at, *width, features, 0, to_width)?;
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
        ddense: &mut Buffer<f32>,
    ) -> Result<(), Error> {
        let from_width = self.features_width;
        if let Some(copy) = self.dense {
            ddense.resize(rows * copy.width)?;
            device.copy_columns(rows, &[copy], dfeatures, 0, from_width, ddense, 0, copy.width)?;
        }
        let send = &mut self.returned.send;
        send.resize(self.returned.to.iter().sum())?;
        let mut at = 0;
        for (copies, (width, _)) in self.returning.iter().zip(&self.arriving) {
            device.copy_columns(rows, copies, dfeatures, 0, from_width, send, at, *width)?;
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
                let (returned, to) = (&self.returned.recv, &mut output.gradient);
                device.copy_columns(rows, &[copy], returned, 0, self.leaving_width, to, 0, output.width)?;
                from += output.width;
            }
            tower.backward(device, parameters, rows)?;
        }
        Ok(())
    }

    /// Step e in reverse.
    pub fn reverse_transpose(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let rows = self.peer_rows(input);
        for member in 0..self.groups.size() {
            let samples = self.samples_of(input, member);
            self.gathered_gradients.to[member] = rows * self.members[member].0;
            self.gathered_gradients.from[member] = samples * self.whole.width;
            self.sum_gradients.from[member] = samples * self.rows.width;
        }
        let Self { members, summed, towers, returned, leaving_width, .. } = self;
        let (gathered, sums) = (&mut self.gathered_gradients.send, &mut self.sum_gradients.send);
        gathered.resize(self.gathered_gradients.to.iter().sum())?;
        sums.resize(rows * self.rows.width)?;
        let place = |columns: &[Transposed], to: &mut Buffer<f32>, at: usize, width: usize| {
            for Transposed { tower, back, .. } in columns {
                let (from, from_width) = match tower {
                    Some(tower) => (&towers[*tower].0.input_gradient, towers[*tower].0.width),
                    None => (&returned.recv, *leaving_width),
                };
                device.copy_columns(rows, back, from, 0, from_width, to, at, width)?;
            }
            Ok::<(), Error>(())
        };
        let mut at = 0;
        for (width, columns) in members.iter() {
            place(columns, gathered, at, *width)?;
            at += rows * width;
        }
        place(summed, sums, 0, self.rows.width)
    }

    /// Step c in reverse.
    pub fn reverse_permute(&mut self, device: &Device, input: &Input) -> Result<(), Error> {
        let arrived = [&self.gathered_gradients.recv, &self.sum_gradients.recv];
        let widths = [self.whole.width, self.rows.width];
        for ((from, to), width) in arrived.into_iter().zip(&mut self.ordered_gradients).zip(widths) {
            to.resize(input.world_rows() * width)?;
            let mut at = 0;
            for &rank in &self.peer_order {
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
        let gradients = match self.permute {
            PeerPermute::Vectors => self.ordered_gradients.each_ref(),
            PeerPermute::Ids | PeerPermute::None => [&self.gathered_gradients.recv, &self.sum_gradients.recv],
        };
        for (held, gradients) in [&self.whole, &self.rows].into_iter().zip(gradients) {
            let (which, columns) = (held.tables.clone(), &self.table_columns);
            step.update(device, tables, which, columns, held.width, input, gradients)?;
        }
        Ok(())
    }
}

/// Routes by where they go, each place once.
fn by_place(routes: Vec<Route>, towers: &[usize]) -> Vec<Transposed> {
    let mut places: Vec<Option<usize>> = routes.iter().map(|route| route.tower).collect();
    places.sort_unstable();
    places.dedup();
    let of_place = |place: Option<usize>| {
        let here = routes.iter().filter(|route| route.tower == place);
        let copies = merge(here.map(|r| ColumnCopy { from: r.from, to: r.to, width: r.width }).collect());
        let tower = place.and_then(|place| towers.iter().position(|&tower| tower == place));
        Transposed { tower, back: reversed(copies.clone()), copies }
    };
    places.into_iter().map(of_place).collect()
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
    Ok(device.copy_columns(rows, &[copy], from, from_row * width, width, to, to_row * width, width)?)
}
