//! Changes of AUC and logloss beside the trainings in f32, paired by seed.

use super::{Setting, TrainedIn};
use crate::Report;
use crate::error::{Error, Result};
use crate::quantised::report::{error, mean};
use campanile::records::Records;
use pages::text::columns;
use serde_json::{Value, json};
use std::path::Path;

/// Change of AUC that this project accepts of a precision or a format of tables, up or down, in the mean over seeds. What ends with a space is
/// the beginning of a name: the memory follows.
const LIMITS: [(&str, f64); 4] = [
    ("f32x3", 0.0003),
    ("bf16", 0.001),
    ("tables f16, stochastic", 0.0003),
    ("tables int8, stochastic, under ", 0.001),
];

/// Results of one precision, beside those of f32.
pub(crate) struct Change {
    pub(crate) precision: String,
    /// AUC of every seed.
    pub(crate) auc: Vec<f64>,
    /// Change of AUC beside f32, of every seed.
    pub(crate) auc_change: Vec<f64>,
    pub(crate) logloss_change: Vec<f64>,
    /// Whether all parameters have the bits of f32: the processor computes this precision as f32.
    pub(crate) same_bits: bool,
}

/// Compares what a folder holds.
pub fn recorded(folder: &Path) -> Result<Report> {
    let records = Records::<TrainedIn>::existing(folder);
    let setting: Setting = serde_json::from_value(records.what()?).map_err(Error::json("settings"))?;
    Ok(report_of(&records.all()?, &setting))
}

/// Compares trainings with those in f32.
pub fn report_of(records: &[TrainedIn], setting: &Setting) -> Report {
    let changes = changes(records);
    let json = Value::Array(changes.iter().map(|change| change.to_json(setting)).collect());
    let mut rows = vec![HEAD.map(String::from).to_vec()];
    rows.extend(changes.iter().map(Change::cells));
    let text = format!("{}{}\n", columns(&rows), described(setting));
    Report { text, json: json.to_string() }
}

/// Results of each precision, in the order in which they were first trained.
pub(crate) fn changes(records: &[TrainedIn]) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for record in records {
        let of_seed = |base: &&TrainedIn| base.precision == "f32" && base.seed == record.seed;
        let Some(base) = records.iter().find(of_seed) else { continue };
        let at = all.iter().position(|change| change.precision == record.precision).unwrap_or_else(|| {
            let precision = record.precision.clone();
            all.push(Change {
                precision,
                auc: vec![],
                auc_change: vec![],
                logloss_change: vec![],
                same_bits: true,
            });
            all.len() - 1
        });
        all[at].auc.push(record.auc);
        all[at].auc_change.push(record.auc - base.auc);
        all[at].logloss_change.push(record.logloss - base.logloss);
        all[at].same_bits &= record.parameters_sha256 == base.parameters_sha256;
    }
    all
}

/// Heads of the columns of [`Change::cells`].
pub(crate) const HEAD: [&str; 7] =
    ["precision", "seeds", "AUC", "change of AUC", "largest of a seed", "accepted", "change of logloss"];

impl Change {
    fn limit(&self) -> Option<f64> {
        let is_this = |name: &str| match name.ends_with(' ') {
            true => self.precision.starts_with(name),
            false => self.precision == name,
        };
        LIMITS.iter().find(|(name, _)| is_this(name)).map(|(_, limit)| *limit)
    }

    /// Whether the mean change is accepted; `None` where nothing is said of the precision.
    fn is_met(&self) -> Option<bool> {
        self.limit().map(|limit| mean(&self.auc_change).abs() <= limit)
    }

    /// Cells of a table, under [`HEAD`].
    pub(crate) fn cells(&self) -> Vec<String> {
        let is_base = self.precision == "f32";
        let change = |values: &[f64]| match is_base {
            true => "–".to_owned(),
            false => format!("{:+.5} ± {:.5}", mean(values), error(values)),
        };
        let larger = |a: f64, b: &f64| if b.abs() > a.abs() { *b } else { a };
        let largest = self.auc_change.iter().fold(0.0, larger);
        let accepted = self
            .limit()
            .zip(self.is_met())
            .map_or("–".into(), |(limit, met)| format!("±{limit}: {}", if met { "met" } else { "missed" }));
        vec![
            match self.same_bits && !is_base {
                true => format!("{} (computed as f32)", self.precision),
                false => self.precision.clone(),
            },
            self.auc.len().to_string(),
            format!("{:.5}", mean(&self.auc)),
            change(&self.auc_change),
            if is_base { "–".into() } else { format!("{largest:+.5}") },
            accepted,
            change(&self.logloss_change),
        ]
    }

    fn to_json(&self, setting: &Setting) -> Value {
        let side = |values: &[f64]| json!({ "mean": mean(values), "error": error(values), "seeds": values });
        json!({
            "precision": self.precision,
            "data": setting.data,
            "seeds": self.auc.len(),
            "same_bits": self.same_bits,
            "auc": side(&self.auc),
            "auc_change": side(&self.auc_change),
            "logloss_change": side(&self.logloss_change),
            "accepted_auc_change": self.limit(),
            "met": self.is_met(),
        })
    }
}

/// What was trained, in a sentence or two.
pub(crate) fn described(setting: &Setting) -> String {
    let Setting { data, model, steps, train_rows, test_rows, batch } = setting;
    let data = if data == "synthetic" { "synthetic log" } else { data };
    format!(
        "Changes beside training in f32 from the same seed: mean ± standard error, and the largest of a seed; the mean is held against what \
         is accepted. {data}, {model} of the Kaggle preset: {train_rows} rows in {steps} steps of {batch}, {test_rows} test rows, usual \
         optimizers."
    )
}
