//! docs/reference/metrics.md: every metric of an evaluation, from the table in `training::metrics`.

use super::{GENERATED, source};
use anyhow::{Context, Result};
use pages::markdown::table;
use std::path::Path;
use training::metrics::{Better, METRICS};

/// Source of the definitions, whose comments the page repeats.
const SOURCE: &str = "crates/training/src/metrics.rs";

/// Text of the page.
pub fn page(root: &Path) -> Result<String> {
    let text = std::fs::read_to_string(root.join(SOURCE)).with_context(|| SOURCE.to_owned())?;
    let comments = source::fields(&text, "Evaluation").unwrap_or_default();
    let rows = METRICS.iter().map(|metric| {
        let better = match metric.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "neither: a value in the middle is right",
        };
        let comment = comments.iter().find(|(field, _)| field == metric.field);
        let comment =
            comment.map_or_else(|| metric.note.to_owned(), |(_, comment)| comment.replace("`None`", "null"));
        vec![format!("`{}`", metric.field), metric.label.into(), better.into(), comment]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Ok(format!(
        "# Metrics\n\n{GENERATED}\n\
         Evaluations compute these metrics: `campanile train` at the end of a run and every `--eval-every` steps, `campanile eval` \
         on any data. A field stands in JSON results, in `metrics.jsonl` of a run's folder, and as `eval/FIELD` in TensorBoard. Given \
         probabilities `p` and labels `y`:\n\n```text\n{}\n```\n\n{}",
        formulas(&text).with_context(|| format!("no formulas at the head of {SOURCE}"))?,
        table(4, &["field", "name", "better", "meaning"], &rows)
    ))
}

/// Formulas at the head of the module.
fn formulas(source: &str) -> Option<String> {
    let (_, after) = source.split_once("//! ```text\n")?;
    let (block, _) = after.split_once("//! ```")?;
    let lines = block.lines().map(|line| line.trim_start_matches("//!").trim_start_matches(' '));
    Some(lines.collect::<Vec<_>>().join("\n"))
}
