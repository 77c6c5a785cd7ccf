//! Prices: what a piece of a table costs its holder in a step, in seconds and in bytes.

use super::Request;
use crate::step::{Compute, ComputeClass, Transfer};
use spec::Pooling;
use spec::codec::Codec;
use spec::feature::Hotness;
use spec::schedule::CollectiveKind;
use spec::statistics::FeatureStatistics;
use spec::table_format::TableFormat;

/// Bytes of an id, a length or a float.
pub(super) const WORD: f64 = 4.0;

/// Bytes of memory that indexing and sorting touch for an id, as the schedule has it.
const SORTED: f64 = 24.0;

/// Bytes of memory that an id takes as it waits, is indexed and sorted, for two batches at a time.
const ID_MEMORY: f64 = 48.0;

/// Seconds a byte, and of a message: slopes of a cost model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Seconds a byte of memory that lookups and updates touch.
    pub touched: f64,
    /// Seconds a byte of ids, in the exchange over the world.
    pub ids: f64,
    /// Seconds a byte of vectors and gradients, in the exchange over the world or in a tower group.
    pub vectors: f64,
    /// Seconds a byte of vectors and gradients among peers.
    pub peers: f64,
    /// Seconds a byte of a vector that is reduced over the holders of copies.
    pub reduced: f64,
    /// Seconds a byte of what is gathered from all holders of copies.
    pub gathered: f64,
    /// Seconds of a message: the fixed part of an exchange, divided among its messages.
    pub message: f64,
}

/// Price of one piece on one holder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Price {
    /// Weighted seconds.
    pub cost: f64,
    /// Bytes of memory.
    pub memory: u64,
}

/// Rectangle of a table, by its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub feature: usize,
    /// Rows of the piece.
    pub rows: usize,
    /// Number of pieces that the rows of the table are cut into.
    pub row_pieces: usize,
    /// Columns of the piece.
    pub columns: usize,
}

/// Prices of a request.
pub(super) struct Prices<'a> {
    pub request: &'a Request<'a>,
    pub rates: Rates,
    /// Number format of all tables; `None` for the one that each has.
    pub format: Option<TableFormat>,
    /// Number of ids per sample of each feature.
    pub ids: Vec<f64>,
    pub statistics: Vec<Option<&'a FeatureStatistics>>,
    /// Whether weights travel with all ids because the model has them.
    pub weighted: bool,
    /// Bytes that every rank needs whatever the placement.
    pub fixed: u64,
}

impl<'a> Prices<'a> {
    pub(super) fn new(request: &'a Request<'a>) -> Self {
        let features = request.model.features();
        let of = |name: &str| request.statistics.and_then(|statistics| statistics.feature(name));
        let statistics: Vec<_> = features.iter().map(|feature| of(&feature.name)).collect();
        let mean = |(f, of): (usize, &Option<&FeatureStatistics>)| {
            of.map_or(features[f].hotness.mean() as f64, |of| of.mean_ids)
        };
        let ids = statistics.iter().enumerate().map(mean).collect();
        Self {
            request,
            rates: Rates::new(request),
            format: None,
            ids,
            statistics,
            weighted: request.model.weighted(),
            fixed: fixed(request),
        }
    }

    /// Ranks among which vectors are exchanged: the world, or a tower group.
    pub(super) fn members(&self) -> usize {
        self.request.groups.map_or(self.request.topology.ranks(), |groups| groups.size())
    }

    pub(super) fn ranks(&self) -> usize {
        self.request.topology.ranks()
    }

    pub(super) fn batch(&self) -> f64 {
        self.request.batch as f64
    }

