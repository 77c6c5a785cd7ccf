//! Plan: the placement of a model's tables as a value that is kept in a file, with what it was made for.
//!
//! ```
//! use spec::placement::{Layout, Placement};
//! use spec::plan::PlanFile;
//! use spec::presets::{ModelKind, Preset};
//! use spec::topology::Topology;
//! let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
//! let cluster = Topology::new(1, 2).unwrap();
//! let layouts: Vec<Layout> = (0..26).map(|table| Layout::TableWise { rank: table % 2 }).collect();
//! let placement = Placement::of_layouts(&model, cluster, &layouts).unwrap();
//! let plan = PlanFile::of(&model, &placement, None);
//! assert_eq!(plan.placement(&model, cluster, None).unwrap(), placement);
//! // On another cluster the plan is refused, with what differs.
//! let error = plan.placement(&model, Topology::new(2, 2).unwrap(), None).unwrap_err();
//! assert!(error.to_string().starts_with("the plan is for 1 host × 2 ranks, the run has 2 hosts × 2 ranks"));
//! ```

mod choice;
mod difference;

pub use choice::PlanChoice;
pub use difference::{PlanDifference, RankDifference, TableDifference, TablePlace};

use crate::model::Model;
use crate::placement::{CopyUpdate, Holders, Placement, PlacementError, Shard};
use crate::run::Run;
use crate::topology::{Topology, TopologyError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the plan files that this program writes and reads.
pub const VERSION: u32 = 1;

/// Plan: the shards of every table and the ranks that hold them, for one model and one cluster. `campanile plan --out` writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Version of the format: 1.
    pub version: u32,
    /// Number of hosts that the plan is for.
    pub hosts: usize,
    /// Number of ranks on each host that the plan is for.
    pub ranks_per_host: usize,
    /// Number of hosts of a tower group, for the sptt dataflow; left out for the flat one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_per_tower: Option<usize>,
    /// Memory of each rank that the plan counted, in bytes: tables, optimizer state and buffers. For comparisons only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_bytes: Vec<u64>,
    /// Tables of the model, in the order of its features.
    pub tables: Vec<PlannedTable>,
}

/// Table of a plan: what it must be in the model, and its shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedTable {
    /// Name of the feature.
    pub name: String,
    /// Number of rows of the table.
    pub rows: usize,
    /// Embedding dimension of the table.
    pub dim: usize,
    /// Shards of the table, which form a grid: every cell is in exactly one of them.
    pub shards: Vec<PlannedShard>,
}

/// Shard of a plan: rows and columns of a table, and who holds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedShard {
    /// First row of the shard, and the row after its last.
    pub rows: [usize; 2],
    /// First column of the shard, and the column after its last. A DeepFM has a column beyond the embedding dimension.
    pub columns: [usize; 2],
    /// Rank that holds the shard, or ranks that hold a copy each, in ascending order.
    pub ranks: Vec<usize>,
    /// Update of the copies, where ranks hold copies: `samples` (every copy gets the gradients of all samples), `rows` (the
    /// copies' gradients are summed by row) or `cores` (the table is a tensor train, whose gradients are reduced). Left out for a shard that one rank holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopyUpdate>,
}

