//! Placement: which rank holds which shard of which table.
//!
//! A placement is a list of shards, each a rectangle of a table (rows × columns) and the ranks that hold it. The kinds that
//! people know (table-wise, row-wise, column-wise …) are names for lists of a certain form: [`Layout`]s are such names in a
//! config, a [`Scheme`] is the name that a table's shards have.
//!
//! ```
//! use spec::placement::{Layout, Placement, Scheme};
//! use spec::presets::{ModelKind, Preset};
//! use spec::topology::Topology;
//! let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
//! let cluster = Topology::new(2, 2).unwrap();
//! let mut layouts: Vec<Layout> = (0..26).map(|table| Layout::TableWise { rank: table % 4 }).collect();
//! layouts[0] = Layout::Grid { rows: 2, columns: 2, ranks: vec![0, 1, 2, 3] };
//! let placement = Placement::of_layouts(&model, cluster, &layouts).unwrap();
//! assert_eq!(placement.scheme(0), Scheme::Grid);
//! assert_eq!(placement.owned_by(3).len(), 7);
//! ```

mod copies;
mod cut;
mod error;
mod layout;
mod scheme;
mod tiling;

pub use cut::Cut;
pub use error::PlacementError;
pub use ground::share;
pub use layout::{HostCut, Layout};
pub use scheme::Scheme;

use crate::Pooling;
use crate::feature::Hotness;
use crate::model::Model;
use crate::topology::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Shards of all tables, by feature. Clones share them: every rank has a clone that lists the shards of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    topology: Topology,
    shards: Arc<[Shard]>,
    /// Index of the first shard of each feature, and the number of shards behind them.
    starts: Arc<[usize]>,
    held: Arc<[Vec<Shard>]>,
}

/// Shard: a rectangle of a table, and the ranks that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Index of the feature.
    pub feature: usize,
    /// Rows of the table in the shard.
    pub rows: Range<usize>,
    /// Columns of the table in the shard.
    pub columns: Range<usize>,
    /// Ranks that hold the shard.
    pub holders: Holders,
    /// Number of the piece of rows that the shard is, and number of these pieces. Known once the shard is placed.
    piece: (usize, usize),
}

/// Ranks that hold a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holders {
    /// One rank holds the shard.
    Rank(usize),
    /// Several ranks hold a copy each.
    Copies {
        /// Ranks with a copy, in ascending order.
        ranks: Arc<[usize]>,
        /// What keeps the copies equal.
        update: CopyUpdate,
    },
}

/// What keeps the copies of a shard equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopyUpdate {
    /// Every copy gets the ids and the gradients of every sample, so that updates have the bits of a single holder.
    Samples,
    /// A copy gets the ids and the gradients of the samples that it serves; sums of gradients by row are reduced over the
    /// copies.
    Rows,
    /// A copy has the cores of a tensor train instead of rows, and gets the ids and the gradients of the samples that it serves; gradients
    /// of the cores are reduced over the copies, as those of other dense parameters are.
    Cores,
}

impl Holders {
    /// Ranks that hold the shard.
    pub fn ranks(&self) -> &[usize] {
        match self {
            Holders::Rank(rank) => std::slice::from_ref(rank),
            Holders::Copies { ranks, .. } => ranks,
        }
    }

    /// What keeps the copies equal; `None` for a single holder.
    pub fn copy_update(&self) -> Option<CopyUpdate> {
        match self {
            Holders::Rank(_) => None,
            Holders::Copies { update, .. } => Some(*update),
        }
    }
}

impl Shard {
    /// Makes a shard that is yet to be placed.
    pub fn new(feature: usize, rows: Range<usize>, columns: Range<usize>, holders: Holders) -> Self {
        Self { feature, rows, columns, holders, piece: (0, 1) }
    }

    /// Number of the piece of rows that the shard is; 0 if rows are not cut.
    pub fn piece(&self) -> usize {
        self.piece.0
    }

