//! Changes of accuracy, AUC and logloss beside the trainings in f32, paired by seed.

use super::tables::{ACCEPTED, Row, Table};
use super::{Layers, Setting, TrainedRow};
use crate::Report;
use crate::error::{Error, Result};
use campanile::records::Records;
use pages::text::columns;
use planning::statistics::standard_deviation;
use serde_json::{Value, json};
use std::path::Path;

/// Changes of one row with a number of nodes.
pub(crate) struct Change {
    pub(crate) row: &'static Row,
    pub(crate) nodes: Option<usize>,
    pub(crate) layers: Option<Layers>,
    /// Number of seeds that were compared.
    pub(crate) seeds: usize,
    /// Number of seeds whose training diverged.
    pub(crate) diverged: usize,
    /// Change of accuracy in percent of that in f32, of each seed (Equation 2 of the paper).
    pub(crate) accuracy: Vec<f64>,
    pub(crate) auc: Vec<f64>,
    pub(crate) logloss: Vec<f64>,
}

/// Compares what a folder holds of a table.
pub fn recorded(folder: &Path, table: Table) -> Result<Report> {
    let records = Records::<TrainedRow>::existing(folder);
    let setting: Setting = serde_json::from_value(records.what()?).map_err(Error::json("settings"))?;
    Ok(report_of(&records.all()?, &setting, table))
}

/// Compares the trainings of a table with those in f32.
pub fn report_of(records: &[TrainedRow], setting: &Setting, table: Table) -> Report {
    let changes = changes(records, table);
    let json = Value::Array(changes.iter().map(|change| change.to_json(table, setting)).collect());
    Report { text: text(&changes, records, setting, table), json: json.to_string() }
}

/// Trainings in f32.
pub(crate) fn in_f32(records: &[TrainedRow]) -> impl Iterator<Item = &TrainedRow> {
    records.iter().filter(|record| record.table.is_none())
}

/// Changes of all rows of a table that have results, in the order of the table.
pub(crate) fn changes(records: &[TrainedRow], table: Table) -> Vec<Change> {
    let mut all = Vec::new();
    let mut columns: Vec<(Option<Layers>, Option<usize>)> = Vec::new();
    for record in records.iter().filter(|record| record.table == Some(table)) {
        if !columns.contains(&(record.layers, record.nodes)) {
            columns.push((record.layers, record.nodes));
        }
    }
    columns.sort_by_key(|(layers, nodes)| (*layers == Some(Layers::All), *nodes));
    for row in table.rows() {
        for &(layers, nodes) in &columns {
            let own = records.iter().filter(|record| {
                (record.table, record.row.as_str(), record.nodes, record.layers)
                    == (Some(table), row.name, nodes, layers)
            });
            let mut change = Change {
                row,
                nodes,
                layers,
                seeds: 0,
                diverged: 0,
                accuracy: Vec::new(),
                auc: Vec::new(),
                logloss: Vec::new(),
            };
            for record in own {
                let Some(base) = in_f32(records).find(|base| base.seed == record.seed) else { continue };
                change.add(base, record);
            }
            if change.seeds > 0 {
                all.push(change);
            }
        }
    }
    all
}

impl Change {
    fn add(&mut self, base: &TrainedRow, record: &TrainedRow) {
        self.seeds += 1;
        self.diverged += usize::from(record.diverged.is_some());
        if let (Some(base), Some(accuracy)) = (base.accuracy, record.accuracy) {
            self.accuracy.push((accuracy - base) / base * 100.0);
        }
        if let (Some(base), Some(auc)) = (base.auc, record.auc) {
            self.auc.push(auc - base);
        }
        if let (Some(base), Some(logloss)) = (base.logloss, record.logloss) {
            self.logloss.push(logloss - base);
        }
    }

    pub(crate) fn paper(&self) -> Option<f64> {
        self.row.paper(self.nodes)
    }

    fn to_json(&self, table: Table, setting: &Setting) -> Value {
        let side = |values: &[f64]| match values.is_empty() {
            true => Value::Null,
            false => json!({ "mean": mean(values), "error": error(values), "seeds": values }),
        };
        json!({
            "table": table,
            "row": self.row.name,
            "nodes": self.nodes,
            "layers": self.layers,
            "data": setting.data,
            "seeds": self.seeds,
            "diverged": self.diverged,
            "accuracy_change_percent": side(&self.accuracy),
            "auc_change": side(&self.auc),
            "logloss_change": side(&self.logloss),
            "paper": self.paper(),
        })
    }

    /// Change of accuracy with its error, as a cell.
    pub(crate) fn accuracy_cell(&self) -> String {
        self.cell(&self.accuracy, 3)
    }

    /// Some values' mean with its error; in how many seeds training diverged, if it did.
    pub(crate) fn cell(&self, values: &[f64], digits: usize) -> String {
        let diverged = match self.diverged {
            0 => String::new(),
            count if count == self.seeds => return "diverged".into(),
            count => format!(" ({count} of {} diverged)", self.seeds),
        };
        format!("{:+.digits$} ± {:.digits$}{diverged}", mean(values), error(values))
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Standard error of the mean.
pub(crate) fn error(values: &[f64]) -> f64 {
    standard_deviation(values) / (values.len().max(1) as f64).sqrt()
}

/// Name of the layers whose gradients are quantised.
pub(crate) fn layers_name(layers: Option<Layers>) -> &'static str {
    match layers {
        None => "–",
        Some(Layers::Divisible) => "divisible",
        Some(Layers::All) => "all",
    }
}

fn text(changes: &[Change], records: &[TrainedRow], setting: &Setting, table: Table) -> String {
    let head = ["row", "nodes", "layers", "seeds", "accuracy, %", "paper", "AUC", "logloss"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for change in changes {
        rows.push(vec![
            change.row.name.into(),
            change.nodes.map_or("–".into(), |nodes| nodes.to_string()),
            layers_name(change.layers).into(),
            change.seeds.to_string(),
            change.accuracy_cell(),
            change.paper().map_or("–".into(), |paper| format!("{paper:+.3}")),
            change.cell(&change.auc, 5),
            change.cell(&change.logloss, 5),
        ]);
    }
    format!("{}\n{}{}\n", table.title(), columns(&rows), described(records, setting))
}

/// What was trained, in a sentence or two.
pub(crate) fn described(records: &[TrainedRow], setting: &Setting) -> String {
    let base: Vec<&TrainedRow> = in_f32(records).collect();
    let of = |value: fn(&TrainedRow) -> Option<f64>| {
        mean(&base.iter().filter_map(|record| value(record)).collect::<Vec<f64>>())
    };
    format!(
        "Changes beside training in f32 from the same seed: mean ± standard error; the paper accepts changes of accuracy above {ACCEPTED} \
         %. {}: {} steps of {} rows, {} test rows; SGD with a learning rate of {}{}. In f32: accuracy {:.4}, AUC {:.4}, logloss {:.4}, \
         {} seeds.",
        if setting.data == "synthetic" { "Synthetic log".into() } else { setting.data.clone() },
        setting.steps,
        setting.batch,
        setting.test_rows,
        setting.rate,
        if setting.constant_rate { "" } else { ", lowered to zero over the second half" },
        of(|record| record.accuracy),
        of(|record| record.auc),
        of(|record| record.logloss),
        base.len(),
    )
}