/// Reason why a plan does not fit a run: the first difference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The file has another version.
    #[error(
        "the plan has version {got}, this program reads version {VERSION}; make the plan again with `campanile plan`"
    )]
    Version {
        /// Version of the file.
        got: u32,
    },
    /// The cluster has other hosts or ranks.
    #[error(
        "the plan is for {}, the run has {}; use the cluster of the plan, or plan again with `campanile plan`",
        world(*.plan), world(*.run)
    )]
    World {
        /// Hosts of the plan, and ranks of each.
        plan: (usize, usize),
        /// Hosts of the run, and ranks of each.
        run: (usize, usize),
    },
    /// The dataflow or the size of tower groups differs.
    #[error(
        "the plan is for {}, the run has {}; use the dataflow and hosts_per_tower of the plan, or plan again with `campanile plan`",
        groups(*.plan), groups(*.run)
    )]
    Groups {
        /// Hosts of a tower group of the plan; `None` for the flat dataflow.
        plan: Option<usize>,
        /// Hosts of a tower group of the run; `None` for the flat dataflow.
        run: Option<usize>,
    },
    /// The model has another number of tables.
    #[error("the plan has {plan} tables, the model has {model}; plan this model with `campanile plan`")]
    Tables {
        /// Number of tables of the plan.
        plan: usize,
        /// Number of tables of the model.
        model: usize,
    },
    /// Tables have other names.
    #[error(
        "table {index} is {plan} in the plan, but {model} in the model; plan this model with `campanile plan`"
    )]
    Name {
        /// Number of the table, from 0.
        index: usize,
        /// Name of the table in the plan.
        plan: String,
        /// Name of the table in the model.
        model: String,
    },
    /// A table has another size.
    #[error(
        "table {table}: {what} {plan} in the plan, but {model} in the model; plan this model with `campanile plan`"
    )]
    Size {
        /// Name of the table.
        table: String,
        /// Size that differs: `rows are` or `dim is`.
        what: &'static str,
        /// Size in the plan.
        plan: usize,
        /// Size in the model.
        model: usize,
    },
    /// A shard has no rank, or several that hold no copies.
    #[error("a shard of table {table} names ranks {ranks:?}; name one rank, or several with `copies`")]
    Ranks {
        /// Name of the table.
        table: String,
        /// Ranks that the shard names.
        ranks: Vec<usize>,
    },
    /// A table has no shards.
    #[error("table {table} of the plan has no shards; plan again with `campanile plan`")]
    NoShards {
        /// Name of the table.
        table: String,
    },
    /// The plan is for a cluster that cannot be.
    #[error("the plan's cluster cannot be: {0}")]
    Topology(#[from] TopologyError),
    /// Shards do not cover their table, or name ranks that do not exist.
    #[error("the plan's shards cannot be placed: {0}")]
    Placement(#[from] PlacementError),
}

fn world((hosts, ranks): (usize, usize)) -> String {
    let s = |count| if count == 1 { "" } else { "s" };
    format!("{hosts} host{} × {ranks} rank{}", s(hosts), s(ranks))
}

fn groups(hosts_per_tower: Option<usize>) -> String {
    match hosts_per_tower {
        None => "the flat dataflow".into(),
        Some(1) => "sptt with 1 host per tower".into(),
        Some(hosts) => format!("sptt with {hosts} hosts per tower"),
    }
}

impl PlanFile {
    /// Plan of a placement. `hosts_per_tower` is the size of tower groups with the sptt dataflow.
    pub fn of(model: &Model, placement: &Placement, hosts_per_tower: Option<usize>) -> Self {
        let topology = placement.topology();
        let table = |(index, feature): (usize, &crate::feature::Feature)| PlannedTable {
            name: feature.name.clone(),
            rows: feature.rows,
            dim: model.dim_of(index),
            shards: placement.shards_of(index).iter().map(PlannedShard::of).collect(),
        };
        Self {
            version: VERSION,
            hosts: topology.hosts(),
            ranks_per_host: topology.ranks_per_host(),
            hosts_per_tower,
            memory_bytes: Vec::new(),
            tables: model.features().iter().enumerate().map(table).collect(),
        }
    }

    /// Plan that gives a run's own placement.
    pub fn of_run(run: &Run) -> Self {
        let hosts_per_tower = run.dataflow.sptt().map(|sptt| sptt.groups().hosts_per_group());
        Self::of(&run.model, &run.placement, hosts_per_tower)
    }

    /// Placement of the plan on the cluster and for the model of a run; `hosts_per_tower` as in [`PlanFile::of`]. A plan for
    /// anything else is refused with the first difference.
    pub fn placement(
        &self,
        model: &Model,
        topology: Topology,
        hosts_per_tower: Option<usize>,
    ) -> Result<Placement, PlanError> {
        self.check(model, topology, hosts_per_tower)?;
        let mut shards = Vec::new();
        for (feature, table) in self.tables.iter().enumerate() {
            for shard in &table.shards {
                shards.push(shard.placed(feature, &table.name)?);
            }
        }
        Ok(Placement::new(model, topology, shards)?)
    }

    fn check(
        &self,
        model: &Model,
        topology: Topology,
        hosts_per_tower: Option<usize>,
    ) -> Result<(), PlanError> {
        if self.version != VERSION {
            return Err(PlanError::Version { got: self.version });
        }
        let plan = (self.hosts, self.ranks_per_host);
        let run = (topology.hosts(), topology.ranks_per_host());
        if plan != run {
            return Err(PlanError::World { plan, run });
        }
        if self.hosts_per_tower != hosts_per_tower {
            return Err(PlanError::Groups { plan: self.hosts_per_tower, run: hosts_per_tower });
        }
        for (index, (table, feature)) in self.tables.iter().zip(model.features()).enumerate() {
            if table.name != feature.name {
                let (plan, model) = (table.name.clone(), feature.name.clone());
                return Err(PlanError::Name { index, plan, model });
            }
            let sizes = [("rows are", table.rows, feature.rows), ("dim is", table.dim, model.dim_of(index))];
            if let Some((what, plan, model)) = sizes.into_iter().find(|(_, plan, model)| plan != model) {
                return Err(PlanError::Size { table: table.name.clone(), what, plan, model });
            }
        }
        let (plan, model) = (self.tables.len(), model.features().len());
        if plan == model { Ok(()) } else { Err(PlanError::Tables { plan, model }) }
    }
}

impl PlannedShard {
    fn of(shard: &Shard) -> Self {
        let (ranks, copies) = match &shard.holders {
            Holders::Rank(rank) => (vec![*rank], None),
            Holders::Copies { ranks, update } => (ranks.to_vec(), Some(*update)),
        };
        Self {
            rows: [shard.rows.start, shard.rows.end],
            columns: [shard.columns.start, shard.columns.end],
            ranks,
            copies,
        }
    }

    /// Shard of the table of `feature`, whose name is `table`.
    fn placed(&self, feature: usize, table: &str) -> Result<Shard, PlanError> {
        let holders = match (self.copies, self.ranks.as_slice()) {
            (None, [rank]) => Holders::Rank(*rank),
            (Some(update), ranks @ [_, ..]) => Holders::Copies { ranks: ranks.into(), update },
            _ => return Err(PlanError::Ranks { table: table.into(), ranks: self.ranks.clone() }),
        };
        let ([top, bottom], [left, right]) = (self.rows, self.columns);
        Ok(Shard::new(feature, top..bottom, left..right, holders))
    }

    /// Number of table cells of the shard.
    fn cells(&self) -> u64 {
        let length = |[from, to]: [usize; 2]| to.saturating_sub(from) as u64;
        length(self.rows).saturating_mul(length(self.columns))
    }
}

#[cfg(test)]
mod tests;
