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

/// Step times beside plain PyTorch's, in turns.
pub fn steps(sources: &Sources) -> Result<String> {
    let steps = last(sources)?;
    let of = |batch: u64, precision: &str, program: &str| {
        let mine =
            |step: &&Step| step.batch == batch && step.precision == precision && step.program == program;
        median(steps.iter().filter(mine).map(|step| step.ms).collect())
    };
    let mut rows = Vec::new();
    let mut batches: Vec<u64> = steps.iter().map(|step| step.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    for batch in batches {
        for precision in ["bf16", "tf32", "f32"] {
            let (ours, peer) = (of(batch, precision, "campanile"), of(batch, precision, "torch-plain"));
            let number =
                |value: Option<f64>, digits: usize| value.map_or(String::new(), |v| format!("{v:.digits$}"));
            let ratio = ours.zip(peer).map(|(ours, peer)| peer / ours);
            rows.push(vec![
                batch.to_string(),
                precision.into(),
                number(ours, 2),
                number(ours.map(|ms| batch as f64 / ms / 1e3), 2),
                number(peer, 2),
                number(ratio, 2),
            ]);
        }
    }
    let head = ["batch", "precision", "ms a step", "M samples/s", "PyTorch, plain: ms", "times as fast"];
    let device = steps.iter().find_map(|step| step.measured.device_name.clone()).unwrap_or_default();
    let torch = steps.iter().find_map(|step| step.measured.torch.clone()).unwrap_or_default();
    Ok(format!(
        "{}\nMedians of programs that took turns on one {device}, PyTorch {torch} (EmbeddingBag with sparse gradients, the dense part compiled, bf16 autocast), {}. \
         Measured by `scripts/bench-gpu`; records: `reports/{STEPS}`.\n",
        table(2, &head, &rows),
        days(steps.iter().map(|step| step.run.as_str())),
    ))
}

/// Where the time of a step goes.
pub fn phases(sources: &Sources) -> Result<String> {
    let steps = last(sources)?;
    let mut times: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    let ours = steps.iter().filter(|step| step.program == "campanile" && step.precision == "bf16");
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
        "{}\nTimes between events on the GPU, bf16; reading a batch (host time, and its copy) runs beside the others. Records: `reports/{STEPS}`.\n",
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
