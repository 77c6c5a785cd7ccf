//! Steps and runs on a GPU: beside PyTorch, phase by phase, and beside the CPU.

use super::{Sources, days, lines};
use crate::error::Result;
use pages::markdown::table;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A measurement of `scripts/bench-gpu`.
#[derive(Deserialize)]
struct Step {
    run: String,
    program: String,
    /// Which model, ids and optimizer.
    #[serde(default)]
    case: String,
    batch: u64,
    precision: String,
    ms: f64,
    measured: Measured,
}

#[derive(Deserialize)]
struct Measured {
    device_name: Option<String>,
    torch: Option<String>,
    #[serde(default)]
    phases: Vec<Phase>,
}

#[derive(Deserialize)]
struct Phase {
    name: String,
    ms: f64,
}

/// A run on the real log.
#[derive(Deserialize)]
struct Scored {
    name: String,
    args: String,
    auc: f64,
    logloss: f64,
    device: String,
    precision: String,
}

const STEPS: &str = "gpu-step/records.jsonl";

/// The recorded measurements of the last session.
fn last(sources: &Sources) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = lines(&sources.reports.join(STEPS))?;
    let run = steps.iter().map(|step| step.run.clone()).max();
    steps.retain(|step| Some(&step.run) == run.as_ref());
    Ok(steps)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Cases of `scripts/bench-gpu` in words, in the order of the table.
const CASES: [(&str, &str); 7] = [
    ("dlrm", "DLRM, uniform ids"),
    ("dlrm-zipf", "DLRM, zipf 1.05"),
    ("dlrm-adagrad", "DLRM, row-wise Adagrad"),
    ("dlrm-own-rows", "DLRM, the preset's rows"),
    ("dcn", "DCN, uniform ids"),
    ("dmt-dlrm", "DMT-DLRM, 4 towers, d = 64"),
    ("dmt-dcn", "DMT-DCN, 4 towers, d = 128"),
];

