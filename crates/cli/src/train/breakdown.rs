//! What predictions are worth, for people: metrics of every label, of groups and of slices.

use crate::text::{columns, grouped, printable, si};
use std::fmt::Write;
use training::Scores;
use training::metrics::breakdown::{GroupScores, Slice, SliceScores};
use training::metrics::{Evaluation, METRICS, Metric};

/// What predictions are worth: a line of metrics, or one for each of several labels; then groups and slices.
pub fn quality_of(which: &str, scores: &Scores) -> String {
    let samples = si(scores.evaluation.samples as f64);
    let mut text = format!("\nQuality on {samples} {which} samples\n");
    if scores.labels.is_empty() {
        let _ = writeln!(text, "  {}", metrics(&scores.evaluation));
        add_group(&mut text, scores.group.as_ref(), "");
        add_slices(&mut text, &scores.slices, "");
        return text;
    }
    let width = scores.labels.iter().map(|label| label.name.chars().count()).max().unwrap_or(0);
    for label in &scores.labels {
        let _ = writeln!(text, "  {:width$}   {}", printable(&label.name), metrics(&label.evaluation));
    }
    let of = |name: &str| format!(" of {}", printable(name));
    for label in &scores.labels {
        add_group(&mut text, label.group.as_ref(), &of(&label.name));
    }
    for label in &scores.labels {
        add_slices(&mut text, &label.slices, &of(&label.name));
    }
    text
}

/// All metrics in a line.
fn metrics(evaluation: &Evaluation) -> String {
    let shown = |metric: &Metric| format!("{} {}", metric.label, Metric::show((metric.of)(evaluation)));
    METRICS.iter().map(shown).collect::<Vec<_>>().join("   ")
}

fn add_group(text: &mut String, group: Option<&GroupScores>, of: &str) {
    if let Some(GroupScores { column, auc, groups, of_groups, .. }) = group {
        let _ = writeln!(
            text,
            "  AUC{of} by {} {}: the mean of {} of {} groups, those with both labels",
            printable(column),
            Metric::show(*auc),
            grouped(*groups),
            grouped(*of_groups)
        );
    }
}

fn add_slices(text: &mut String, slices: &[SliceScores], of: &str) {
    for SliceScores { column, values, slices, other } in slices {
        let _ = writeln!(text, "\nQuality{of} by {}, {} values", printable(column), grouped(*values));
        let head = ["value", "samples", "click rate", "AUC", "logloss", "calibration"];
        let mut rows = vec![head.map(String::from).to_vec()];
        for Slice { value, samples, auc, logloss, calibration, click_rate } in slices.iter().chain(other) {
            let [rate, auc, logloss, calibration] =
                [click_rate, auc, logloss, calibration].map(|value| Metric::show(*value));
            rows.push(vec![
                printable(value).into_owned(),
                grouped(*samples),
                rate,
                auc,
                logloss,
                calibration,
            ]);
        }
        text.push_str(&columns(&rows));
    }
}
