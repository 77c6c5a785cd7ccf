//! Tables about models that overfit: early stopping, and regularisation chosen by a sweep.

use super::{Sources, lines, mean};
use crate::error::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A run of `scripts/early-stopping`.
#[derive(Deserialize)]
struct StoppedRun {
    time: String,
    commit: String,
    model: String,
    best_epoch: f64,
    steps: u64,
    test_auc: f64,
    test_auc_after_epochs: Vec<f64>,
}

/// Largest loss of AUC, beside the best epoch, that the target allows.
const TARGET: f64 = 0.001;

/// AUC on test rows of what early stopping kept, beside that after each epoch.
pub(super) fn early_stopping(sources: &Sources) -> Result<String> {
    let records: Vec<StoppedRun> = lines(&sources.reports.join("early-stopping/records.jsonl"))?;
    let mut text = String::from(
        "| model | seeds | kept by `--patience 1` | after epoch 1 | 2 | 3 | kept epoch | largest loss beside the best epoch | target |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for model in ["dlrm", "dcn"] {
        let runs: Vec<&StoppedRun> = records.iter().filter(|run| run.model == model).collect();
        if runs.is_empty() {
            continue;
        }
        let kept: Vec<f64> = runs.iter().map(|run| run.test_auc).collect();
        let after = |epoch: usize| {
            let aucs: Vec<f64> =
                runs.iter().filter_map(|run| run.test_auc_after_epochs.get(epoch).copied()).collect();
            format!("{:.4}", mean(&aucs))
        };
        let loss = |run: &&StoppedRun| {
            run.test_auc_after_epochs.iter().fold(0.0, |most: f64, auc| most.max(auc - run.test_auc))
        };
        let largest = runs.iter().map(loss).fold(0.0, f64::max);
        let epochs: Vec<f64> = runs.iter().map(|run| run.best_epoch).collect();
        let verdict = if largest <= TARGET { "met" } else { "missed" };
        let _ = writeln!(
            text,
            "| {model} | {} | {:.4} | {} | {} | {} | {} | {largest:.4} | {TARGET}: {verdict} |",
            runs.len(),
            mean(&kept),
            after(0),
            after(1),
            after(2),
            mean(&epochs),
        );
    }
    let (first, last) = (&records[0], &records[records.len() - 1]);
    let _ = writeln!(
        text,
        "\nMeasured by `scripts/early-stopping` on {}, commits {} and {}: means over seeds, AUC on test rows that no choice has seen; \
         the runs stopped after {} steps. Records: `reports/early-stopping/records.jsonl`.",
        &last.time[..10],
        first.commit,
        last.commit,
        last.steps,
    );
    Ok(text)
}

/// Result of `campanile sweep --json`.
#[derive(Deserialize)]
struct Sweep {
    trials: Vec<Trial>,
    #[serde(rename = "final")]
    last: Option<Value>,
}

/// A trial of a sweep.
#[derive(Deserialize)]
struct Trial {
    settings: BTreeMap<String, Value>,
    steps: u64,
    best_step: Option<u64>,
    value: Option<f64>,
}

/// Settings that a sweep tried, the best first, judged by validation rows; the best one on test rows.
pub(super) fn sweep(sources: &Sources) -> Result<String> {
    let path = sources.reports.join("early-stopping/sweep.json");
    let text = std::fs::read_to_string(&path).map_err(Error::file(&path, "read"))?;
    let of = path.display().to_string();
    let sweep: Sweep = serde_json::from_str(&text).map_err(|error| Error::json(of)(error))?;
    let names: Vec<&String> = sweep.trials.iter().flat_map(|trial| trial.settings.keys()).collect();
    let mut columns: Vec<&String> = Vec::new();
    names.into_iter().for_each(|name| {
        if !columns.contains(&name) {
            columns.push(name);
        }
    });
    let heads: String = columns.iter().map(|name| format!(" `{name}` |")).collect();
    let mut table = format!(
        "|{heads} steps | best after step | AUC on validation rows |\n|{}\n",
        "---:|".repeat(columns.len() + 3)
    );
    for trial in &sweep.trials {
        let settings: String = columns
            .iter()
            .map(|name| format!(" {} |", trial.settings.get(*name).map_or("–".into(), Value::to_string)))
            .collect();
        let best = trial.best_step.map_or("–".into(), |step| step.to_string());
        let value = trial.value.map_or("failed".into(), |value| format!("{value:.4}"));
        let _ = writeln!(table, "|{settings} {} | {best} | {value} |", trial.steps);
    }
    let judged = sweep.last.as_ref().and_then(|last| last["value"].as_f64());
    if let Some(auc) = judged {
        let _ = writeln!(
            table,
            "\nThe best setting, trained on all rows but the test rows, has AUC {auc:.4} on these, which no choice has seen."
        );
    }
    let _ = writeln!(
        table,
        "\nMeasured by `scripts/early-stopping`. Record: `reports/early-stopping/sweep.json`."
    );
    Ok(table)
}
