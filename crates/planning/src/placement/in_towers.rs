//! Tables laid out by tower: each tower on one group of ranks, its tables on the ranks of that group.

use super::packing::Load;
use crate::assignment::{Loads, give_largest_first};
use spec::feature::Hotness;
use spec::model::{Member, Model};
use spec::placement::{Cut, Layout, Placement};
use spec::topology::Groups;
use std::collections::BTreeMap;
use std::ops::Add;

/// Where one slice of a table goes.
struct Slice {
    feature: usize,
    /// Number of the slice among the slices of its feature.
    number: usize,
    group: usize,
}

/// Towers on groups and tables on ranks, each where there is the least to look up and exchange so far, largest first.
/// A model without towers counts as one with a tower per feature. Where vectors only pass through and there are more
/// groups than towers, tables are sliced by columns so that every group has some.
pub fn in_towers(model: &Model, groups: Groups, cut: Cut) -> Placement {
    let layouts = layouts_in_towers(model, groups, cut);
    Placement::of_layouts(model, groups.topology(), &layouts)
        .expect("built from the model and the cluster themselves")
}

/// Layouts of a placement [`in_towers`].
pub(crate) fn layouts_in_towers(model: &Model, groups: Groups, cut: Cut) -> Vec<Layout> {
    let features = model.features().len();
    let towers: Vec<Vec<(usize, usize)>> = match model.towers() {
        [] => (0..features).map(|feature| vec![(feature, 0)]).collect(),
        towers => {
            let mut starts = vec![Vec::new(); features];
            for member in towers.iter().flat_map(|tower| &tower.members) {
                starts[member.feature].push(member.columns.start);
            }
            let number = |m: &Member| starts[m.feature].iter().filter(|&&s| s < m.columns.start).count();
            towers.iter().map(|t| t.members.iter().map(|m| (m.feature, number(m))).collect()).collect()
        }
    };
    let sliced = towers.iter().flatten().any(|&(_, number)| number > 0);
    let spread = !sliced && !model.has_tower_modules() && groups.count() > towers.len();
    let towers = if spread {
        let slices = groups.count().div_ceil(features);
        // Tensor trains are not cut.
        let pieces = |feature: usize| model.tensor_train(feature).map_or(model.row_width(feature), |_| 1);
        let wide = |number: usize| (0..features).filter(move |&feature| number < pieces(feature));
        (0..slices).flat_map(|number| wide(number).map(move |feature| vec![(feature, number)])).collect()
    } else {
        towers
    };
    let mut slices_of = vec![0; features];
    towers.iter().flatten().for_each(|&(feature, _)| slices_of[feature] += 1);
    let load = |&(feature, _): &(usize, usize)| load_of(model, feature, slices_of[feature]);

    let of_tower = |tower: &Vec<(usize, usize)>| tower.iter().map(load).fold(Load::default(), Load::add);
    let tower_loads: Vec<Load> = towers.iter().map(of_tower).collect();
    let least = |_, loads: &Loads<Load>| loads.least(0..groups.count());
    let homes = give_largest_first(&tower_loads, &mut Loads::none(groups.count()), least);
    let homes = towers.iter().zip(homes.expect("a cluster has groups"));
    let mut slices: Vec<Slice> = homes
        .flat_map(|(tower, group)| {
            tower.iter().map(move |&(feature, number)| Slice { feature, number, group })
        })
        .collect();
    slices.sort_by_key(|s| (std::cmp::Reverse(load(&(s.feature, s.number))), s.feature, s.number));

    let mut layouts = vec![Layout::Replicated; features];
    let mut rank_loads = Loads::none(groups.topology().ranks());
    let mut holders: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for slice in &slices {
        let members: Vec<usize> = groups.members(slice.group).collect();
        let whole = slices_of[slice.feature] == 1;
        let (rows, width) = (model.features()[slice.feature].rows, model.row_width(slice.feature));
        if model.tensor_train(slice.feature).is_some() {
            // Every member computes the rows of its samples.
            layouts[slice.feature] = Layout::DataParallel { ranks: Some(members) };
            continue;
        }
        match resolve(cut, model.features()[slice.feature].hotness) {
            Cut::Columns if whole && width > 1 && members.len() > 1 => {
                let mut ranks = members;
                ranks.sort_by_key(|&rank| (rank_loads.of(rank), rank));
                ranks.truncate(width);
                let each = load_of(model, slice.feature, ranks.len());
                ranks.iter().for_each(|&rank| rank_loads.add(rank, each));
                layouts[slice.feature] = Layout::ColumnWise { ranks };
            }
            Cut::Rows if whole && members.len() > 1 && rows >= members.len() => {
                // All of them look up as much, on average.
                layouts[slice.feature] = Layout::RowWise { ranks: members };
            }
            _ => {
                let rank = rank_loads.least(members).expect("a group has ranks");
                rank_loads.add(rank, load(&(slice.feature, slice.number)));
                holders.insert((slice.feature, slice.number), rank);
                if whole {
                    layouts[slice.feature] = Layout::TableWise { rank };
                }
            }
        }
    }
    for (feature, &count) in slices_of.iter().enumerate().filter(|(_, count)| **count > 1) {
        let ranks = (0..count).map(|number| holders[&(feature, number)]).collect();
        layouts[feature] = Layout::ColumnWise { ranks };
    }
    layouts
}

fn resolve(cut: Cut, hotness: Hotness) -> Cut {
    match (cut, hotness) {
        (Cut::Hotness, Hotness::One) => Cut::Columns,
        (Cut::Hotness, Hotness::Many { .. }) => Cut::Rows,
        (cut, _) => cut,
    }
}

/// What one of `slices` slices of a feature's table costs its holder: floats read and sent per sample, then rows.
fn load_of(model: &Model, feature: usize, slices: usize) -> Load {
    let columns = model.row_width(feature).div_ceil(slices.max(1)) as u64;
    let feature = &model.features()[feature];
    Load { lookups: (feature.hotness.mean() + 1) * columns, memory: feature.rows as u64 }
}
