//! One batch on its way to the tables: this rank's samples, their ids laid out by holder, and the world's ids that
//! arrived here. Two of these alternate, so that one batch can travel while the other trains.

use crate::Error;
use crate::source::Source;
use collectives::{CollectiveError, Communicator, Label, Pending};
use data::Batch;
use kernels::{BagIndex, Buffer, Device, Segment, SortedIds};
use spec::feature::Hotness;
use spec::model::Model;
use spec::placement::{Placement, share};
use std::ops::Range;

/// Buffers that travel together: what is sent by destination, what arrives by source.
#[derive(Debug)]
pub struct Exchange<T> {
    /// Laid out by destination.
    pub send: Buffer<T>,
    /// Laid out by source.
    pub recv: Buffer<T>,
    /// Elements to each rank.
    pub to: Vec<usize>,
    /// Elements from each rank.
    pub from: Vec<usize>,
}

/// The buffers of an exchange while it goes on: send, then recv.
type OnTheWay<T> = Pending<(Buffer<T>, Buffer<T>)>;

impl<T: kernels::Element> Exchange<T> {
    /// Nothing yet, among `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Self { send: Buffer::empty(), recv: Buffer::empty(), to: vec![0; ranks], from: vec![0; ranks] }
    }

    /// Sets both buffers on their way; whoever waits for them puts them back.
    pub fn start(&mut self, world: &Communicator, label: &Label) -> Result<OnTheWay<T>, CollectiveError> {
        let (send, recv) = (std::mem::take(&mut self.send), std::mem::take(&mut self.recv));
        world.start_all_to_all(label, send, &self.to, recv, &self.from)
    }
}

/// One batch.
#[derive(Debug)]
pub struct Input {
    rank: usize,
    /// This rank's samples, on the host.
    pub batch: Batch,
    /// Samples of each rank, and where they begin in the global batch.
    pub samples: Vec<Range<usize>>,
    /// Dense inputs of this rank's samples.
    pub dense: Buffer<f32>,
    /// Their labels.
    pub labels: Buffer<f32>,
    /// Bag lengths of features whose bags vary.
    pub lengths: Exchange<u32>,
    /// Ids.
    pub ids: Exchange<u32>,
    /// Weights of ids, where the model has any.
    pub weights: Exchange<f32>,
    /// Where the world's bags lie in the ids that arrived.
    pub index: BagIndex,
    /// The same ids by row.
    pub sorted: SortedIds,
    segments: Vec<Segment>,
    arrived_lengths: Vec<u32>,
}

impl Input {
    /// An empty batch of rank `rank` of `ranks`.
    pub fn new(rank: usize, ranks: usize) -> Self {
        Self {
            rank,
            batch: Batch::default(),
            samples: vec![0..0; ranks],
            dense: Buffer::empty(),
            labels: Buffer::empty(),
            lengths: Exchange::new(ranks),
            ids: Exchange::new(ranks),
            weights: Exchange::new(ranks),
            index: BagIndex::default(),
            sorted: SortedIds::default(),
            segments: Vec::new(),
            arrived_lengths: Vec::new(),
        }
    }

    /// This rank's samples.
    pub fn rows(&self) -> usize {
        self.samples[self.rank].len()
    }

    /// This rank's samples, as a part of the global batch.
    pub fn own(&self) -> Range<usize> {
        self.samples[self.rank].clone()
    }

    /// Samples of all ranks.
    pub fn world_rows(&self) -> usize {
        self.samples.last().map_or(0, |last| last.end)
    }

    /// Reads this rank's share of the global batch `global` and lays out its ids by holder.
    pub fn read(
        &mut self,
        source: &mut Source,
        model: &Model,
        placement: &Placement,
        global: Range<u64>,
    ) -> Result<(), Error> {
        let ranks = self.samples.len();
        let rows = (global.end - global.start) as usize;
        for (rank, samples) in self.samples.iter_mut().enumerate() {
            *samples = share(rows, ranks, rank);
        }
        let own = self.own();
        let first = global.start;
        source.read(first + own.start as u64..first + own.end as u64, model, &mut self.batch)?;

        let Self { batch, dense, labels, lengths, ids, weights, .. } = self;
        dense.resize(batch.dense.len())?;
        dense.write(0, &batch.dense);
        labels.resize(batch.samples)?;
        labels.write(0, &batch.labels);

        for to in 0..ranks {
            let held = placement.held_by(to);
            ids.to[to] = held.iter().map(|s| batch.values(s.feature).len()).sum();
            lengths.to[to] = held.iter().filter(|s| varies(model, s.feature)).count() * batch.samples;
        }
        ids.send.resize(ids.to.iter().sum())?;
        lengths.send.resize(lengths.to.iter().sum())?;
        if model.weighted() {
            weights.to.copy_from_slice(&ids.to);
            weights.send.resize(ids.send.len())?;
        }
        let (mut at, mut lengths_at) = (0, 0);
        for to in 0..ranks {
            for shard in placement.held_by(to) {
                let values = batch.values(shard.feature);
                ids.send.write(at, values);
                if model.weighted() {
                    weights.send.write(at, batch.weights(shard.feature));
                }
                at += values.len();
                if varies(model, shard.feature) {
                    lengths.send.write(lengths_at, batch.lengths(shard.feature));
                    lengths_at += batch.samples;
                }
            }
        }
        self.expect_lengths(model, placement);
        Ok(())
    }

    /// How many lengths arrive from each rank.
    fn expect_lengths(&mut self, model: &Model, placement: &Placement) {
        let variable = placement.held_by(self.rank).iter().filter(|s| varies(model, s.feature)).count();
        for (from, samples) in self.lengths.from.iter_mut().zip(&self.samples) {
            *from = variable * samples.len();
        }
    }

    /// Once the lengths are here: how many ids arrive from each rank, and where each table's lie.
    pub fn expect_ids(&mut self, model: &Model, placement: &Placement) -> Result<(), Error> {
        let Self { segments, arrived_lengths, lengths, ids, weights, .. } = self;
        arrived_lengths.resize(lengths.recv.len(), 0);
        lengths.recv.read(0, arrived_lengths);
        segments.clear();
        let (mut value, mut length) = (0, 0);
        for (source, samples) in self.samples.iter().enumerate() {
            let first = value;
            for (table, shard) in placement.held_by(self.rank).iter().enumerate() {
                let lengths_at = varies(model, shard.feature).then_some(length);
                let (samples, first_sample) = (samples.len(), samples.start);
                segments.push(Segment { table, first_sample, samples, first_value: value, lengths_at });
                value += match lengths_at {
                    None => samples,
                    Some(at) => {
                        length += samples;
                        arrived_lengths[at..at + samples].iter().map(|&n| n as usize).sum()
                    }
                };
            }
            ids.from[source] = value - first;
        }
        if model.weighted() {
            weights.from.copy_from_slice(&ids.from);
        }
        Ok(())
    }

    /// Finds the bags in the ids that arrived.
    pub fn find_bags(&mut self, device: &Device, placement: &Placement) -> Result<(), Error> {
        let tables = placement.held_by(self.rank).len();
        let (rows, values) = (self.world_rows(), self.ids.recv.len());
        device.index_bags(tables, rows, &self.segments, &self.lengths.recv, values, &mut self.index)?;
        Ok(())
    }
}

fn varies(model: &Model, feature: usize) -> bool {
    model.features()[feature].hotness != Hotness::One
}