/// Step times beside PyTorch's, in turns.
pub fn steps(sources: &Sources) -> Result<String> {
    let steps = last(sources)?;
    let of = |case: &str, batch: u64, precision: &str, program: &str| {
        let mine = |step: &&Step| {
            step.case == case && step.batch == batch && step.precision == precision && step.program == program
        };
        median(steps.iter().filter(mine).map(|step| step.ms).collect())
    };
    let number = |value: Option<f64>, digits: usize| value.map_or(String::new(), |v| format!("{v:.digits$}"));
    let mut rows = Vec::new();
    let mut batches: Vec<u64> = steps.iter().map(|step| step.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    for (case, words) in CASES {
        for precision in ["bf16", "tf32", "f32"] {
            for &batch in &batches {
                let Some(ours) = of(case, batch, precision, "campanile") else { continue };
                let peer = |program| of(case, batch, precision, program);
                let (expert, plain) = (peer("torch-expert"), peer("torch-plain"));
                rows.push(vec![
                    words.into(),
                    precision.into(),
                    batch.to_string(),
                    number(Some(ours), 2),
                    number(Some(batch as f64 / ours / 1e3), 2),
                    number(expert, 2),
                    number(expert.map(|peer| peer / ours), 2),
                    number(plain, 2),
                    number(plain.map(|peer| peer / ours), 2),
                ]);
            }
        }
    }
    let head = [
        "model",
        "precision",
        "batch",
        "ms a step",
        "M samples/s",
        "PyTorch, expert: ms",
        "times as fast",
        "PyTorch, plain: ms",
        "times as fast",
    ];
    let device = steps.iter().find_map(|step| step.measured.device_name.clone()).unwrap_or_default();
    let torch = steps.iter().find_map(|step| step.measured.torch.clone()).unwrap_or_default();
    Ok(format!(
        "{}\nMedians of programs that took turns on one {device}, PyTorch {torch}, {}. Measured by `scripts/bench-gpu`; records: `reports/{STEPS}`.\n",
        table(2, &head, &rows),
        days(steps.iter().map(|step| step.run.as_str())),
    ))
}

/// Where the time of a step goes.
pub fn phases(sources: &Sources) -> Result<String> {
    let steps = last(sources)?;
    let mut times: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    let ours = steps
        .iter()
        .filter(|step| step.program == "campanile" && step.precision == "bf16" && step.case == "dlrm");
    for step in ours.clone() {
        for phase in &step.measured.phases {
            times.entry(&phase.name).or_default().entry(step.batch).or_default().push(phase.ms);
        }
    }
    let mut batches: Vec<u64> = ours.map(|step| step.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let mut rows: Vec<(String, Vec<f64>)> = times
        .into_iter()
        .map(|(name, by_batch)| {
            let of = |batch| by_batch.get(batch).cloned().and_then(median).unwrap_or(0.0);
            (name.to_owned(), batches.iter().map(of).collect::<Vec<f64>>())
        })
        .filter(|(_, times)| times.iter().any(|&ms| ms >= 0.005))
        .collect();
    rows.sort_by(|a, b| b.1.last().unwrap_or(&0.0).total_cmp(a.1.last().unwrap_or(&0.0)));
    let cells = rows.into_iter().map(|(name, times)| {
        std::iter::once(name).chain(times.into_iter().map(|ms| format!("{ms:.2}"))).collect()
    });
    let head =
        std::iter::once("phase".to_owned()).chain(batches.iter().map(|batch| format!("ms, batch {batch}")));
    let head: Vec<String> = head.collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    Ok(format!(
        "{}\nTimes between events on the GPU, DLRM in bf16. What is done for the next batch (reading it, which is time of the host, and indexing and sorting its ids) runs beside the others. Records: `reports/{STEPS}`.\n",
        table(1, &head, &cells.collect::<Vec<_>>()),
    ))
}

/// AUC of the same runs on the CPU and on a GPU.
pub fn quality(sources: &Sources) -> Result<String> {
    const FILE: &str = "gpu-kaggle/records.jsonl";
    let runs: Vec<Scored> = lines(&sources.reports.join(FILE))?;
    let group = |name: &str| name.split('-').next().unwrap_or(name).to_owned();
    let cells = runs.iter().map(|run| {
        let cpu = runs.iter().find(|other| other.device == "cpu" && group(&other.name) == group(&run.name));
        let change = cpu.map_or(String::new(), |cpu| format!("{:+.5}", run.auc - cpu.auc));
        let rule = if run.args.contains("sgd") { "SGD, 2 epochs" } else { "Adagrad, 1 epoch" };
        let seed = run.args.split("--seed ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("");
        vec![
            rule.into(),
            seed.into(),
            run.device.clone(),
            run.precision.clone(),
            format!("{:.5}", run.auc),
            change,
            format!("{:.5}", run.logloss),
        ]
    });
    let head = ["optimizer", "seed", "device", "precision", "AUC", "beside the CPU", "logloss"];
    Ok(format!(
        "{}\nKaggle's log, 117 k rows, the last 15 % for evaluation; each record has its flags. Records: `reports/{FILE}`.\n",
        table(4, &head, &cells.collect::<Vec<_>>()),
    ))
}

const HARDWARE: &str = "gpu-hardware/records.jsonl";

/// A measurement of `scripts/bench-gpu-hardware`.
#[derive(Deserialize)]
struct Hardware {
    part: String,
    what: serde_json::Value,
    measured: serde_json::Value,
}

/// Numbers of one part of the measured hardware, as `columns` gives them of each record; records without them are left out.
fn hardware(
    sources: &Sources,
    part: &str,
    columns: impl Fn(&Hardware) -> Option<Vec<String>>,
) -> Result<Vec<Vec<String>>> {
    let lines: Vec<Hardware> = lines(&sources.reports.join(HARDWARE))?;
    Ok(lines.iter().filter(|line| line.part == part).filter_map(columns).collect())
}

/// Lookups and updates beside what the memory can do.
pub fn embeddings(sources: &Sources) -> Result<String> {
    let rows = hardware(sources, "embedding", |line| {
        let number = |name: &str| line.measured.get(name)?.as_f64();
        let rate = |name: &str| Some(format!("{:.0}", number(name)?));
        let share = |name: &str| Some(format!("{:.0} %", 100.0 * number(name)?));
        let times = |name: &str| Some(format!("{:.1}", number(name)?));
        let ids = if number("zipf")? == 0.0 { "uniform".into() } else { format!("zipf {}", number("zipf")?) };
        Some(vec![
            rate("tables")?,
            rate("dim")?,
            rate("hotness")?,
            ids,
            line.measured.get("optimizer")?.as_str()?.into(),
            rate("lookup_gbs")?,
            share("lookup_of_copy")?,
            rate("update_least_gbs")?,
            share("update_least_of_read_modify_write")?,
            times("lookup_fused_times_as_fast")?,
            times("update_fused_times_as_fast")?,
        ])
    })?;
    let head = [
        "tables",
        "dim",
        "ids of a bag",
        "ids",
        "rule",
        "lookup, GB/s",
        "of a copy",
        "update, GB/s",
        "of bare rows",
        "lookup: one launch, times as fast",
        "update: one launch, times as fast",
    ];
    Ok(format!(
        "{}\nCold caches. A copy and a bare read and write of the same rows are measured in the same run. Measured by `scripts/bench-gpu-hardware`; records: `reports/{HARDWARE}`.\n",
        table(5, &head, &rows),
    ))
}

/// Steps that were predicted by rates of the card, beside the same steps measured on it.
pub fn predictions(sources: &Sources) -> Result<String> {
    let lines: Vec<Hardware> = lines(&sources.reports.join(HARDWARE))?;
    let of_part = lines.iter().filter(|line| line.part == "predict");
    let mut rows = Vec::new();
    // A prediction stands before the measurement of its step.
    for pair in of_part.collect::<Vec<_>>().windows(2) {
        let (what, predicted) = (&pair[0].what, &pair[0].measured["iteration_ms"]);
        let measured = &pair[1].measured["step_ms"];
        let (Some(model), Some(predicted), Some(measured)) =
            (what["unseen"].as_str(), predicted.as_f64(), measured.as_f64())
        else {
            continue;
        };
        rows.push(vec![
            model.to_owned(),
            what["precision"].as_str().unwrap_or_default().to_owned(),
            what["batch"].to_string(),
            format!("{predicted:.2}"),
            format!("{measured:.2}"),
            format!("{:+.0} %", 100.0 * (predicted / measured - 1.0)),
        ]);
    }
    let head = ["model", "precision", "batch", "predicted, ms", "measured, ms", "off"];
    Ok(format!(
        "{}\nRates by `campanile calibrate --device cuda`, from other models. Records: `reports/{HARDWARE}`.\n",
        table(2, &head, &rows),
    ))
}
