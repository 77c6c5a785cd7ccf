//! Which rank holds which piece of which table.
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
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// How one table is cut and where its pieces live. Ranks are numbered as the topology numbers them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// The whole table on one rank.
    TableWise {
        /// Its holder.
        rank: usize,
    },
    /// Rows cut evenly over ranks. An id travels to the rank that holds its row; partial sums are added in rank order.
    RowWise {
        /// Holder of each piece, ascending.
        ranks: Vec<usize>,
    },
    /// Columns cut evenly over ranks.
    ColumnWise {
        /// Holder of each piece.
        ranks: Vec<usize>,
    },
    /// The whole table on every rank: no exchange forward; backward, every rank sees every sample's gradient, so that
    /// the result is the same, bit for bit, as with the table whole on one rank.
    Replicated,
    /// One host holds the table, cut by rows over its ranks.
    Hierarchical {
        /// The host.
        host: usize,
    },
}

/// A layout per feature, in the model's order, and the shards that follow. Copies share both: every rank has one, and each
/// names the shards of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    topology: Topology,
    layouts: Arc<[Layout]>,
    held: Arc<[Vec<Shard>]>,
}

/// The piece of a table that one rank holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Index of the feature.
    pub feature: usize,
    /// Rows of the table.
    pub rows: Range<usize>,
    /// Columns of the table.
    pub columns: Range<usize>,
    /// What others hold of the same columns.
    pub kind: ShardKind,
}

/// What other ranks hold of a shard's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardKind {
    /// Nothing: all rows are here.
    Whole,
    /// The other rows: vectors looked up here are partial sums.
    Rows {
        /// Which piece of the rows is here.
        piece: usize,
    },
    /// The same: every rank has a copy.
    Replicated,
}

impl Shard {
    /// Which of the pieces of its table's rows this is; 0 where rows are not cut.
    pub fn piece(&self) -> usize {
        if let ShardKind::Rows { piece } = self.kind { piece } else { 0 }
    }
}

/// Why a placement does not fit its model or cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Not one layout per feature.
    #[error("placement: {got} layouts for {expected} features")]
    Count {
        /// Features.
        expected: usize,
        /// Layouts.
        got: usize,
    },
    /// A rank or host that is not there.
    #[error("placement of {feature}: {what} {index} does not exist; there are {count}")]
    Unknown {
        /// Name of the feature.
        feature: String,
        /// `rank` or `host`.
        what: &'static str,
        /// What was named.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Pieces of rows in an order that is not that of the ranks.
    #[error("placement of {feature}: rows are cut over ranks {ranks:?}; name each once, in ascending order")]
    Order {
        /// Name of the feature.
        feature: String,
        /// What was named.
        ranks: Vec<usize>,
    },
    /// A cut into no pieces, or into more than there are rows or columns.
    #[error("placement of {feature}: {pieces} pieces cannot be cut from {available} {what}")]
    Pieces {
        /// Name of the feature.
        feature: String,
        /// Pieces asked for.
        pieces: usize,
        /// What is cut.
        what: &'static str,
        /// How many there are.
        available: usize,
    },
}

/// Part `index` of `len` things in `parts` contiguous parts; the first `len % parts` are one longer.
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
            let (rows, dim) = (model.features()[feature].rows, model.row_width());
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

    /// The layouts, by feature.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// The cluster it is for.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// What `rank` holds: whole shards by feature, then pieces of rows by feature, then the replicated tables.
    pub fn held_by(&self, rank: usize) -> &[Shard] {
        &self.held[rank]
    }

    /// The shards that `rank` alone holds.
    pub fn owned_by(&self, rank: usize) -> &[Shard] {
        before(self.held_by(rank), |shard| shard.kind == ShardKind::Replicated)
    }

    /// Those of them that have all rows of their columns, by feature.
    pub fn whole_by(&self, rank: usize) -> &[Shard] {
        before(self.held_by(rank), |shard| shard.kind != ShardKind::Whole)
    }

    /// Those of them that are pieces of rows, by feature.
    pub fn rows_by(&self, rank: usize) -> &[Shard] {
        &self.owned_by(rank)[self.whole_by(rank).len()..]
    }

    /// The replicated tables, by feature.
    pub fn replicated(&self) -> &[Shard] {
        &self.held_by(0)[self.owned_by(0).len()..]
    }

    /// Into how many pieces the rows of a feature's table are cut.
    pub fn row_pieces(&self, feature: usize) -> usize {
        match &self.layouts[feature] {
            Layout::RowWise { ranks } => ranks.len(),
            Layout::Hierarchical { .. } => self.topology.ranks_per_host(),
            Layout::TableWise { .. } | Layout::ColumnWise { .. } | Layout::Replicated => 1,
        }
    }

    /// Whether the number of ids in a bag of this shard must be said: where bags vary, or rows are cut, so that a shard
    /// gets only those ids of a bag whose rows it has.
    pub fn lengths_vary(&self, model: &Model, shard: &Shard) -> bool {
        model.features()[shard.feature].hotness != Hotness::One
            || matches!(shard.kind, ShardKind::Rows { .. })
    }

    /// Whether lengths of bags travel ahead of their ids: where those of any shard vary.
    pub fn lengths_travel(&self, model: &Model) -> bool {
        let mut held = (0..self.topology.ranks()).flat_map(|rank| self.held_by(rank));
        held.any(|shard| self.lengths_vary(model, shard))
    }

    /// Whether ids travel with weights, all of them or none: where the model has any, or where a mean is taken over bags that
    /// are cut (the weight is then one over the length of the whole bag, which no holder sees).
    pub fn weights_travel(&self, model: &Model) -> bool {
        model.weighted() || (0..self.layouts.len()).any(|feature| self.mean_by_weight(model, feature))
    }

    /// Whether a feature's mean is taken by weights.
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

/// Columns of some shards side by side.
pub fn width(shards: &[Shard]) -> usize {
    shards.iter().map(|s| s.columns.len()).sum()
}