    pub(super) fn name(&self, feature: usize) -> &'a str {
        &self.request.model.features()[feature].name
    }

    /// Different rows that so many ids name, of a piece that has so many.
    pub(super) fn distinct(&self, feature: usize, ids: f64, rows: f64) -> f64 {
        match self.statistics[feature] {
            Some(of) => of.distinct_in(ids).min(rows),
            None => -rows * (ids * (-1.0 / rows.max(1.0)).ln_1p()).exp_m1(),
        }
        .min(ids)
    }

    /// Weighted seconds of so many bytes of memory touched and seconds of communication.
    pub(super) fn weighted(&self, touched: f64, communication: f64) -> f64 {
        let weights = self.request.weights;
        weights.computation * touched * self.rates.touched + weights.communication * communication
    }

    /// Bytes of so many columns of a row of a feature's table.
    fn row_bytes(&self, feature: usize, columns: usize) -> f64 {
        let format = self.format.unwrap_or(self.request.model.table_format(feature));
        format.row_bytes(columns) as f64
    }

    /// Bytes of so many rows of so many columns of a feature's table, with their optimizer state.
    pub(super) fn stored(&self, feature: usize, rows: usize, columns: usize) -> f64 {
        let state = WORD * self.request.tables.state_per_row(columns) as f64;
        rows as f64 * (self.row_bytes(feature, columns) + state)
    }

    /// Price of a piece that one rank holds.
    pub(super) fn piece(&self, piece: Piece) -> Price {
        let Piece { feature, rows, row_pieces, columns } = piece;
        let of = &self.request.model.features()[feature];
        let (batch, width) = (self.batch(), columns as f64);
        let ids = batch * self.ids[feature] / row_pieces as f64;
        let wire = self.request.wire;
        let encoded = |codec: Codec| codec.encoded_bytes(self.request.batch as u64, columns as u64) as f64;
        let (vectors, gradients) = (encoded(wire.vectors), encoded(wire.gradients));
        let recoded = |codec: Codec, bytes| {
            if codec.encodes() { WORD * batch * width + bytes } else { 0.0 }
        };

        let state = 2.0 * WORD * self.request.tables.state_per_row(columns) as f64;
        // A row is looked up, read and written, and its gradient read; rows in another number format have fewer bytes.
        let saved = 3.0 * ids * (WORD * width - self.row_bytes(feature, columns));
        let touched = WORD * width * (4.0 * ids + batch) - saved
            + state * self.distinct(feature, ids, rows as f64)
            + SORTED * ids
            + recoded(wire.vectors, vectors)
            + recoded(wire.gradients, gradients);
        let cut_mean = row_pieces > 1 && of.pooling == Pooling::Mean && of.hotness != Hotness::One;
        let weights = if self.weighted || cut_mean { WORD * ids } else { 0.0 };
        let lengths = if of.hotness != Hotness::One || row_pieces > 1 { WORD * batch } else { 0.0 };
        let id = if rows as u64 > 1 << 32 { 2.0 * WORD } else { WORD };
        let communication = (id * ids + weights + lengths) * self.rates.ids
            + (vectors + gradients) * self.rates.vectors
            + 3.0 * self.rates.message;
        let buffers = 2.0 * WORD * batch * width
            + recoded(wire.vectors, vectors)
            + recoded(wire.gradients, gradients)
            + ID_MEMORY * ids;
        let memory = self.stored(feature, rows, columns) + buffers;
        Price { cost: self.weighted(touched, communication), memory: memory as u64 }
    }

    /// Bytes that a piece takes on every rank for the samples there: its vectors as they arrive, and their gradients.
    pub(super) fn arriving(&self, columns: usize) -> f64 {
        2.0 * WORD * self.batch() / self.ranks() as f64 * columns as f64
    }

    /// Seconds, on every rank of a tower's group, of the exchange of so many columns that leave the group.
    pub(super) fn leaving(&self, columns: usize) -> f64 {
        let samples = (self.request.batch / self.members().max(1)) as u64;
        let wire = self.request.wire;
        let encoded = |codec: Codec| codec.encoded_bytes(samples, columns as u64) as f64;
        self.weighted(0.0, (encoded(wire.vectors) + encoded(wire.gradients)) * self.rates.peers)
    }

    /// Bytes that a rank has for pieces; `u64::MAX` without a limit.
    pub(super) fn room(&self) -> u64 {
        self.request.memory.map_or(u64::MAX, |limit| limit.usable().saturating_sub(self.fixed))
    }
}

/// Bytes that every rank needs whatever the placement: dense parameters with gradients and two moments, and the vectors of its
/// samples side by side with their gradients.
fn fixed(request: &Request) -> u64 {
    let (model, ranks) = (request.model, request.topology.ranks() as f64);
    let features = 2.0 * request.batch as f64 / ranks * model.network().features_width() as f64;
    (WORD * (4.0 * model.dense_parameters() as f64 + features)) as u64
}

impl Rates {
    fn new(request: &Request) -> Self {
        let (topology, cost, system) = (request.topology, request.cost, request.system);
        let (ranks, hosts) = (topology.ranks(), topology.hosts());
        let (members, nodes) =
            request.groups.map_or((ranks, hosts), |groups| (groups.size(), groups.hosts_per_group()));
        let peers = request.groups.map_or(1, |groups| groups.count());
        let columns: usize = (0..request.model.features().len()).map(|f| request.model.row_width(f)).sum();
        // What a rank sends if vectors are spread evenly.
        let balanced = (WORD * request.batch as f64 * columns as f64 / ranks as f64).max(WORD);
        let slope =
            |seconds: &dyn Fn(f64) -> f64| (seconds(2.0 * balanced) - seconds(balanced)).max(0.0) / balanced;
        let all_to_all = |members, nodes| {
            slope(&|bytes| cost.transfer(&Transfer::all_to_all(members, nodes, bytes), system))
        };
        let of_vector =
            |kind| slope(&|bytes| cost.transfer(&Transfer::of_vector(kind, members, nodes, bytes), system));
        let empty = cost.transfer(&Transfer::all_to_all(members, nodes, 1.0), system);
        Self {
            touched: slope(&|bytes| {
                let (class, flops) = (ComputeClass::Embedding, bytes / WORD);
                cost.compute(&Compute { class, flops, bytes, operand: WORD }, system)
            }),
            ids: all_to_all(ranks, hosts),
            vectors: all_to_all(members, nodes),
            peers: all_to_all(peers, peers),
            reduced: of_vector(CollectiveKind::AllReduce),
            gathered: of_vector(CollectiveKind::AllGather),
            message: if members > 1 { empty / (members - 1) as f64 } else { 0.0 },
        }
    }
}
