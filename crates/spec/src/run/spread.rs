//! From a model and a cluster to where tables live and how their vectors travel.

use super::RunError;
use super::config::Config;
use crate::dataflow::{Dataflow, DataflowKind, PeerPermute, Sptt};
use crate::model::Model;
use crate::placement::{Layout, Placement};
use crate::topology::{Groups, Topology};

/// A model spread over a cluster.
pub(super) struct Spread {
    pub placement: Placement,
    pub dataflow: Dataflow,
}

impl Config {
    pub(super) fn spread(&self, model: &Model, topology: Topology) -> Result<Spread, RunError> {
        let usual = if model.towers().is_empty() { DataflowKind::Flat } else { DataflowKind::Sptt };
        let kind = self.train.dataflow.unwrap_or(usual);
        let groups = Groups::new(topology, self.topology.hosts_per_tower.unwrap_or(1));
        let groups = groups.map_err(|e| RunError::new("topology.hosts_per_tower", e.to_string()))?;
        if kind == DataflowKind::Flat {
            if model.has_tower_modules() {
                let problem = format!(
                    "tower modules stand between two exchanges of sptt; use it (with topology.hosts_per_tower = {} \
                     its one group is the world, and vectors travel as in flat)",
                    topology.hosts()
                );
                return Err(RunError::new("train.dataflow", problem));
            }
            if let Some(permute) = self.train.peer_permute {
                let problem = format!("{permute} is of sptt, the dataflow is flat; leave it out");
                return Err(RunError::new("train.peer_permute", problem));
            }
            let placement = self.place(model, groups)?;
            return Ok(Spread {
                placement,
                dataflow: Dataflow::Flat(self.train.all_to_all.unwrap_or_default()),
            });
        }
        if let Some(all_to_all) = self.train.all_to_all {
            let problem = format!(
                "{all_to_all} is of the flat dataflow; sptt has its own two levels, by way of tower groups; leave it out"
            );
            return Err(RunError::new("train.all_to_all", problem));
        }
        let permute = self.train.peer_permute.unwrap_or_default();
        let groups = if permute == PeerPermute::None { groups.in_peer_order() } else { groups };
        let placement = self.place_in_towers(model, groups)?;
        let sptt = Sptt::new(model, &placement, groups, permute);
        let sptt = sptt.map_err(|e| RunError::new("placement.tables", e.to_string()))?;
        Ok(Spread { placement, dataflow: Dataflow::Sptt(sptt) })
    }

    /// For the flat dataflow: balanced over the world, unless the user says how tables are cut over tower groups.
    fn place(&self, model: &Model, groups: Groups) -> Result<Placement, RunError> {
        let replicate = self.placement.replicate_rows.unwrap_or(0);
        let placement = match self.placement.cut {
            None => Placement::balanced(model, groups.topology(), replicate),
            Some(cut) => Placement::in_towers(model, groups, cut),
        };
        let mut layouts = placement.layouts().to_vec();
        for (layout, feature) in layouts.iter_mut().zip(model.features()) {
            if feature.rows <= replicate {
                *layout = Layout::Replicated;
            }
        }
        self.with_tables(model, groups, layouts)
    }

    fn place_in_towers(&self, model: &Model, groups: Groups) -> Result<Placement, RunError> {
        if self.placement.replicate_rows.is_some_and(|rows| rows > 0) {
            let problem = "in sptt every table has one group and none is replicated; leave it out";
            return Err(RunError::new("placement.replicate_rows", problem));
        }
        let placement = Placement::in_towers(model, groups, self.placement.cut.unwrap_or_default());
        self.with_tables(model, groups, placement.layouts().to_vec())
    }

    /// The layouts with those of single tables that the user wrote.
    fn with_tables(
        &self,
        model: &Model,
        groups: Groups,
        mut layouts: Vec<Layout>,
    ) -> Result<Placement, RunError> {
        for (name, layout) in &self.placement.tables {
            let Some(index) = model.features().iter().position(|f| f.name == *name) else {
                let field = format!("placement.tables.{name}");
                return Err(RunError::new(field, "the model has no feature of that name"));
            };
            layouts[index] = layout.clone();
        }
        let placement = Placement::new(model, groups.topology(), layouts);
        placement.map_err(|e| RunError::new("placement.tables", e.to_string()))
    }
}
