//! Metrics of every label, and by the values of columns, of the last evaluation.

use crate::folder::metrics::Eval;
use crate::text::{grouped, si};
use pages::{Escaped, four};
use std::fmt::Write;
use training::metrics::METRICS;
use training::metrics::breakdown::{GroupScores, Slice, SliceScores};

/// Cards for labels, groups and slices; nothing for an evaluation without any.
pub fn breakdown(eval: &Eval) -> String {
    let mut html = labels(eval);
    if eval.labels.is_empty() {
        html.push_str(&group(eval.group.as_ref(), ""));
        eval.slices.iter().for_each(|scores| html.push_str(&slices(scores, "")));
    }
    for (name, label) in &eval.labels.0 {
        html.push_str(&group(label.group.as_ref(), name));
        label.slices.iter().for_each(|scores| html.push_str(&slices(scores, name)));
    }
    html
}

/// A row of metrics for each label.
fn labels(eval: &Eval) -> String {
    if eval.labels.is_empty() {
        return String::new();
    }
    let shown = || METRICS.iter().filter(|metric| metric.title.is_some());
    let mut html = String::from(
        "<figure class=\"card\" id=\"labels\"><figcaption>Labels</figcaption><p class=\"note\">The numbers at the top are those \
         of the first.</p><div class=\"scroll\"><table><thead><tr><th class=\"left\">label</th>",
    );
    for metric in shown() {
        let _ = write!(html, "<th>{}</th>", metric.label);
    }
    html.push_str("<th>click rate</th></tr></thead>");
    for (name, label) in &eval.labels.0 {
        let _ = write!(html, "<tr><td class=\"left\">{}</td>", Escaped(name));
        for metric in shown() {
            let _ = write!(html, "<td>{}</td>", four(label.metrics.get(metric.field)));
        }
        let _ = write!(html, "<td>{:.4}</td></tr>", label.click_rate);
    }
    html.push_str("</table></div></figure>\n");
    html
}

/// Title of a card: what it shows, and for which of several labels.
fn title(what: &str, label: &str) -> String {
    if label.is_empty() { what.into() } else { format!("{what} · {label}") }
}

fn group(scores: Option<&GroupScores>, label: &str) -> String {
    let Some(scores) = scores else { return String::new() };
    format!(
        "<figure class=\"card\"><figcaption>{}</figcaption><p><strong>{}</strong></p><p class=\"note\">Mean of the AUCs of {} of {} \
         groups, those with both labels, weighted by their samples ({}).</p></figure>\n",
        Escaped(title(&format!("AUC by {}", scores.column), label)),
        four(scores.auc),
        grouped(scores.groups),
        grouped(scores.of_groups),
        si(scores.samples as f64)
    )
}

fn slices(scores: &SliceScores, label: &str) -> String {
    let mut html = format!(
        "<figure class=\"card\"><figcaption>{}</figcaption><p class=\"note\">{} values; the largest first.</p>\
         <div class=\"scroll\"><table><thead><tr><th class=\"left\">value</th><th>samples</th><th>click rate</th><th>AUC</th>\
         <th>logloss</th><th>calibration</th></tr></thead>",
        Escaped(title(&format!("By {}", scores.column), label)),
        grouped(scores.values)
    );
    for Slice { value, samples, auc, logloss, calibration, click_rate } in
        scores.slices.iter().chain(&scores.other)
    {
        let _ = write!(
            html,
            "<tr><td class=\"left\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            Escaped(value),
            grouped(*samples),
            four(*click_rate),
            four(*auc),
            four(*logloss),
            four(*calibration)
        );
    }
    html.push_str("</table></div></figure>\n");
    html
}
