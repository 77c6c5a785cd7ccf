//! Placement and dataflow of a model on a cluster.

use crate::placement;
use spec::dataflow::{Dataflow, DataflowKind, PeerPermute, Sptt};
use spec::model::Model;
use spec::placement::{Layout, Placement, PlacementError};
use spec::plan::PlanChoice;
use spec::run::{Config, RunError};
use spec::topology::{Groups, Topology};
use std::collections::BTreeMap;

/// A placement, or what is wrong with it.
type Placed = Result<Placement, RunError>;

/// A model spread over a cluster.
pub(super) struct Spread {
    pub placement: Placement,
    pub dataflow: Dataflow,
}

/// Finds the placement and the dataflow of a model, as the config says or else by default.
pub(super) fn spread(config: &Config, model: &Model, topology: Topology) -> Result<Spread, RunError> {
    let usual = if model.towers().is_empty() { DataflowKind::Flat } else { DataflowKind::Sptt };
    let kind = config.train.dataflow.unwrap_or(usual);
    let groups = Groups::new(topology, config.topology.hosts_per_tower.unwrap_or(1));
    let groups = groups.map_err(|e| RunError::new("topology.hosts_per_tower", e.to_string()))?;
    if kind == DataflowKind::Flat {
        if model.has_tower_modules() {
            let problem = format!(
                "tower modules run between the two exchanges of sptt; use sptt (with topology.hosts_per_tower = {} its \
                 only group is the world, and vectors are exchanged as in flat)",
                topology.hosts()
            );
            return Err(RunError::new("train.dataflow", problem));
        }
        if let Some(permute) = config.train.peer_permute {
            let problem = format!("{permute} is of sptt, the dataflow is flat; leave it out");
            return Err(RunError::new("train.peer_permute", problem));
        }
        let placement = place(config, model, groups)?;
        if let Some(shard) = placement.copied_on_some_ranks() {
            let name = &model.features()[shard.feature].name;
            let problem = format!(
                "the table has copies on ranks {:?}, but in the flat dataflow every sample is served by its own rank; leave ranks \
                 out, or use sptt",
                shard.holders.ranks()
            );
            return Err(RunError::new(format!("placement.tables.{name}"), problem));
        }
        return Ok(Spread {
            placement,
            dataflow: Dataflow::Flat(config.train.all_to_all.unwrap_or_default()),
        });
    }
    if let Some(all_to_all) = config.train.all_to_all {
        let problem = format!(
            "{all_to_all} applies to the flat dataflow only; sptt exchanges vectors in two levels of its own; leave it out"
        );
        return Err(RunError::new("train.all_to_all", problem));
    }
    let permute = config.train.peer_permute.unwrap_or_default();
    let groups = if permute == PeerPermute::None { groups.in_peer_order() } else { groups };
    let placement = place_in_towers(config, model, groups)?;
    let sptt = Sptt::new(model, &placement, groups, permute);
    let field = if config.placement.plan.is_some() { "placement.plan" } else { "placement.tables" };
    let sptt = sptt.map_err(|e| RunError::new(field, e.to_string()))?;
    Ok(Spread { placement, dataflow: Dataflow::Sptt(sptt) })
}

/// The placement of the plan that the config has.
fn of_plan(config: &Config, model: &Model, topology: Topology, groups: Option<Groups>) -> Option<Placed> {
    let Some(PlanChoice::File(plan)) = &config.placement.plan else { return None };
    let placement = plan.placement(model, topology, groups.map(|groups| groups.hosts_per_group()));
    Some(placement.map_err(|e| RunError::new("placement.plan", e.to_string())))
}

/// For the flat dataflow: balanced over the world, unless the user says how tables are cut over tower groups.
fn place(config: &Config, model: &Model, groups: Groups) -> Placed {
    if let Some(planned) = of_plan(config, model, groups.topology(), None) {
        return planned;
    }
    let replicate = config.placement.replicate_rows.unwrap_or(0);
    let placement = match config.placement.cut {
        None => placement::balanced(model, groups.topology(), replicate),
        Some(cut) => placement::in_towers(model, groups, cut),
    };
    let is_small = |&feature: &usize| {
        model.features()[feature].rows <= replicate && model.tensor_train(feature).is_none()
    };
    let small = (0..model.features().len()).filter(is_small);
    // In the flat dataflow every sample is served by its own rank.
    let trains = model.tensor_trains().map(|(feature, _)| (feature, Layout::DataParallel { ranks: None }));
    let layouts = small.map(|feature| (feature, Layout::Replicated)).chain(trains).collect();
    with_tables(config, model, &placement, layouts)
}

fn place_in_towers(config: &Config, model: &Model, groups: Groups) -> Placed {
    if let Some(planned) = of_plan(config, model, groups.topology(), Some(groups)) {
        return planned;
    }
    if config.placement.replicate_rows.is_some_and(|rows| rows > 0) {
        let problem = "in sptt every table has one group and none is replicated; leave it out";
        return Err(RunError::new("placement.replicate_rows", problem));
    }
    let placement = placement::in_towers(model, groups, config.placement.cut.unwrap_or_default());
    with_tables(config, model, &placement, BTreeMap::new())
}

/// A placement with other layouts of single tables, and with those that the user wrote.
fn with_tables(
    config: &Config,
    model: &Model,
    placement: &Placement,
    mut layouts: BTreeMap<usize, Layout>,
) -> Result<Placement, RunError> {
    for (name, layout) in &config.placement.tables {
        let Some(index) = model.features().iter().position(|f| f.name == *name) else {
            let field = format!("placement.tables.{name}");
            return Err(RunError::new(field, "the model has no feature of that name"));
        };
        layouts.insert(index, layout.clone());
    }
    let refuse = |e: PlacementError| RunError::new("placement.tables", e.to_string());
    let topology = placement.topology();
    let mut shards = Vec::with_capacity(placement.shards().len());
    for feature in 0..model.features().len() {
        match layouts.get(&feature) {
            Some(layout) => shards.extend(layout.shards(model, feature, topology).map_err(refuse)?),
            None => shards.extend_from_slice(placement.shards_of(feature)),
        }
    }
    Placement::new(model, topology, shards).map_err(refuse)
}
