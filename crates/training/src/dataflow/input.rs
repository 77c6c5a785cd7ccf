//! One batch on its way to the tables: this rank's samples, their ids laid out by holder, and the world's ids that
//! arrived here. Two of these alternate, so that one batch can travel while the other trains.

use super::exchange::Exchange;
use super::touched::TouchedRows;
use crate::Error;
use crate::cache::BatchIds;
use crate::samples::source::Source;
use data::Batch;
use kernels::{
    BagIndex, Buffer, Device, DotShape, IndexBags, KernelError, PairVectors, Repeats, Segment, SortedIds,
    Upload,
};
use spec::model::{Model, ModelLabel};
use spec::placement::{Placement, Shard, share};
use std::ops::Range;

/// Batch of one rank, with its ids before and after the exchange.
#[derive(Debug)]
pub struct Input {
    rank: usize,
    /// Position of the first sample of the global batch.
    position: u64,
    /// This rank's samples, on the host.
    pub batch: Batch,
    /// Samples of each rank, and where they begin in the global batch.
    pub samples: Vec<Range<usize>>,
    /// Dense inputs of this rank's samples.
    pub dense: Buffer<f32>,
    /// Labels of this rank's samples: samples × labels.
    pub labels: Buffer<f32>,
    /// Weights of the losses of this rank's samples, as the labels; empty where all losses count 1.
    pub loss_weights: Buffer<f32>,
    /// Bag lengths of features whose bags vary; in host memory, since they size the exchange of ids.
    pub lengths: Exchange<u32>,
    /// Ids, by holder and by source.
    pub ids: Exchange<u32>,
    /// Weights of ids, where the model has any.
    pub weights: Exchange<f32>,
    /// Index of the world's bags in the ids that arrived.
    pub index: BagIndex,
    /// The ids that arrived, by row.
    pub sorted: SortedIds,
    /// Rows that several of them share, for updates that are fused with dot products.
    pub repeats: Repeats,
    /// Rows of data-parallel tables that the ids touch.
    pub touched: TouchedRows,
    /// Number of data-parallel tables held here; they are the last.
    copied: usize,
    /// Whether lengths of bags travel; where they do not, the ids to expect follow from the samples of a batch.
    lengths_travel: bool,
    segments: Vec<Segment>,
    arrived_lengths: Vec<u32>,
    outgoing: Outgoing,
    /// Weights of losses on the host.
    weighed: Vec<f32>,
    /// The batch on its way to the device.
    upload: Upload,
}

/// What the weight of a loss is made of, besides the weight of its sample.
#[derive(Clone, Copy, Debug)]
pub struct LossWeights<'a> {
    /// Factor of losses whose label is 1.
    pub positive: f32,
    /// Labels of a model with several; empty for a model with one.
    pub labels: &'a [ModelLabel],
}

/// Ids on the host, laid out by holder.
#[derive(Debug, Default)]
struct Outgoing {
    lengths: Vec<u32>,
    /// Pieces of ids, one behind the other.
    pieces: Vec<Piece>,
    /// Ids of all pieces.
    count: usize,
    /// Ids that are no whole features.
    ids: Vec<u32>,
    weights: Vec<f32>,
}

/// Ids that go to one holder.
#[derive(Clone, Debug)]
enum Piece {
    /// All ids of a feature, as they lie in the batch.
    Feature(usize),
    /// Ids that were put together.
    Apart(Range<usize>),
}

impl Input {
    /// An empty batch of `rank`, where tables have copies on `members` ranks.
    pub fn new(device: &Device, model: &Model, placement: &Placement, rank: usize, members: usize) -> Self {
        let ranks = placement.topology().ranks();
        Self {
            rank,
            position: 0,
            batch: Batch::default(),
            samples: vec![0..0; ranks],
            dense: Buffer::new(device),
            labels: Buffer::new(device),
            loss_weights: Buffer::new(device),
            lengths: Exchange::on_host(device, ranks),
            ids: Exchange::new(device, ranks),
            weights: Exchange::new(device, ranks),
            index: BagIndex::new(device),
            sorted: SortedIds::new(device),
            repeats: Repeats::new(device),
            touched: TouchedRows::new(device, members),
            copied: placement.copied_by(rank).len(),
            lengths_travel: placement.lengths_travel(model),
            segments: Vec::new(),
            arrived_lengths: Vec::new(),
            outgoing: Outgoing::default(),
            weighed: Vec::new(),
            upload: Upload::default(),
        }
    }

