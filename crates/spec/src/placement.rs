//! Placement: which rank holds which shard of which table.
//!
//! ```
//! use spec::placement::{Layout, Placement};
//! use spec::presets::{ModelKind, Preset};
//! use spec::topology::Topology;
//! let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
//! let cluster = Topology::new(2, 2).unwrap();
//! let layouts = (0..26).map(|table| Layout::TableWise { rank: table % 4 }).collect();
//! let placement = Placement::new(&model, cluster, layouts).unwrap();
//! assert_eq!(placement.owned_by(3).len(), 6);
//! ```

mod cut;

pub use cut::Cut;

use crate::Pooling;
use crate::feature::Hotness;
use crate::model::Model;
use crate::topology::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Layout of one table: how it is cut over ranks. Ranks are numbered as in the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// The whole table is on one rank.
    TableWise {
        /// Rank that holds the table.
        rank: usize,
    },
    /// Rows are cut evenly over ranks. An id is sent to the rank that holds its row; partial sums are added in rank order.
    RowWise {
        /// Rank that holds each piece, in ascending order.
        ranks: Vec<usize>,
    },
    /// Columns are cut evenly over ranks.
    ColumnWise {
        /// Rank that holds each piece.
        ranks: Vec<usize>,
    },
    /// The whole table is on every rank. The forward pass needs no exchange; in the backward pass every rank gets the
    /// gradient of every sample, so that the result has the same bits as with the table on one rank.
    Replicated,
    /// One host holds the table, cut by rows over its ranks.
    Hierarchical {
        /// Host that holds the table.
        host: usize,
    },
}

/// Layout of every table, in the order of the model's features, and the shards that follow. Clones share both: every rank
/// has a clone that lists the shards of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    topology: Topology,
    layouts: Arc<[Layout]>,
    held: Arc<[Vec<Shard>]>,
}

/// Shard: the piece of a table that one rank holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Index of the feature.
    pub feature: usize,
    /// Rows of the table in the shard.
    pub rows: Range<usize>,
    /// Columns of the table in the shard.
    pub columns: Range<usize>,
    /// Kind of the shard: what other ranks hold of the same columns.
    pub kind: ShardKind,
}

/// Kind of a shard: what other ranks hold of the same columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardKind {
    /// No other rank holds rows of these columns.
    Whole,
    /// Other ranks hold the other rows; vectors that are looked up in the shard are partial sums.
    Rows {
        /// Number of the piece of rows that the shard is.
        piece: usize,
    },
    /// Every rank holds a copy of the shard.
    Replicated,
}

impl Shard {
    /// Number of the piece of rows that the shard is; 0 if rows are not cut.
    pub fn piece(&self) -> usize {
        if let ShardKind::Rows { piece } = self.kind { piece } else { 0 }
    }
}

/// Reason why a placement does not match its model or cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The number of layouts differs from the number of features.
    #[error("placement: {got} layouts were given for {expected} features; give one for each")]
    Count {
        /// Number of features.
        expected: usize,
        /// Number of layouts.
        got: usize,
    },
    /// A layout names a rank or host that does not exist.
    #[error("placement of {feature}: {what} {index} does not exist; there are {count}")]
    Unknown {
        /// Name of the feature.
        feature: String,
        /// `rank` or `host`.
        what: &'static str,
        /// Rank or host that was named.
        index: usize,
        /// Number of ranks or hosts in the cluster.
        count: usize,
    },
    /// The ranks of a row-wise layout are not in ascending order.
    #[error("placement of {feature}: rows are cut over ranks {ranks:?}; name each once, in ascending order")]
    Order {
        /// Name of the feature.
        feature: String,
        /// Ranks that were named.
        ranks: Vec<usize>,
    },
    /// A table is cut into no pieces, or into more pieces than it has rows or columns.
    #[error("placement of {feature}: {pieces} pieces cannot be cut from {available} {what}")]
    Pieces {
        /// Name of the feature.
        feature: String,
        /// Number of pieces.
        pieces: usize,
        /// What is cut: `rows` or `columns`.
        what: &'static str,
        /// Number of rows or columns of the table.
        available: usize,
    },
}

/// Range of part `index` if `len` items are divided into `parts` contiguous parts; the first `len % parts` parts are one
/// item longer.
///
/// ```
/// use spec::placement::share;
/// assert_eq!((share(5, 2, 0), share(5, 2, 1)), (0..3, 3..5));
/// ```
pub fn share(len: usize, parts: usize, index: usize) -> Range<usize> {
    let (each, more) = (len / parts, len % parts);
    let start = index * each + index.min(more);
    start..start + each + usize::from(index < more)
}

