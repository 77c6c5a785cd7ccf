//! Accuracy of models whose vectors and gradients travel in a few bits (Tables 2 to 4 of Yang et al., 2020).

use super::Sources;
use crate::error::{Error, Result};
use crate::quantised::report::{Change, changes, described};
use crate::quantised::{Layers, Setting, Table, TrainedRow};
use campanile::records::Records;
use pages::markdown::table;

/// Rows of some tables of the paper, from the records of a folder of `reports/quantised`.
pub(super) fn rows(sources: &Sources, folder: &str, tables: &[Table]) -> Result<String> {
    let records = Records::<TrainedRow>::existing(&sources.reports.join("quantised").join(folder));
    let head = ["row", "nodes", "seeds", "paper", "accuracy, %", "the same, all layers", "AUC", "logloss"];
    let commands = tables
        .iter()
        .map(|table| format!("`campanile reproduce {}`", table.command()))
        .collect::<Vec<_>>()
        .join(", ");
    if !records.path().exists() {
        return Ok(format!("{}\nNot measured yet: {commands} will.\n", table(1, &head, &[])));
    }
    let setting: Setting = serde_json::from_value(records.what()?).map_err(Error::json("settings"))?;
    let records = records.all()?;
    let cells: Vec<Vec<String>> = tables.iter().flat_map(|table| cells(&changes(&records, *table))).collect();
    Ok(format!(
        "{}\n{} Measured by {}; records: `reports/quantised/{folder}/records.jsonl`, whose first line has all settings.\n",
        table(1, &head, &cells),
        described(&records, &setting),
        commands,
    ))
}

/// A line for each row and number of nodes: changes with the layers of the paper, beside those with all layers.
fn cells(changes: &[Change]) -> Vec<Vec<String>> {
    let mut lines: Vec<(&Change, Option<&Change>)> = Vec::new();
    for change in changes {
        let same = |(first, _): &&mut (&Change, Option<&Change>)| {
            (first.row.name, first.nodes) == (change.row.name, change.nodes)
        };
        match lines.iter_mut().find(same) {
            Some((_, all)) if change.layers == Some(Layers::All) => *all = Some(change),
            _ => lines.push((change, None)),
        }
    }
    let line = |(change, all): (&Change, Option<&Change>)| {
        vec![
            change.row.name.into(),
            change.nodes.map_or("–".into(), |nodes| nodes.to_string()),
            change.seeds.to_string(),
            change.paper().map_or("–".into(), |paper| format!("{paper:+.3}")),
            change.accuracy_cell(),
            all.map_or("–".into(), Change::accuracy_cell),
            change.cell(&change.auc, 5),
            change.cell(&change.logloss, 5),
        ]
    };
    lines.into_iter().map(line).collect()
}