    /// Number of samples of this rank.
    pub fn rows(&self) -> usize {
        self.samples[self.rank].len()
    }

    /// Position of this rank's first sample, counted on over epochs.
    pub fn first(&self) -> u64 {
        self.position + self.own().start as u64
    }

    /// Range of this rank's samples in the global batch.
    pub fn own(&self) -> Range<usize> {
        self.samples[self.rank].clone()
    }

    /// Weights of the ids that arrived, where there are any.
    pub fn weights(&self) -> Option<&Buffer<f32>> {
        (!self.weights.recv.is_empty()).then_some(&self.weights.recv)
    }

    /// Ids whose vectors are multiplied with each other, on the only rank: tables have `columns`, and `first` is vector 0.
    pub fn pair_vectors<'a>(
        &'a self,
        shape: DotShape,
        columns: &'a [usize],
        first: &'a Buffer<f32>,
    ) -> PairVectors<'a> {
        let (index, values, weights) = (&self.index, &self.ids.recv, self.weights());
        PairVectors { shape, columns, index, values, weights, first }
    }

    /// Number of samples of all ranks.
    pub fn world_rows(&self) -> usize {
        self.samples.last().map_or(0, |last| last.end)
    }

    /// Weights of the losses; `None` where all count 1.
    pub fn weights_of_losses(&self) -> Option<&Buffer<f32>> {
        (!self.weighed.is_empty()).then_some(&self.loss_weights)
    }

    /// Sets the weight of every loss of the batch: of its sample × of clicks where its label is 1 × of its label.
    pub fn weigh(&mut self, weights: LossWeights) {
        let Self { batch, weighed, .. } = self;
        weighed.clear();
        let even = weights.labels.iter().all(|label| label.weight == 1.0);
        if batch.sample_weights.is_empty() && weights.positive == 1.0 && even {
            return;
        }
        let labels = weights.labels.len().max(1);
        for (i, &label) in batch.labels.iter().enumerate() {
            let of_sample = batch.sample_weights.get(i / labels).copied().unwrap_or(1.0);
            let of_label = weights.labels.get(i % labels).map_or(1.0, |label| label.weight);
            let of_class = if label == 1.0 { weights.positive } else { 1.0 };
            weighed.push(of_sample * of_class * of_label);
        }
    }

    /// Sets the batch out to the device, all of it in one piece of host memory.
    pub fn upload(&mut self, device: &Device) -> Result<(), KernelError> {
        let Self { batch, dense, labels, loss_weights, ids, weights, outgoing, weighed, upload, .. } = self;
        let floats = [&batch.dense, &batch.labels, weighed, &outgoing.weights];
        let numbers = outgoing.count + floats.iter().map(|floats| floats.len()).sum::<usize>();
        upload.begin(device, size_of::<u32>() * numbers)?;
        for (buffer, floats) in [dense, labels, loss_weights, &mut weights.send].into_iter().zip(floats) {
            buffer.resize(floats.len())?;
            upload.write(buffer, 0, floats)?;
        }
        ids.send.resize(outgoing.count)?;
        let pieces = outgoing.pieces.iter().map(|piece| outgoing.ids_of(piece, batch));
        upload.write_pieces(&mut ids.send, 0, pieces)?;
        upload.end()
    }

    /// Reads this rank's share of the global batch `global` and lays out its ids by holder; [`Input::upload`] sends them.
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
        self.position = global.start;
        let first = self.first();
        source.read(first..first + own.len() as u64, model, &mut self.batch)?;

        let Self { batch, lengths, ids, weights, outgoing, .. } = self;
        outgoing.clear();
        let weighted = placement.weights_travel(model);
        for to in 0..ranks {
            let (ids_before, lengths_before) = (outgoing.count, outgoing.lengths.len());
            for shard in placement.held_by(to) {
                if !placement.serves(shard, to, self.rank) {
                    // Another copy gets these ids.
                } else if shard.row_pieces() > 1 {
                    let mean = placement.mean_by_weight(model, shard.feature);
                    outgoing.push_rows(batch, shard, weighted, mean);
                } else {
                    outgoing.push_bags(batch, shard, weighted, placement.lengths_vary(model, shard));
                }
            }
            ids.to[to] = outgoing.count - ids_before;
            lengths.to[to] = outgoing.lengths.len() - lengths_before;
        }
        lengths.send.resize(outgoing.lengths.len())?;
        lengths.send.write(0, &outgoing.lengths)?;
        if weighted {
            weights.to.copy_from_slice(&ids.to);
        }
        self.expect_lengths(model, placement);
        if !self.lengths_travel {
            self.expect_ids(model, placement)?;
        }
        Ok(())
    }

    /// Computes how many bag lengths arrive from each rank.
    fn expect_lengths(&mut self, model: &Model, placement: &Placement) {
        let held = placement.held_by(self.rank);
        let variable = |shard: &&Shard| placement.lengths_vary(model, shard);
        let (held, copied) = held.split_at(held.len() - placement.copied_by(self.rank).len());
        let of_world = held.iter().filter(variable).count();
        for (source, (from, samples)) in self.lengths.from.iter_mut().zip(&self.samples).enumerate() {
            let served = |shard: &&Shard| variable(shard) && placement.serves(shard, self.rank, source);
            *from = (of_world + copied.iter().filter(served).count()) * samples.len();
        }
    }

    /// Says how many ids arrive from each rank, and where those of each table lie, once the lengths of bags are here.
    pub fn expect_ids(&mut self, model: &Model, placement: &Placement) -> Result<(), Error> {
        let Self { segments, arrived_lengths, lengths, ids, weights, copied, .. } = self;
        arrived_lengths.resize(lengths.recv.len(), 0);
        lengths.recv.read(0, arrived_lengths)?;
        let held = placement.held_by(self.rank);
        segments.clear();
        // Exactly as many as there are: with many ranks they are much.
        segments.reserve_exact(self.samples.len() * held.len());
        let first_copy = held.len() - *copied;
        // Bags of copies are numbered by the samples that they serve: the same ones, whatever the table.
        let (mut value, mut length, mut served) = (0, 0, 0);
        for (source, samples) in self.samples.iter().enumerate() {
            let (first, mut serves_source) = (value, false);
            for (table, shard) in held.iter().enumerate() {
                let lengths_at = placement.lengths_vary(model, shard).then_some(length);
                let (samples, first_sample) = match table < first_copy {
                    true => (samples.len(), samples.start),
                    false if placement.serves(shard, self.rank, source) => {
                        serves_source = true;
                        (samples.len(), served)
                    }
                    false => (0, served),
                };
                segments.push(Segment { table, first_sample, samples, first_value: value, lengths_at });
                value += match lengths_at {
                    None => samples,
                    Some(at) => {
                        length += samples;
                        arrived_lengths[at..at + samples].iter().map(|&n| n as usize).sum()
                    }
                };
            }
            served += if serves_source { samples.len() } else { 0 };
            ids.from[source] = value - first;
        }
        if placement.weights_travel(model) {
            weights.from.copy_from_slice(&ids.from);
        }
        Ok(())
    }

    /// Finds the bags in the ids that arrived. They are numbered by sample, rank after rank; with `order`, in that order of
    /// the ranks. Bags of data-parallel tables are numbered by the samples that are served here, rank after rank.
    pub fn find_bags(
        &mut self,
        device: &Device,
        placement: &Placement,
        order: Option<&[usize]>,
    ) -> Result<(), Error> {
        let tables = placement.held_by(self.rank).len();
        if let Some(order) = order {
            let mut first_sample = 0;
            for &source in order {
                // Segments lie source by source, a table each.
                let ordered = tables - self.copied;
                for segment in &mut self.segments[source * tables..][..ordered] {
                    segment.first_sample = first_sample;
                }
                first_sample += self.samples[source].len();
            }
        }
        let (rows, values) = (self.world_rows(), self.ids.recv.len());
        device.index_bags(IndexBags {
            tables,
            samples: rows,
            segments: &self.segments,
            lengths: &self.arrived_lengths,
            values,
            index: &mut self.index,
        })?;
        Ok(())
    }
}

