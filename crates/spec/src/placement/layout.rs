//! Layouts: the words in which a config says how a table is cut over ranks.

use super::{CopyUpdate, Holders, PlacementError, Shard, share};
use crate::model::Model;
use crate::topology::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Layout of one table in the words of a config: how the table is cut over ranks. Ranks are numbered as in the topology.
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
    /// Rows and columns are cut evenly; every rectangle is on one rank.
    Grid {
        /// Number of pieces of rows.
        rows: usize,
        /// Number of pieces of columns.
        columns: usize,
        /// Rank that holds each rectangle: all columns of the first piece of rows, then of the second. The ranks of a piece of
        /// columns are in ascending order.
        ranks: Vec<usize>,
    },
    /// The whole table is on every rank. The forward pass needs no exchange; in the backward pass every rank gets the
    /// gradient of every sample, so that the result has the same bits as with the table on one rank.
    Replicated,
    /// The whole table is on several ranks. Ids stay with the copy that serves their sample; in the backward pass sums of
    /// gradients by row are reduced over the copies.
    DataParallel {
        /// Ranks with a copy, in ascending order. Default: all ranks. In SPTT: all ranks of one tower group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ranks: Option<Vec<usize>>,
    },
    /// One host holds the table, cut over its ranks.
    Hierarchical {
        /// Host that holds the table.
        host: usize,
        /// Cut of the table over the ranks of its host. Default: `rows`.
        #[serde(default, skip_serializing_if = "HostCut::is_default")]
        cut: HostCut,
    },
}

/// Cut of a table over the ranks of its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostCut {
    /// Rows are cut.
    #[default]
    Rows,
    /// Columns are cut.
    Columns,
}

impl HostCut {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Layout {
    /// Shards of a feature's table that is laid out so on a cluster.
    pub fn shards(
        &self,
        model: &Model,
        feature: usize,
        topology: Topology,
    ) -> Result<Vec<Shard>, PlacementError> {
        let cutting = Cutting { model, feature };
        match self {
            Layout::TableWise { rank } => cutting.grid(1, 1, &[*rank]),
            Layout::RowWise { ranks } => cutting.grid(ranks.len(), 1, ranks),
            Layout::ColumnWise { ranks } => cutting.grid(1, ranks.len(), ranks),
            Layout::Grid { rows, columns, ranks } => cutting.grid(*rows, *columns, ranks),
            Layout::Replicated => Ok(cutting.copies((0..topology.ranks()).collect(), CopyUpdate::Samples)),
            Layout::DataParallel { ranks } => {
                let ranks = ranks.clone().unwrap_or_else(|| (0..topology.ranks()).collect());
                Ok(cutting.copies(ranks, CopyUpdate::Rows))
            }
            Layout::Hierarchical { host, .. } if *host >= topology.hosts() => Err(PlacementError::Unknown {
                feature: cutting.name(),
                what: "host",
                index: *host,
                count: topology.hosts(),
            }),
            Layout::Hierarchical { host, cut } => {
                let ranks: Vec<usize> = topology.ranks_of(*host).collect();
                match cut {
                    HostCut::Rows => cutting.grid(ranks.len(), 1, &ranks),
                    HostCut::Columns => cutting.grid(1, ranks.len(), &ranks),
                }
            }
        }
    }
}

/// A table that is cut.
struct Cutting<'a> {
    model: &'a Model,
    feature: usize,
}

impl Cutting<'_> {
    fn name(&self) -> String {
        self.model.features()[self.feature].name.clone()
    }

    /// Rectangles of an even grid, by rows and then by columns.
    fn grid(&self, rows: usize, columns: usize, ranks: &[usize]) -> Result<Vec<Shard>, PlacementError> {
        let (height, width) = (self.model.features()[self.feature].rows, self.model.row_width(self.feature));
        for (what, available, pieces) in [("rows", height, rows), ("columns", width, columns)] {
            if !(1..=available).contains(&pieces) {
                return Err(PlacementError::Pieces { feature: self.name(), pieces, what, available });
            }
        }
        if rows.checked_mul(columns) != Some(ranks.len()) {
            let (feature, ranks) = (self.name(), ranks.len());
            return Err(PlacementError::Grid { feature, rows, columns, ranks });
        }
        let shard = |i: usize| {
            let (row, column) = (share(height, rows, i / columns), share(width, columns, i % columns));
            Shard::new(self.feature, row, column, Holders::Rank(ranks[i]))
        };
        Ok((0..ranks.len()).map(shard).collect())
    }

    fn copies(&self, ranks: Vec<usize>, update: CopyUpdate) -> Vec<Shard> {
        let (height, width) = (self.model.features()[self.feature].rows, self.model.row_width(self.feature));
        let holders = Holders::Copies { ranks: ranks.into(), update };
        vec![Shard::new(self.feature, 0..height, 0..width, holders)]
    }
}