impl Placement {
    /// Checks `layouts` against the model and the cluster.
    pub fn new(model: &Model, topology: Topology, layouts: Vec<Layout>) -> Result<Self, PlacementError> {
        let expected = model.features().len();
        if layouts.len() != expected {
            return Err(PlacementError::Count { expected, got: layouts.len() });
        }
        let mut held = vec![Vec::new(); topology.ranks()];
        let mut replicas = Vec::new();
        for (feature, layout) in layouts.iter().enumerate() {
            let (rows, dim) = (model.features()[feature].rows, model.row_width(feature));
            let name = || model.features()[feature].name.clone();
            let known = |what, index: usize, count: usize| {
                if index < count {
                    Ok(())
                } else {
                    Err(PlacementError::Unknown { feature: name(), what, index, count })
                }
            };
            let cut = |what, available: usize, pieces: usize| {
                if (1..=available).contains(&pieces) {
                    Ok(())
                } else {
                    Err(PlacementError::Pieces { feature: name(), pieces, what, available })
                }
            };
            let shard = |rows, columns| Shard { feature, rows, columns, kind: ShardKind::Whole };
            let rows_over = |ranks: &[usize], held: &mut Vec<Vec<Shard>>| {
                cut("rows", rows, ranks.len())?;
                if ranks.windows(2).any(|pair| pair[0] >= pair[1]) {
                    return Err(PlacementError::Order { feature: name(), ranks: ranks.to_vec() });
                }
                for (piece, &rank) in ranks.iter().enumerate() {
                    known("rank", rank, topology.ranks())?;
                    let some = shard(share(rows, ranks.len(), piece), 0..dim);
                    held[rank].push(Shard { kind: ShardKind::Rows { piece }, ..some });
                }
                Ok(())
            };
            match layout {
                Layout::TableWise { rank } => {
                    known("rank", *rank, topology.ranks())?;
                    held[*rank].push(shard(0..rows, 0..dim));
                }
                Layout::RowWise { ranks } => rows_over(ranks, &mut held)?,
                Layout::ColumnWise { ranks } => {
                    cut("columns", dim, ranks.len())?;
                    for (i, &rank) in ranks.iter().enumerate() {
                        known("rank", rank, topology.ranks())?;
                        held[rank].push(shard(0..rows, share(dim, ranks.len(), i)));
                    }
                }
                Layout::Replicated => {
                    replicas.push(Shard { kind: ShardKind::Replicated, ..shard(0..rows, 0..dim) });
                }
                Layout::Hierarchical { host } => {
                    known("host", *host, topology.hosts())?;
                    rows_over(&topology.ranks_of(*host).collect::<Vec<_>>(), &mut held)?;
                }
            }
        }
        for shards in &mut held {
            shards.sort_by_key(|shard| shard.kind != ShardKind::Whole);
            shards.extend(replicas.iter().cloned());
        }
        Ok(Self { topology, layouts: layouts.into(), held: held.into() })
    }

    /// Layout of each table, by feature.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// Cluster of the placement.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// Shards that `rank` holds: whole shards by feature, then pieces of rows by feature, then the replicated tables.
    pub fn held_by(&self, rank: usize) -> &[Shard] {
        &self.held[rank]
    }

    /// Shards that `rank` alone holds.
    pub fn owned_by(&self, rank: usize) -> &[Shard] {
        before(self.held_by(rank), |shard| shard.kind == ShardKind::Replicated)
    }

    /// Shards that `rank` alone holds and that have all rows of their columns, by feature.
    pub fn whole_by(&self, rank: usize) -> &[Shard] {
        before(self.held_by(rank), |shard| shard.kind != ShardKind::Whole)
    }

    /// Shards that `rank` alone holds and that are pieces of rows, by feature.
    pub fn rows_by(&self, rank: usize) -> &[Shard] {
        &self.owned_by(rank)[self.whole_by(rank).len()..]
    }

    /// Replicated tables, by feature.
    pub fn replicated(&self) -> &[Shard] {
        &self.held_by(0)[self.owned_by(0).len()..]
    }

    /// Number of pieces into which the rows of a feature's table are cut.
    pub fn row_pieces(&self, feature: usize) -> usize {
        match &self.layouts[feature] {
            Layout::RowWise { ranks } => ranks.len(),
            Layout::Hierarchical { .. } => self.topology.ranks_per_host(),
            Layout::TableWise { .. } | Layout::ColumnWise { .. } | Layout::Replicated => 1,
        }
    }

    /// Whether bag lengths must be sent for this shard: if bags vary in length, or if rows are cut, so that a shard gets
    /// only those ids of a bag whose rows it has.
    pub fn lengths_vary(&self, model: &Model, shard: &Shard) -> bool {
        model.features()[shard.feature].hotness != Hotness::One
            || matches!(shard.kind, ShardKind::Rows { .. })
    }

    /// Whether bag lengths are sent ahead of the ids: if those of any shard vary.
    pub fn lengths_travel(&self, model: &Model) -> bool {
        let mut held = (0..self.topology.ranks()).flat_map(|rank| self.held_by(rank));
        held.any(|shard| self.lengths_vary(model, shard))
    }

    /// Whether weights are sent with all ids: if the model has weights, or if a mean is taken over bags that are cut (the
    /// weight is then one over the length of the whole bag, which no holder knows).
    pub fn weights_travel(&self, model: &Model) -> bool {
        model.weighted() || (0..self.layouts.len()).any(|feature| self.mean_by_weight(model, feature))
    }

    /// Whether the mean of a feature is computed as a weighted sum.
    pub fn mean_by_weight(&self, model: &Model, feature: usize) -> bool {
        let (Layout::RowWise { .. } | Layout::Hierarchical { .. }) = self.layouts[feature] else {
            return false;
        };
        let feature = &model.features()[feature];
        feature.pooling == Pooling::Mean && feature.hotness != Hotness::One
    }
}

/// The shards before the first that is `past` them.
fn before(shards: &[Shard], past: impl Fn(&Shard) -> bool) -> &[Shard] {
    &shards[..shards.iter().position(past).unwrap_or(shards.len())]
}

/// Number of columns of all `shards` together.
pub fn width(shards: &[Shard]) -> usize {
    shards.iter().map(|s| s.columns.len()).sum()
}