impl BatchIds for Input {
    fn read(&self, ids: &mut Vec<u32>) -> Result<(), Error> {
        ids.resize(self.ids.recv.len(), 0);
        Ok(self.ids.recv.read(0, ids)?)
    }

    fn ranges(&self, table: usize) -> impl Iterator<Item = Range<usize>> {
        let Self { segments, ids, .. } = self;
        let of_table = segments.iter().enumerate().filter(move |(_, segment)| segment.table == table);
        // Segments lie one behind another.
        let end = |i: usize| segments.get(i + 1).map_or(ids.recv.len(), |next| next.first_value);
        of_table.map(move |(i, segment)| segment.first_value..end(i))
    }

    fn replace(&mut self, ids: &[u32]) -> Result<(), Error> {
        Ok(self.ids.recv.write(0, ids)?)
    }
}

/// Ids that arrived, by source and table.
#[derive(Debug)]
pub(super) struct ArrivedIds<'a> {
    segments: &'a [Segment],
    ids: &'a Buffer<u32>,
}

impl Input {
    /// Sorted ids, the rows of data-parallel tables that are to be found in them, and the ids as they arrived.
    pub(super) fn rows_to_touch(&mut self) -> (&SortedIds, &mut TouchedRows, ArrivedIds<'_>) {
        let Self { sorted, touched, segments, ids, .. } = self;
        (sorted, touched, ArrivedIds { segments, ids: &ids.recv })
    }
}

