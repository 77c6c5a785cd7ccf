//! Which rank holds which piece of which table.
//!
//! ```
//! use spec::placement::{Layout, Placement};
//! use spec::presets::{ModelKind, Preset};
//! use spec::topology::Topology;
//! let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
//! let cluster = Topology::new(2, 2).unwrap();
//! let placement = Placement::balanced(&model, cluster, 64);
//! assert_eq!(placement.layouts()[5], Layout::Replicated); // C6 has 20 rows
//! assert!(placement.held_by(3).iter().any(|shard| !shard.replicated));
//! ```

use crate::model::Model;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How one table is cut and where its pieces live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// The whole table on one rank.
    TableWise {
        /// Its holder.
        rank: usize,
    },
    /// Rows cut evenly over ranks.
    RowWise {
        /// Holder of each piece.
        ranks: Vec<usize>,
    },
    /// Columns cut evenly over ranks.
    ColumnWise {
        /// Holder of each piece.
        ranks: Vec<usize>,
    },
    /// The whole table on every rank: no exchange forward; backward, every rank sees every sample's gradient, so that
    /// the result is the same, bit for bit, as with any other layout.
    Replicated,
    /// One host holds the table, cut by rows over its ranks.
    Hierarchical {
        /// The host.
        host: usize,
    },
}

/// A layout per feature, in the model's order, and the shards that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    topology: Topology,
    layouts: Vec<Layout>,
    held: Vec<Vec<Shard>>,
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
    /// Whether every rank holds a copy.
    pub replicated: bool,
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
            let (rows, dim) = (model.features()[feature].rows, model.dim());
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
            let shard = |rows, columns| Shard { feature, rows, columns, replicated: false };
            match layout {
                Layout::TableWise { rank } => {
                    known("rank", *rank, topology.ranks())?;
                    held[*rank].push(shard(0..rows, 0..dim));
                }
                Layout::RowWise { ranks } => {
                    cut("rows", rows, ranks.len())?;
                    for (i, &rank) in ranks.iter().enumerate() {
                        known("rank", rank, topology.ranks())?;
                        held[rank].push(shard(share(rows, ranks.len(), i), 0..dim));
                    }
                }
                Layout::ColumnWise { ranks } => {
                    cut("columns", dim, ranks.len())?;
                    for (i, &rank) in ranks.iter().enumerate() {
                        known("rank", rank, topology.ranks())?;
                        held[rank].push(shard(0..rows, share(dim, ranks.len(), i)));
                    }
                }
                Layout::Replicated => replicas.push(Shard { replicated: true, ..shard(0..rows, 0..dim) }),
                Layout::Hierarchical { host } => {
                    known("host", *host, topology.hosts())?;
                    let ranks = topology.ranks_per_host();
                    cut("rows", rows, ranks)?;
                    for i in 0..ranks {
                        held[host * ranks + i].push(shard(share(rows, ranks, i), 0..dim));
                    }
                }
            }
        }
        for shards in &mut held {
            shards.extend(replicas.iter().cloned());
        }
        Ok(Self { topology, layouts, held })
    }

    /// Tables of at most `replicate_rows` rows on every rank; the others whole, each on the rank with the least to look
    /// up and exchange so far, largest first.
    pub fn balanced(model: &Model, topology: Topology, replicate_rows: usize) -> Self {
        // What a table costs its holder per sample: the rows it reads and the vector it sends.
        let cost = |feature: usize| model.features()[feature].hotness.mean() + 1;
        let mut order: Vec<usize> = (0..model.features().len()).collect();
        order.sort_by_key(|&f| std::cmp::Reverse((cost(f), model.features()[f].rows)));
        let mut layouts = vec![Layout::Replicated; order.len()];
        let mut load = vec![(0u64, 0u64); topology.ranks()];
        for feature in order {
            let rows = model.features()[feature].rows;
            if rows <= replicate_rows {
                continue;
            }
            let rank = (0..load.len()).min_by_key(|&r| (load[r], r)).expect("a topology has ranks");
            load[rank].0 += cost(feature);
            load[rank].1 += rows as u64;
            layouts[feature] = Layout::TableWise { rank };
        }
        Self::new(model, topology, layouts).expect("built from the model and the cluster themselves")
    }

    /// The layouts, by feature.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// The cluster it is for.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// What `rank` holds: its own shards by feature, then the replicated tables by feature.
    pub fn held_by(&self, rank: usize) -> &[Shard] {
        &self.held[rank]
    }

    /// The shards that `rank` alone holds, by feature.
    pub fn owned_by(&self, rank: usize) -> &[Shard] {
        let held = self.held_by(rank);
        &held[..held.iter().take_while(|s| !s.replicated).count()]
    }

    /// The replicated tables, by feature.
    pub fn replicated(&self) -> &[Shard] {
        &self.held_by(0)[self.owned_by(0).len()..]
    }
}

/// Columns of some shards side by side.
pub fn width(shards: &[Shard]) -> usize {
    shards.iter().map(|s| s.columns.len()).sum()
}
