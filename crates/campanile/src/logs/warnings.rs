//! Warnings about the logs of a run.

use super::OpenLogs;
use data::prepared::Manifest;
use data::warnings;
use pages::text::grouped;
use spec::run::DataConfig;
use std::path::PathBuf;
use training::Logs;

impl OpenLogs {
    /// Warnings about the logs, one line each.
    pub fn warnings(&self, data: &DataConfig) -> Vec<String> {
        let Logs::Prepared { train: Some(train), eval } = &self.logs else { return Vec::new() };
        let train = train.manifest();
        let mut found = warnings::of_schema(&train.schema);
        if let Some(noticed) = &train.noticed {
            found.extend(warnings::of_samples(&train.schema, train.samples, train.clicks, noticed));
        }
        if let Some(eval) = eval {
            let eval = eval.manifest();
            found.extend(if data.split.is_some() {
                one_label_each(train, eval)
            } else {
                same_samples(data, train, eval)
            });
        }
        found
    }
}

/// Evaluation data that is training data.
fn same_samples(data: &DataConfig, train: &Manifest, eval: &Manifest) -> Option<String> {
    let remedy = "so the model is judged by what it has seen; --split 0.1 keeps rows from training";
    if train.files.samples == eval.files.samples && train.samples > 0 {
        return Some(format!(
            "evaluation and training data are the same {} samples, {remedy}",
            grouped(eval.samples)
        ));
    }
    let resolved = |patterns: &[String]| -> Vec<PathBuf> {
        let files = data::files::resolve(patterns).unwrap_or_default();
        files.into_iter().filter_map(|file| file.canonicalize().ok()).collect()
    };
    let trained_on = resolved(&data.train);
    let twice = resolved(&data.eval).into_iter().find(|file| trained_on.contains(file))?;
    Some(format!("{}: is trained and evaluated on, {remedy}", twice.display()))
}

/// A log that is sorted by label, and was split between the two.
fn one_label_each(train: &Manifest, eval: &Manifest) -> Option<String> {
    let pure = train.clicks == 0 || train.clicks == train.samples;
    let other = if train.clicks == 0 { eval.clicks > 0 } else { eval.clicks < eval.samples };
    let changes = eval.noticed.as_ref()?.label_changes;
    (pure && other && changes <= 1).then(|| warnings::sorted(1 + changes, train.samples + eval.samples))
}
