//! Towers of a model: inputs, outputs, costs and groups of each.

use crate::text::{columns, si};
use serde::Serialize;
use spec::model::{Member, Tower};
use spec::run::Run;
use std::collections::BTreeSet;
use std::ops::Range;

/// Names of features that a row shows.
const NAMES: usize = 6;
/// Towers that a table shows.
const ROWS: usize = 64;

/// A tower in numbers.
#[derive(Debug, PartialEq, Serialize)]
pub struct Described {
    /// Names of the tower's features, or of slices of them.
    pub features: Vec<String>,
    /// Columns of a sample that go in.
    pub columns_in: usize,
    /// Columns of a sample that come out.
    pub columns_out: usize,
    /// Parameters of the tower's module.
    pub parameters: u64,
    /// FLOPs of the module, to train on a sample.
    pub mflops_per_sample: f64,
    /// Groups that hold the tower's tables: one where it has a module, none in the flat dataflow.
    pub groups: Vec<usize>,
}

/// The towers of a run's model.
pub fn of_run(run: &Run) -> Vec<Described> {
    let model = &run.model;
    let homes = homes(run);
    let describe = |tower: &Tower| Described {
        features: tower.members.iter().map(|member| member.name(model)).collect(),
        columns_in: tower.input_width(),
        columns_out: tower.output_width(),
        parameters: tower.weights(),
        mflops_per_sample: tower.training_flops() as f64 / 1e6,
        groups: groups_of(tower, &homes),
    };
    model.towers().iter().map(describe).collect()
}

/// Groups that hold each feature, with the columns that they hold.
fn homes(run: &Run) -> Vec<Vec<(usize, Range<usize>)>> {
    let mut homes = vec![Vec::new(); run.model.features().len()];
    if let Some(sptt) = run.dataflow.sptt() {
        for rank in 0..run.topology().ranks() {
            let group = sptt.groups().group_of(rank);
            for shard in run.placement.held_by(rank) {
                homes[shard.feature].push((group, shard.columns.clone()));
            }
        }
    }
    homes
}

fn groups_of(tower: &Tower, homes: &[Vec<(usize, Range<usize>)>]) -> Vec<usize> {
    let of_member = |member: &Member| {
        let Range { start, end } = member.columns;
        let meets = move |(_, columns): &&(usize, Range<usize>)| columns.start < end && start < columns.end;
        homes[member.feature].iter().filter(meets).map(|(group, _)| *group).collect::<BTreeSet<usize>>()
    };
    let groups: BTreeSet<usize> = tower.members.iter().flat_map(of_member).collect();
    groups.into_iter().collect()
}

/// A row for each tower.
pub fn table(towers: &[Described]) -> String {
    let head = ["tower", "columns in → out", "parameters", "MFlops/sample", "group"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(towers.iter().enumerate().take(ROWS).map(|(index, tower)| {
        vec![
            format!("{index}: {}", names(&tower.features)),
            format!("{} → {}", tower.columns_in, tower.columns_out),
            si(tower.parameters as f64),
            format!("{:.3}", tower.mflops_per_sample),
            match &tower.groups[..] {
                [] => "–".into(),
                [group] => group.to_string(),
                groups => format!("{} of them", groups.len()),
            },
        ]
    }));
    let more = towers.len().saturating_sub(ROWS);
    columns(&rows) + &if more > 0 { format!("  … and {more} more\n") } else { String::new() }
}

/// Names of features as text: `C1 C9 C17`, or the first of many.
fn names(features: &[String]) -> String {
    // Hiding a single name would save nothing.
    let shown = if features.len() <= NAMES + 1 { features.len() } else { NAMES };
    let more = features.len() - shown;
    features[..shown].join(" ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

#[cfg(test)]
mod tests;
