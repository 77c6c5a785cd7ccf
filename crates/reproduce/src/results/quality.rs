//! What models learn from the real log, and what towers do to it.

use super::{Sources, days, distinct, lines, mean};
use crate::error::Result;
use pages::markdown::table;
use pages::text::grouped;
use planning::statistics::standard_deviation;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A run of `scripts/real-data`.
#[derive(Deserialize)]
struct RealRun {
    time: String,
    commit: String,
    model: String,
    auc: f64,
    logloss: f64,
    samples: u64,
    eval_samples: u64,
}

/// AUC that both models should reach on the real log.
const REAL_TARGET: f64 = 0.756;

/// Both models on the Criteo Kaggle sample with default settings: the last measurement that is recorded.
pub fn real_data(sources: &Sources) -> Result<String> {
    let records: Vec<RealRun> = lines(&sources.reports.join("real-data.jsonl"))?;
    let last = &records[records.len() - 1];
    let mut rows = Vec::new();
    for model in ["dlrm", "dcn"] {
        let runs: Vec<&RealRun> =
            records.iter().filter(|run| run.commit == last.commit && run.model == model).collect();
        let auc: Vec<f64> = runs.iter().map(|run| run.auc).collect();
        let logloss: Vec<f64> = runs.iter().map(|run| run.logloss).collect();
        let (least, most) =
            (auc.iter().copied().fold(f64::MAX, f64::min), auc.iter().copied().fold(0.0, f64::max));
        let missed = mean(&auc) - REAL_TARGET;
        rows.push(vec![
            model.into(),
            runs.len().to_string(),
            format!("{:.4}", mean(&auc)),
            format!("{least:.4} to {most:.4}"),
            format!("{:.4}", mean(&logloss)),
            match missed < 0.0 {
                true => format!("{REAL_TARGET}: missed by {:.4}", -missed),
                false => format!("{REAL_TARGET}: met"),
            },
        ]);
    }
    let head = ["model", "seeds", "AUC, mean", "min to max", "logloss, mean", "target"];
    Ok(format!(
        "{}\nMeasured by `scripts/real-data` on {}, commit {}: {} samples to learn from, {} to test, one epoch. Records: \
         `reports/real-data.jsonl`.\n",
        table(1, &head, &rows),
        days([last.time.as_str()].into_iter()),
        last.commit,
        grouped(last.samples),
        grouped(last.eval_samples),
    ))
}

/// A run of `scripts/quality`.
#[derive(Deserialize)]
struct TowerRun {
    time: String,
    data: String,
    model: String,
    seed: u64,
    config: String,
    auc: f64,
    best_auc: Option<f64>,
    samples: u64,
    eval_samples: u64,
    parameters_sha256: String,
    mflops_per_sample: f64,
    pooled_network_bytes_per_sample: f64,
    commit: String,
}

/// A model, the flat model that it is compared with, and the AUC that the DMT paper prints.
struct Model {
    name: &'static str,
    baseline: &'static str,
    paper: &'static str,
}

const fn model(name: &'static str, baseline: &'static str, paper: &'static str) -> Model {
    Model { name, baseline, paper }
}

/// Models of Tables 3 to 5 of the DMT paper.
const MODELS: [Model; 14] = [
    model("DLRM", "DLRM", ".8047 ± .0004"),
    model("SPTT-DLRM", "DLRM", ".8053 ± .0004"),
    model("DMT 2T-DLRM", "DLRM", ".8046 ± .0004"),
    model("DMT 4T-DLRM", "DLRM", ".8045 ± .0003"),
    model("DMT 8T-DLRM", "DLRM", ".8045 ± .0001"),
    model("DMT 26T-DLRM", "DLRM", ".8047 ± .0004"),
    model("DMT 8T-DLRM CR 4", "DLRM", ".8036 ± .0003"),
    model("DMT 8T-DLRM CR 8", "DLRM", ".8022 ± .0004"),
    model("DMT 8T-DLRM CR 16", "DLRM", ".8000 ± .0003"),
    model("DCN", "DCN", ".8002 ± .0003"),
    model("SPTT-DCN", "DCN", ".8001 ± .0002"),
    model("DMT 2T-DCN", "DCN", ".7998 ± .0002"),
    model("DMT 4T-DCN", "DCN", ".8003 ± .0002"),
    model("DMT 8T-DCN", "DCN", ".8006 ± .0002"),
];

