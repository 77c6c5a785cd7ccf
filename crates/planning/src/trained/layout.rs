//! Placement of the tables of a tower model on clusters of any size.

use crate::placement;
use spec::placement::{Cut, Layout};
use spec::run::Run;
use std::collections::BTreeMap;

/// Hosts of each group, so that there is a group for every tower, or for every host where there are more towers. Groups are
/// equal, so hosts may be left over: their groups have no tower.
pub(super) fn hosts_per_tower(hosts: usize, towers: usize) -> usize {
    let fits = |k: &usize| hosts.is_multiple_of(*k) && hosts / k >= towers.min(hosts);
    (1..=hosts).rev().find(fits).unwrap_or(1)
}

/// A layout for every table, by name. Columns that only pass through lie as in the flat dataflow, balanced over the world.
/// Towers are laid on groups by spec, and their tables cut over the ranks of the group by the rule of the flat dataflow.
pub(super) fn tables(run: &Run) -> BTreeMap<String, Layout> {
    let model = &run.model;
    let Some(groups) = run.dataflow.sptt().map(|sptt| sptt.groups()) else { return BTreeMap::new() };
    let layouts = if model.has_tower_modules() {
        let mut layouts = placement::layouts_in_towers(model, groups, Cut::Whole);
        for group in 0..groups.count() {
            let members: Vec<usize> = groups.members(group).collect();
            let here = |feature: &usize| matches!(layouts[*feature], Layout::TableWise { rank } if members.contains(&rank));
            let features: Vec<usize> = (0..layouts.len()).filter(here).collect();
            for (feature, layout) in placement::columns_over(model, &features, &members) {
                layouts[feature] = layout;
            }
        }
        layouts
    } else {
        let mut layouts = placement::balanced_layouts(model, groups.topology(), 0);
        // The cores of a tensor train are in one group.
        let in_groups = placement::layouts_in_towers(model, groups, Cut::Whole);
        for (train, _) in model.tensor_trains() {
            layouts[train] = in_groups[train].clone();
        }
        layouts
    };
    model.features().iter().map(|feature| feature.name.clone()).zip(layouts).collect()
}

#[cfg(test)]
mod tests;
