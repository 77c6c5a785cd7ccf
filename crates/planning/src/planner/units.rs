//! Units of a plan: tables, or slices of their columns that towers read apart, with what each may be.

use super::candidates::{self, Candidates};
use super::prices::Prices;
use crate::assignment::{Holder, Item, Problem, best, greedy};
use spec::model::Model;
use spec::placement::share;
use spec::topology::Groups;
use std::ops::Range;

/// A table, or a slice of its columns.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub feature: usize,
    pub columns: Range<usize>,
    /// Whether the unit is a whole table. Slices are cut by columns only, so that the shards of the table form a grid.
    pub whole: bool,
    /// Whether the table is a tensor train, of which every member has the cores.
    pub is_train: bool,
}

/// Units with their candidates, and the tower group that each is confined to.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub units: Vec<Unit>,
    pub candidates: Vec<Candidates>,
    /// Group of each unit; empty in the flat dataflow.
    pub group_of: Vec<usize>,
    /// Seconds on every rank of each group for what leaves the group; empty in the flat dataflow.
    pub leaving: Vec<f64>,
}

/// A tower: its units, and the columns that leave it.
struct Tower {
    units: Vec<usize>,
    leaving: usize,
}

/// Units of a request, with towers on groups.
pub(super) fn tables(prices: &Prices) -> Tables {
    let model = prices.request.model;
    let Some(groups) = prices.request.groups else {
        let whole = |feature| {
            let (columns, is_train) = (0..model.row_width(feature), model.tensor_train(feature).is_some());
            Unit { feature, columns, whole: true, is_train }
        };
        let units: Vec<Unit> = (0..model.features().len()).map(whole).collect();
        let candidates = units.iter().map(|unit| candidates::of_unit(prices, unit)).collect();
        return Tables { units, candidates, group_of: Vec::new(), leaving: Vec::new() };
    };
    let (units, towers) = in_towers(model, groups);
    let candidates: Vec<Candidates> = units.iter().map(|unit| candidates::of_unit(prices, unit)).collect();
    let on = towers_on_groups(prices, groups, &towers, &candidates);
    let mut group_of = vec![0; units.len()];
    let mut leaving = vec![0.0; groups.count()];
    for (tower, group) in towers.iter().zip(on) {
        tower.units.iter().for_each(|&unit| group_of[unit] = group);
        leaving[group] += prices.leaving(tower.leaving);
    }
    Tables { units, candidates, group_of, leaving }
}

/// Units by tower. Without towers every table counts as one; where vectors only pass through and there are more groups than
/// tables, tables are sliced by columns so that every group has some.
fn in_towers(model: &Model, groups: Groups) -> (Vec<Unit>, Vec<Tower>) {
    let features = model.features().len();
    if model.towers().is_empty() || (!model.has_tower_modules() && groups.count() > model.towers().len()) {
        let slices = groups.count().div_ceil(features);
        let mut units = Vec::new();
        for feature in 0..features {
            let width = model.row_width(feature);
            let is_train = model.tensor_train(feature).is_some();
            let count = if is_train { 1 } else { slices.min(width / candidates::MIN_COLUMNS).max(1) };
            units.extend((0..count).map(|i| Unit {
                feature,
                columns: share(width, count, i),
                whole: count == 1,
                is_train,
            }));
        }
        let alone = |unit: usize| Tower { units: vec![unit], leaving: units[unit].columns.len() };
        let towers = (0..units.len()).map(alone).collect();
        return (units, towers);
    }
    let (mut units, mut towers) = (Vec::new(), Vec::new());
    for tower in model.towers() {
        let first = units.len();
        units.extend(tower.members.iter().map(|member| Unit {
            feature: member.feature,
            columns: member.columns.clone(),
            whole: member.columns == (0..model.row_width(member.feature)),
            is_train: model.tensor_train(member.feature).is_some(),
        }));
        towers.push(Tower { units: (first..units.len()).collect(), leaving: tower.output_width() });
    }
    (units, towers)
}

/// Group of each tower: the busiest group has as little to do as possible, if every table takes its cheapest form.
fn towers_on_groups(
    prices: &Prices,
    groups: Groups,
    towers: &[Tower],
    candidates: &[Candidates],
) -> Vec<usize> {
    let size = groups.size();
    let least = |of: &dyn Fn(&candidates::Candidate) -> f64, unit: usize| {
        let all = candidates[unit].all.iter().map(of).fold(f64::INFINITY, f64::min);
        if all.is_finite() { all } else { of(&candidates[unit].smallest) }
    };
    let item = |tower: &Tower| {
        let sum = |of: &dyn Fn(&candidates::Candidate) -> f64| -> f64 {
            tower.units.iter().map(|&unit| least(of, unit)).sum()
        };
        let cost = sum(&|candidate| candidate.total) / size as f64 + prices.leaving(tower.leaving);
        Item { cost, memory: sum(&|candidate| candidate.memory) as u64, ..Item::default() }
    };
    let holder = Holder { cost: 0.0, memory: prices.room().saturating_mul(size as u64) };
    let mut problem = Problem::new(towers.iter().map(item).collect(), vec![holder; groups.count()]);
    if let Ok(found) = best(&problem) {
        return found.holders;
    }
    // Nothing fits; the search will say so.
    problem.items.iter_mut().for_each(|item| item.memory = 0);
    greedy(&problem).map(|found| found.holders).unwrap_or_else(|_| vec![0; towers.len()])
}
