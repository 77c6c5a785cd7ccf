//! What changes from one plan to another.

use super::{PlanError, PlanFile, PlannedTable};
use crate::placement::Scheme;
use crate::topology::Topology;
use serde::Serialize;
use std::collections::BTreeMap;

/// Difference of two plans: tables that changed, and memory by rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanDifference {
    /// Number of tables that both plans place alike.
    pub unchanged: usize,
    /// Tables that differ in scheme, ranks or cuts, or that only one plan has; in the order of the first plan.
    pub tables: Vec<TableDifference>,
    /// Memory of every rank of either plan.
    pub ranks: Vec<RankDifference>,
    /// Whether memory is what the planner counted (tables, optimizer state and buffers); otherwise it is the weights of tables
    /// alone, in f32.
    pub counted: bool,
}

/// Table that two plans place differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableDifference {
    /// Name of the table.
    pub name: String,
    /// Place of the table in the first plan; `None` where that plan does not have the table.
    pub before: Option<TablePlace>,
    /// Place of the table in the second plan; `None` where that plan does not have the table.
    pub after: Option<TablePlace>,
}

/// Place of a table: how it is cut, and the ranks that hold some of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TablePlace {
    /// Scheme of the table.
    pub scheme: Scheme,
    /// Number of shards.
    pub shards: usize,
    /// Ranks that hold a shard, in ascending order.
    pub ranks: Vec<usize>,
}

/// Memory of a rank in two plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankDifference {
    /// Number of the rank.
    pub rank: usize,
    /// Bytes in the first plan; `None` where it has no such rank.
    pub before_bytes: Option<u64>,
    /// Bytes in the second plan; `None` where it has no such rank.
    pub after_bytes: Option<u64>,
}

impl PlanFile {
    /// Difference from this plan to `other`.
    pub fn difference(&self, other: &Self) -> Result<PlanDifference, PlanError> {
        let place = |plan: &Self, table: Option<&PlannedTable>| {
            table.map(|table| table.place(plan.topology()?)).transpose()
        };
        let others: BTreeMap<&str, &PlannedTable> =
            other.tables.iter().map(|table| (table.name.as_str(), table)).collect();
        let here: BTreeMap<&str, &PlannedTable> =
            self.tables.iter().map(|table| (table.name.as_str(), table)).collect();
        let added = other.tables.iter().filter(|table| !here.contains_key(table.name.as_str()));
        let mut unchanged = 0;
        let mut tables = Vec::new();
        for table in self.tables.iter().chain(added) {
            let name = table.name.as_str();
            let (before, after) = (here.get(name).copied(), others.get(name).copied());
            if before.map(|table| &table.shards) == after.map(|table| &table.shards) {
                unchanged += 1;
                continue;
            }
            let (before, after) = (place(self, before)?, place(other, after)?);
            tables.push(TableDifference { name: name.into(), before, after });
        }
        let counted = !self.memory_bytes.is_empty() && !other.memory_bytes.is_empty();
        let (before, after) = (self.memory(counted), other.memory(counted));
        let ranks = (0..before.len().max(after.len())).map(|rank| RankDifference {
            rank,
            before_bytes: before.get(rank).copied(),
            after_bytes: after.get(rank).copied(),
        });
        Ok(PlanDifference { unchanged, tables, ranks: ranks.collect(), counted })
    }

    /// Cluster of the plan.
    pub fn topology(&self) -> Result<Topology, PlanError> {
        Ok(Topology::new(self.hosts, self.ranks_per_host)?)
    }

    /// Bytes of every rank: as the planner counted them, or of the weights in f32.
    fn memory(&self, counted: bool) -> Vec<u64> {
        if counted {
            return self.memory_bytes.clone();
        }
        let mut bytes = vec![0u64; self.hosts.saturating_mul(self.ranks_per_host).min(1 << 20)];
        for shard in self.tables.iter().flat_map(|table| &table.shards) {
            for &rank in &shard.ranks {
                if let Some(bytes) = bytes.get_mut(rank) {
                    *bytes = bytes.saturating_add(shard.cells().saturating_mul(4));
                }
            }
        }
        bytes
    }
}

impl PlannedTable {
    /// Place of the table on a cluster.
    fn place(&self, topology: Topology) -> Result<TablePlace, PlanError> {
        if self.shards.is_empty() {
            return Err(PlanError::NoShards { table: self.name.clone() });
        }
        let shards =
            self.shards.iter().map(|shard| shard.placed(0, &self.name)).collect::<Result<Vec<_>, _>>()?;
        let mut ranks: Vec<usize> =
            self.shards.iter().flat_map(|shard| shard.ranks.iter().copied()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Ok(TablePlace { scheme: Scheme::of(&shards, topology), shards: shards.len(), ranks })
    }
}