/// Models with and without towers; the last run of each model and seed counts.
pub fn of_towers(sources: &Sources, data: &str) -> Result<String> {
    let records: Vec<TowerRun> = lines(&sources.reports.join("quality.jsonl"))?;
    let mut runs: BTreeMap<&str, BTreeMap<u64, &TowerRun>> = BTreeMap::new();
    for run in records.iter().filter(|run| run.data == data) {
        runs.entry(&run.model).or_default().insert(run.seed, run);
    }
    let rows: Vec<Vec<String>> = MODELS.iter().filter_map(|model| row(model, &runs)).collect();
    let head = [
        "model",
        "seeds",
        "AUC, mean ± std",
        "beside the baseline",
        "compression ratio",
        "MFLOPs/sample",
        "bytes between hosts",
        "paper",
    ];
    let all = || runs.values().flat_map(BTreeMap::values);
    let best = all().find_map(|run| run.best_auc);
    let best = best.map_or(String::new(), |auc| format!("; the best possible AUC is {auc:.4}"));
    let samples = all().map(|run| run.samples).max().unwrap_or(0);
    let tested = all().map(|run| run.eval_samples).max().unwrap_or(0);
    let flags = runs.get("DLRM").and_then(|runs| runs.values().next()).map_or("", |run| run.config.as_str());
    Ok(format!(
        "{}\nMeasured by `scripts/quality --data {data}` on {}, commit {}: {} samples to learn from, {} to test{best}. Flags \
         `{flags}` and default optimizers. Records: `reports/quality.jsonl`.\n",
        table(1, &head, &rows),
        days(all().map(|run| run.time.as_str())),
        distinct(all().map(|run| run.commit.as_str())),
        grouped(samples),
        grouped(tested),
    ))
}

fn row(model: &Model, runs: &BTreeMap<&str, BTreeMap<u64, &TowerRun>>) -> Option<Vec<String>> {
    let own = runs.get(model.name)?;
    let flat = runs.get(model.baseline);
    let aucs = |runs: &BTreeMap<u64, &TowerRun>| runs.values().map(|run| run.auc).collect::<Vec<f64>>();
    let (auc, flat_auc) = (aucs(own), flat.map(aucs).unwrap_or_default());
    let some = own.values().next()?;
    let spread = if auc.len() > 1 { format!(" ± {:.4}", standard_deviation(&auc)) } else { String::new() };
    let beside = match flat {
        _ if model.name == model.baseline => "baseline".into(),
        Some(flat) if model.name.starts_with("SPTT") => {
            if equal(flat, own) {
                "equal".into()
            } else {
                "**differs**".to_owned()
            }
        }
        Some(_) if flat_auc.len() > 1 => {
            format!("{:+.1} σ", (mean(&auc) - mean(&flat_auc)) / standard_deviation(&flat_auc))
        }
        _ => String::new(),
    };
    let bytes = some.pooled_network_bytes_per_sample;
    let ratio = flat.and_then(|flat| Some(flat.values().next()?.pooled_network_bytes_per_sample / bytes));
    Some(vec![
        model.name.into(),
        auc.len().to_string(),
        format!("{:.4}{spread}", mean(&auc)),
        beside,
        ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        format!("{:.2}", some.mflops_per_sample),
        grouped(bytes.round() as u64),
        model.paper.into(),
    ])
}

/// Whether all seeds that both have agree to the last bit.
fn equal(one: &BTreeMap<u64, &TowerRun>, other: &BTreeMap<u64, &TowerRun>) -> bool {
    let mut both = one.iter().filter_map(|(seed, run)| Some((run, other.get(seed)?))).peekable();
    both.peek().is_some()
        && both.all(|(a, b)| a.parameters_sha256 == b.parameters_sha256 && a.auc.to_bits() == b.auc.to_bits())
}

/// A run with towers that follow the planted groups.
#[derive(Deserialize)]
struct PlantedRun {
    model: String,
    seed: u64,
    auc: f64,
    commit: String,
}

/// Runs on the synthetic log with towers that follow its planted groups.
pub fn planted(sources: &Sources) -> Result<String> {
    let runs: Vec<PlantedRun> = lines(&sources.reports.join("quality-planted.jsonl"))?;
    let row = |run: &PlantedRun| vec![run.model.clone(), run.seed.to_string(), format!("{:.4}", run.auc)];
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    Ok(format!(
        "{}\nMeasured by `campanile train` with the flags in the records, commit {}. Records: \
         `reports/quality-planted.jsonl`.\n",
        table(1, &["model", "seed", "AUC"], &rows),
        distinct(runs.iter().map(|run| run.commit.as_str())),
    ))
}