    /// Number of bytes of an id that names a row of the shard: 4, or 8 if the shard has more than 2³² rows.
    pub fn id_bytes(&self) -> u64 {
        if self.rows.len() > 1 << 32 { 8 } else { 4 }
    }

    /// Number of pieces into which the rows of the table are cut.
    pub fn row_pieces(&self) -> usize {
        self.piece.1
    }

    /// Whether the shard has copies that are kept equal in this way.
    fn is_copy(&self, update: CopyUpdate) -> bool {
        self.holders.copy_update() == Some(update)
    }

    /// Whether the shard has copies each of which serves some samples only.
    fn serves_some(&self) -> bool {
        self.is_copy(CopyUpdate::Rows) || self.is_copy(CopyUpdate::Cores)
    }

    /// Whether the shard is a tensor train, which has no rows of its own.
    pub fn is_tensor_train(&self) -> bool {
        self.is_copy(CopyUpdate::Cores)
    }

    /// Place of the shard among those of its rank: whole ones, pieces of rows (those of fewer pieces first), copies, tensor trains.
    fn order(&self) -> (usize, usize) {
        match &self.holders {
            Holders::Rank(_) if self.row_pieces() == 1 => (0, 0),
            Holders::Rank(_) => (1, self.row_pieces()),
            Holders::Copies { update: CopyUpdate::Samples, .. } => (2, 0),
            Holders::Copies { update: CopyUpdate::Rows, .. } => (3, 0),
            Holders::Copies { update: CopyUpdate::Cores, .. } => (4, 0),
        }
    }
}

impl Placement {
    /// Checks `shards` against the model and the cluster: the shards of a table form a grid in which every rectangle is there
    /// once, and every holder exists. Shards may be in any order.
    pub fn new(model: &Model, topology: Topology, mut shards: Vec<Shard>) -> Result<Self, PlacementError> {
        let count = model.features().len();
        if let Some(shard) = shards.iter().find(|shard| shard.feature >= count) {
            return Err(PlacementError::Feature { feature: shard.feature, count });
        }
        shards.sort_by_key(|shard| (shard.feature, shard.rows.start, shard.columns.start));
        let mut starts = Vec::with_capacity(count + 1);
        for feature in 0..count {
            let start = shards.partition_point(|shard| shard.feature < feature);
            let end = shards.partition_point(|shard| shard.feature <= feature);
            starts.push(start);
            tiling::check(model, topology, feature, &mut shards[start..end])?;
        }
        starts.push(shards.len());
        let mut held = vec![Vec::new(); topology.ranks()];
        for shard in &shards {
            shard.holders.ranks().iter().for_each(|&rank| held[rank].push(shard.clone()));
        }
        held.iter_mut().for_each(|shards| shards.sort_by_key(Shard::order));
        Ok(Self { topology, shards: shards.into(), starts: starts.into(), held: held.into() })
    }

    /// Placement of tables that are laid out as these words say, one for each feature.
    pub fn of_layouts(model: &Model, topology: Topology, layouts: &[Layout]) -> Result<Self, PlacementError> {
        let expected = model.features().len();
        if layouts.len() != expected {
            return Err(PlacementError::Count { expected, got: layouts.len() });
        }
        let mut shards = Vec::with_capacity(layouts.len());
        for (feature, layout) in layouts.iter().enumerate() {
            shards.extend(layout.shards(model, feature, topology)?);
        }
        Self::new(model, topology, shards)
    }

    /// Cluster of the placement.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// Shards of all tables, by feature, then by rows, then by columns.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Shards of a feature's table, by rows and then by columns.
    pub fn shards_of(&self, feature: usize) -> &[Shard] {
        &self.shards[self.starts[feature]..self.starts[feature + 1]]
    }

    /// Shards that `rank` holds: whole shards by feature, then pieces of rows (those of fewer pieces first), then copies, then tensor trains.
    pub fn held_by(&self, rank: usize) -> &[Shard] {
        &self.held[rank]
    }