impl ArrivedIds<'_> {
    /// Reads the ids of a table.
    pub fn read(&self, table: usize, ids: &mut Vec<u32>) -> Result<(), Error> {
        ids.clear();
        for (i, segment) in self.segments.iter().enumerate().filter(|(_, segment)| segment.table == table) {
            // Segments lie one behind another.
            let end = self.segments.get(i + 1).map_or(self.ids.len(), |next| next.first_value);
            let at = ids.len();
            ids.resize(at + end - segment.first_value, 0);
            self.ids.read(segment.first_value, &mut ids[at..])?;
        }
        Ok(())
    }
}

impl Outgoing {
    fn clear(&mut self) {
        self.lengths.clear();
        self.pieces.clear();
        self.count = 0;
        self.ids.clear();
        self.weights.clear();
    }

    /// Ids of a piece; `batch` is the one that was laid out.
    fn ids_of<'a>(&'a self, piece: &Piece, batch: &'a Batch) -> &'a [u32] {
        match piece {
            Piece::Feature(feature) => batch.values(*feature),
            Piece::Apart(range) => &self.ids[range.clone()],
        }
    }

    /// Whole bags of a feature.
    fn push_bags(&mut self, batch: &Batch, shard: &Shard, weighted: bool, lengths: bool) {
        self.pieces.push(Piece::Feature(shard.feature));
        self.count += batch.values(shard.feature).len();
        if lengths {
            self.lengths.extend_from_slice(batch.lengths(shard.feature));
        }
        if weighted && batch.weights.is_empty() {
            self.weights.resize(self.count, 1.0);
        } else if weighted {
            self.weights.extend_from_slice(batch.weights(shard.feature));
        }
    }

    /// The ids of a feature whose rows a shard has, counted from its first row. For a mean, weights are divided by the
    /// length of the whole bag, which the holder does not see.
    fn push_rows(&mut self, batch: &Batch, shard: &Shard, weighted: bool, mean: bool) {
        let Range { start, end } = shard.rows;
        let values = batch.values(shard.feature);
        let given = (weighted && !batch.weights.is_empty()).then(|| batch.weights(shard.feature));
        let (mut at, first) = (0, self.ids.len());
        for &length in batch.lengths(shard.feature) {
            let before = self.ids.len();
            for i in at..at + length as usize {
                if (start..end).contains(&(values[i] as usize)) {
                    self.ids.push(values[i] - start as u32);
                    if weighted {
                        let weight = given.map_or(1.0, |weights| weights[i]);
                        self.weights.push(if mean { weight / length as f32 } else { weight });
                    }
                }
            }
            at += length as usize;
            self.lengths.push((self.ids.len() - before) as u32);
        }
        self.pieces.push(Piece::Apart(first..self.ids.len()));
        self.count += self.ids.len() - first;
    }
}
