//! Tables of docs/results: made again from the records under `reports/`, and from figures that a simulator computes.
//!
//! [`TABLES`] names them. Below each table stands which command measured it, when and on what, as far as its records say.

mod beside_torch;
mod figures;
mod gpu;
mod overfitting;
mod plans;
mod precision;
mod quality;
mod quantised;
mod rates;
mod reductions;
mod roofline;
mod steps;
mod towers;

use crate::error::{Error, Result};
use crate::program::Program;
use crate::quantised::Table as Quantised;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Records and the program that made them.
pub struct Sources<'a> {
    /// Folder of the records, `reports`.
    pub reports: &'a Path,
    /// Program that parses the flags of recorded runs.
    pub program: &'a dyn Program,
}

/// Makes a table from its sources.
type Make = fn(&Sources) -> Result<String>;

/// All tables by name.
pub const TABLES: [(&str, Make); 45] = [
    ("real data", |sources| quality::real_data(sources)),
    ("early stopping", |sources| overfitting::early_stopping(sources)),
    ("sweep", |sources| overfitting::sweep(sources)),
    ("quality kaggle", |sources| quality::of_towers(sources, "kaggle")),
    ("quality synthetic", |sources| quality::of_towers(sources, "synthetic")),
    ("quality planted", |sources| quality::planted(sources)),
    ("planted groups", |sources| towers::planted(sources, "planted")),
    ("planted groups, abs-mean", |sources| towers::planted(sources, "planted-abs-mean")),
    ("table 6 synthetic", |sources| towers::table6(sources, "synthetic")),
    ("table 6 kaggle", |sources| towers::table6(sources, "kaggle")),
    ("table 6 kaggle, before settling", |sources| towers::table6(sources, "kaggle-before-settling")),
    ("partition times", |sources| towers::times(sources)),
    ("speedup dlrm", |sources| steps::speedup(sources, "dlrm")),
    ("speedup dcn", |sources| steps::speedup(sources, "dcn")),
    ("speedup, wires", |sources| steps::wires(sources)),
    ("speedup, real computation", |sources| steps::speedup_computed(sources)),
    ("plan speedup", |sources| plans::speedup(sources)),
    ("searches", |_| plans::searches()),
    ("predictions", |sources| steps::predictions(sources)),
    ("quantised all-to-all", |sources| quantised::rows(sources, "synthetic", &[Quantised::Alltoall])),
    ("quantised all-reduce", |sources| quantised::rows(sources, "synthetic", &[Quantised::Allreduce])),
    ("quantised all-reduce, constant rate", |sources| {
        quantised::rows(sources, "constant-rate", &[Quantised::Alltoall, Quantised::Allreduce])
    }),
    ("quantised, combined", |sources| quantised::rows(sources, "synthetic", &[Quantised::Combined])),
    ("errors of reductions", |_| reductions::errors()),
    ("quantised, real log", |sources| quantised::rows(sources, "criteo", &Quantised::ALL)),
    ("figure madmax-table1", |_| figures::figure("madmax-table1")),
    ("figure dmt-fig10", |_| figures::by_scale("dmt-fig10")),
    ("figure dmt-wires", |_| figures::by_quantity("dmt-wires")),
    ("figure dmt-all-reduces", |_| figures::by_quantity("dmt-all-reduces")),
    ("figures with numbers", |_| figures::stated()),
    ("exploration", |sources| rates::exploration(sources)),
    ("whole steps", |sources| beside_torch::steps(sources)),
    ("roofline", |sources| roofline::targets(sources)),
    ("roofline phases", |sources| roofline::phases(sources)),
    ("gpu steps", |sources| gpu::steps(sources)),
    ("gpu phases", |sources| gpu::phases(sources)),
    ("gpu embeddings", |sources| gpu::embeddings(sources)),
    ("gpu predictions", |sources| gpu::predictions(sources)),
    ("gpu quality", |sources| gpu::quality(sources)),
    ("precision, real log", |sources| precision::quality(sources, "precision/criteo")),
    ("precision, synthetic log", |sources| precision::quality(sources, "precision/synthetic")),
    ("table formats, real log", |sources| precision::quality(sources, "table-formats/criteo")),
    ("table formats, synthetic log", |sources| precision::quality(sources, "table-formats/synthetic")),
    ("rows of every size", |sources| rates::rows_of_every_size(sources)),
    ("tables and data", |sources| rates::tables_and_data(sources)),
];

/// Makes the table of this name again, as Markdown; `None` for a name that is not known.
pub fn table(name: &str, sources: &Sources) -> Option<Result<String>> {
    let (_, make) = TABLES.iter().find(|(known, _)| *known == name)?;
    Some(make(sources))
}

/// Lines of a file of records, each a JSON object.
fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = std::fs::read_to_string(path).map_err(Error::file(path, "read"))?;
    let parsed = |(number, line): (usize, &str)| {
        let of = format!("{}, line {}", path.display(), number + 1);
        serde_json::from_str(line).map_err(|error| Error::json(of)(error))
    };
    let records: Vec<T> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(parsed)
        .collect::<Result<_>>()?;
    match records.is_empty() {
        true => Err(campanile::records::RecordsError::Empty { path: path.to_owned() }.into()),
        false => Ok(records),
    }
}

/// Mean of some numbers.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The first and the last day of times in ISO format: one day where they are the same.
fn days<'a>(times: impl Iterator<Item = &'a str>) -> String {
    let mut days: Vec<&str> = times.map(|time| time.get(..10).unwrap_or(time)).collect();
    days.sort_unstable();
    days.dedup();
    match days.as_slice() {
        [] => "no day recorded".into(),
        [day] => (*day).into(),
        [first, .., last] => format!("{first} to {last}"),
    }
}

/// Distinct texts in order, with commas between them.
fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut texts: Vec<&str> = texts.collect();
    texts.sort_unstable();
    texts.dedup();
    texts.join(", ")
}

#[cfg(test)]
mod tests;