    /// Shards that `rank` holds and that have rows, in the same order: all but the tensor trains.
    pub fn with_rows_by(&self, rank: usize) -> &[Shard] {
        before(self.held_by(rank), Shard::is_tensor_train)
    }

    /// Tensor trains that `rank` holds, by feature: the last of its shards.
    pub fn tensor_trains_by(&self, rank: usize) -> &[Shard] {
        &self.held_by(rank)[self.with_rows_by(rank).len()..]
    }

    /// Shards that `rank` alone holds.
    pub fn owned_by(&self, rank: usize) -> &[Shard] {
        before(self.held_by(rank), |shard| shard.holders.copy_update().is_some())
    }

    /// Shards that `rank` alone holds and whose vectors, or partial sums, are sent one by one, where vectors are exchanged
    /// among so many `members`.
    pub fn sent_by(&self, rank: usize, members: usize) -> &[Shard] {
        before(self.owned_by(rank), |shard| shard.row_pieces() > 1 && shard.row_pieces() == members)
    }

    /// Shards of which every one of so many `members` holds a piece of the rows, so that their partial sums are added up by
    /// a reduce-scatter.
    pub fn summed_by(&self, rank: usize, members: usize) -> &[Shard] {
        &self.owned_by(rank)[self.sent_by(rank, members).len()..]
    }

    /// Tables that every rank holds, and whose copies get the gradient of every sample, by feature.
    pub fn replicated(&self) -> &[Shard] {
        let copies = &self.held_by(0)[self.owned_by(0).len()..];
        before(copies, |shard| !shard.is_copy(CopyUpdate::Samples))
    }

    /// Shards of `rank` that get the gradients of their samples one by one: those that the rank alone holds and that are not
    /// summed, and replicated ones. They are not one slice, because summed ones lie between.
    pub fn updated_by_samples(&self, rank: usize, members: usize) -> impl Iterator<Item = &Shard> + Clone {
        self.sent_by(rank, members).iter().chain(self.replicated())
    }

    /// Number of pieces into which the rows of a feature's table are cut.
    pub fn row_pieces(&self, feature: usize) -> usize {
        self.shards_of(feature)[0].row_pieces()
    }

    /// Number of pieces into which the columns of a feature's table are cut.
    pub fn column_pieces(&self, feature: usize) -> usize {
        self.shards_of(feature).len() / self.row_pieces(feature)
    }

    /// Whether bag lengths must be sent for this shard: if bags vary in length, or if rows are cut, so that a shard gets
    /// only those ids of a bag whose rows it has.
    pub fn lengths_vary(&self, model: &Model, shard: &Shard) -> bool {
        model.features()[shard.feature].hotness != Hotness::One || shard.row_pieces() > 1
    }

    /// Whether bag lengths are sent ahead of the ids: if those of any shard vary.
    pub fn lengths_travel(&self, model: &Model) -> bool {
        self.shards.iter().any(|shard| self.lengths_vary(model, shard))
    }

    /// Whether weights are sent with all ids: if the model has weights, or if a mean is taken over bags that are cut (the
    /// weight is then one over the length of the whole bag, which no holder knows).
    pub fn weights_travel(&self, model: &Model) -> bool {
        model.weighted() || (0..model.features().len()).any(|feature| self.mean_by_weight(model, feature))
    }

    /// Whether the mean of a feature is computed as a weighted sum.
    pub fn mean_by_weight(&self, model: &Model, feature: usize) -> bool {
        let of = &model.features()[feature];
        self.row_pieces(feature) > 1 && of.pooling == Pooling::Mean && of.hotness != Hotness::One
    }
}

/// The shards before the first that is `past` them.
fn before(shards: &[Shard], past: impl Fn(&Shard) -> bool) -> &[Shard] {
    &shards[..shards.iter().position(past).unwrap_or(shards.len())]
}

/// Number of columns of `shards` together.
pub fn width<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> usize {
    shards.into_iter().map(|s| s.columns.len()).sum()
}

#[cfg(test)]
mod tests;
