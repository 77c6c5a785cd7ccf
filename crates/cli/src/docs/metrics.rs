//! docs/reference/metrics.md: every metric of an evaluation, from the table in `training::metrics`.

use super::GENERATED;
use anyhow::{Context, Result};
use pages::markdown::table;
use std::path::Path;
use training::metrics::{Better, METRICS};

/// Source of the definitions, whose comments the page repeats.
const SOURCE: &str = "crates/training/src/metrics.rs";

/// Text of the page.
pub fn page(root: &Path) -> Result<String> {
    let source = std::fs::read_to_string(root.join(SOURCE)).with_context(|| SOURCE.to_owned())?;
    let rows = METRICS.iter().map(|metric| {
        let better = match metric.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "neither: a value in the middle is right",
        };
        let comment = comment_on(&source, metric.field).unwrap_or_else(|| metric.note.into());
        vec![format!("`{}`", metric.field), metric.label.into(), better.into(), comment]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Ok(format!(
        "# Metrics\n\n{GENERATED}\n\
         Evaluations compute these metrics: `campanile train` at the end of a run and every `--eval-every` steps, `campanile eval` \
         on any data. A field stands in JSON results, in `metrics.jsonl` of a run's folder, and as `eval/FIELD` in TensorBoard. Given \
         probabilities `p` and labels `y`:\n\n```text\n{}\n```\n\n{}",
        formulas(&source).context("no formulas at the head of the module")?,
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

/// Comment on the field of an evaluation.
fn comment_on(source: &str, field: &str) -> Option<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("pub {field}:")))?;
    let comments = lines[..at].iter().rev().take_while(|line| line.starts_with("///"));
    let mut words: Vec<&str> = comments.map(|line| line.trim_start_matches("///").trim()).collect();
    words.reverse();
    Some(words.join(" "))
}
