//! Where the tables of a tower model live, on clusters of any size.

use crate::placement;
use spec::model::Model;
use spec::placement::{Cut, Layout, share};
use spec::run::Run;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The fewest columns of a piece, as in a flat placement: narrower ones cost more in ids than they save in vectors.
const MIN_COLUMNS: usize = 4;

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
        let placement = placement::in_towers(model, groups, Cut::Whole);
        let mut layouts = placement.layouts().to_vec();
        for group in 0..groups.count() {
            let members: Vec<usize> = groups.members(group).collect();
            let here = |feature: &usize| matches!(layouts[*feature], Layout::TableWise { rank } if members.contains(&rank));
            let features: Vec<usize> = (0..layouts.len()).filter(here).collect();
            for (feature, ranks) in over_group(model, &features, &members) {
                layouts[feature] = match ranks[..] {
                    [rank] => Layout::TableWise { rank },
                    _ => Layout::ColumnWise { ranks },
                };
            }
        }
        layouts
    } else {
        placement::balanced(model, groups.topology(), 0).layouts().to_vec()
    };
    model.features().iter().map(|feature| feature.name.clone()).zip(layouts).collect()
}

/// Holders of the pieces of some tables over some ranks: the columns of the largest are halved until every rank has some, and each
/// piece goes to the rank with the least so far, largest first.
fn over_group(model: &Model, features: &[usize], members: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let dim = model.row_width();
    let load = |feature: usize, columns: usize| {
        let feature = &model.features()[feature];
        ((feature.hotness.mean() + 1) * columns as u64, feature.rows as u64 * columns as u64)
    };
    let mut cuts = vec![1; features.len()];
    while cuts.iter().sum::<usize>() < members.len() {
        let can_be_halved = (0..cuts.len()).filter(|&i| dim / (2 * cuts[i]) >= MIN_COLUMNS);
        let Some(largest) = can_be_halved.max_by_key(|&i| (load(features[i], dim / cuts[i]), Reverse(i)))
        else {
            break;
        };
        cuts[largest] *= 2;
    }
    let mut pieces: Vec<(usize, usize)> =
        cuts.iter().enumerate().flat_map(|(i, &cut)| (0..cut).map(move |number| (i, number))).collect();
    let of_piece = |&(i, number): &(usize, usize)| load(features[i], share(dim, cuts[i], number).len());
    pieces.sort_by_key(|piece| Reverse(of_piece(piece)));
    let mut loads = vec![(0, 0); members.len()];
    let mut holders: Vec<(usize, Vec<usize>)> =
        features.iter().zip(&cuts).map(|(&feature, &cut)| (feature, vec![members[0]; cut])).collect();
    for piece in pieces {
        let index = (0..loads.len()).min_by_key(|&index| (loads[index], index)).unwrap_or(0);
        let load = of_piece(&piece);
        loads[index] = (loads[index].0 + load.0, loads[index].1 + load.1);
        holders[piece.0].1[piece.1] = members[index];
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::hosts_per_tower;

    #[test]
    fn every_tower_has_a_group_or_every_host_one() {
        let cases =
            [((8, 8), 1), ((16, 8), 2), ((64, 26), 2), ((2, 8), 1), ((12, 8), 1), ((6, 2), 3), ((7, 2), 1)];
        for ((hosts, towers), k) in cases {
            assert_eq!(hosts_per_tower(hosts, towers), k, "{towers} towers on {hosts} hosts");
        }
    }
}
