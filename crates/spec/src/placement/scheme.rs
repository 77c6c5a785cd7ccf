//! Schemes: the names that people give to the ways in which a table lies on ranks. A scheme follows from the shards.

use super::{CopyUpdate, Holders, Placement, Shard};
use crate::topology::Topology;
use serde::{Serialize, Serializer};
use std::fmt;

/// Scheme: the name of the way in which a table lies on ranks (Neo §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// One rank holds the whole table.
    TableWise,
    /// Rows are cut over ranks.
    RowWise,
    /// Columns are cut over ranks.
    ColumnWise,
    /// Rows and columns are cut over ranks.
    Grid,
    /// Every rank holds the table, and gets the gradient of every sample.
    Replicated,
    /// Several ranks hold the table; sums of gradients by row, or gradients of the cores of a tensor train, are reduced over them.
    DataParallel,
    /// One host of several holds the table; rows are cut over its ranks.
    HierarchicalRows,
    /// One host of several holds the table; columns are cut over its ranks.
    HierarchicalColumns,
    /// One host of several holds the table; rows and columns are cut over its ranks.
    HierarchicalGrid,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 9] = [
        Scheme::TableWise,
        Scheme::RowWise,
        Scheme::ColumnWise,
        Scheme::Grid,
        Scheme::Replicated,
        Scheme::DataParallel,
        Scheme::HierarchicalRows,
        Scheme::HierarchicalColumns,
        Scheme::HierarchicalGrid,
    ];

    /// Name of the scheme.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::TableWise => "table-wise",
            Scheme::RowWise => "row-wise",
            Scheme::ColumnWise => "column-wise",
            Scheme::Grid => "grid",
            Scheme::Replicated => "replicated",
            Scheme::DataParallel => "data-parallel",
            Scheme::HierarchicalRows => "hierarchical rows",
            Scheme::HierarchicalColumns => "hierarchical columns",
            Scheme::HierarchicalGrid => "hierarchical grid",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Scheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Scheme {
    /// Scheme of a table on a cluster, by the table's shards, of which there is at least one.
    pub(crate) fn of(shards: &[Shard], topology: Topology) -> Self {
        if let Holders::Copies { update, .. } = &shards[0].holders {
            return match update {
                CopyUpdate::Samples => Scheme::Replicated,
                CopyUpdate::Rows | CopyUpdate::Cores => Scheme::DataParallel,
            };
        }
        let host = |shard: &Shard| shard.holders.ranks().iter().map(|&rank| topology.host_of(rank)).next();
        let on_one_host = topology.hosts() > 1
            && topology.ranks_per_host() > 1
            && shards.iter().all(|shard| host(shard) == host(&shards[0]));
        let by_rows = shards.iter().any(|shard| shard.rows.start != shards[0].rows.start);
        let by_columns = shards.iter().any(|shard| shard.columns.start != shards[0].columns.start);
        match (by_rows, by_columns, on_one_host) {
            (false, false, _) => Scheme::TableWise,
            (true, false, false) => Scheme::RowWise,
            (false, true, false) => Scheme::ColumnWise,
            (true, true, false) => Scheme::Grid,
            (true, false, true) => Scheme::HierarchicalRows,
            (false, true, true) => Scheme::HierarchicalColumns,
            (true, true, true) => Scheme::HierarchicalGrid,
        }
    }
}

impl Placement {
    /// Scheme of a feature's table.
    pub fn scheme(&self, feature: usize) -> Scheme {
        Scheme::of(self.shards_of(feature), self.topology())
    }
}
