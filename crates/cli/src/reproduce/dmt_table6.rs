//! Table 6 of the DMT paper: towers of the partitioner (TP) against strided ones.
//!
//! For each model: a flat one is trained once and its affinity gives TP's towers; then the model with towers is trained with
//! TP's and with strided towers from the same seeds. Whether one of them is better is judged by the Mann-Whitney U test.

use super::records::Records;
use crate::affinity::{Measured, measure, write_affinity};
use crate::args::RunArgs;
use crate::folder::PREPARED;
use crate::logs::{self, OpenLogs};
use crate::on_samples::Samples;
use crate::partition::{Shape, named, picture, write, write_towers};
use crate::text::{columns, median};
use crate::towers::in_towers;
use crate::train::{one_of_several, stop_on_signals};
use anyhow::{Context, Result, ensure};
use planning::partitioner::{Strategy, partition};
use planning::statistics::{mann_whitney, standard_deviation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spec::affinity::Affinity;
use spec::presets::{ModelKind, Preset};
use spec::run::Config;
use spec::towers::{Assignment, DcnOutput, Module, TowersFile};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

#[derive(clap::Args)]
#[command(after_help = "Without a config or data: 26 features of at most 1000 rows, N = 32, and a synthetic log of 1 M samples.

Examples:
  campanile reproduce dmt-table6 --affinity-of mean-abs --out runs/table6
  campanile reproduce dmt-table6 --data train.tsv --eval eval.tsv --out runs/table6-kaggle
  campanile reproduce dmt-table6 --out runs/table6 --table               only the table of what is there")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Runs with each kind of towers
    #[arg(long, value_name = "N", default_value_t = 9, help_heading = "Towers")]
    runs: u64,
    /// coherent or diverse
    #[arg(long, default_value = "coherent", help_heading = "Towers")]
    strategy: Strategy,
    #[command(flatten, next_help_heading = "Towers")]
    shape: Shape,
    #[command(flatten, next_help_heading = "Towers")]
    measured: Measured,
    /// Folder for flat models, affinities, towers and results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Only print the table of the results in the folder
    #[arg(long, help_heading = "Output")]
    table: bool,
    /// Print one JSON array
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// A row of the table.
struct Row {
    name: &'static str,
    kind: ModelKind,
    towers: usize,
    module: fn(usize) -> Module,
    /// Medians of TP and of strided towers, and p, as printed.
    paper: Option<(f64, f64, f64)>,
}

/// The paper's two, and the DCN's towers under a DLRM that gets one vector of each.
const ROWS: [Row; 3] = [
    Row {
        name: "DMT 16T-DLRM",
        kind: ModelKind::Dlrm,
        towers: 16,
        module: |dim| Module::Dlrm { c: 0, p: 1, d: dim },
        paper: Some((0.7990, 0.7981, 0.0006)),
    },
    Row {
        name: "DMT 8T-DCN",
        kind: ModelKind::Dcn,
        towers: 8,
        module: |dim| Module::Dcn { d: dim, rank: None, out: DcnOutput::Tower },
        paper: Some((0.8006, 0.8003, 0.0023)),
    },
    Row {
        name: "DMT 8T-DLRM",
        kind: ModelKind::Dlrm,
        towers: 8,
        module: |dim| Module::Dlrm { c: 0, p: 1, d: dim },
        paper: None,
    },
];

/// One run.
#[derive(Serialize, Deserialize)]
struct Record {
    model: String,
    towers: Towers,
    seed: u64,
    auc: f64,
    seconds: f64,
    parameters_sha256: String,
    version: String,
}

/// Whose towers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Towers {
    Partitioner,
    Strided,
}

pub fn run(args: Args) -> Result<()> {
    if !args.table {
        measure_all(&args)?;
    }
    let rows = compare(&Records::existing(&args.out).all()?);
    if args.json {
        println!("{}", Value::Array(rows.iter().map(Compared::to_json).collect()));
    } else {
        print!("{}", table(&rows));
    }
    Ok(())
}

fn measure_all(args: &Args) -> Result<()> {
    ensure!(
        args.run.towers.is_none() && args.run.tower_module.is_none() && args.run.model.is_none() && args.run.seed.is_none(),
        "--model, --towers, --tower-module and --seed are those of the table"
    );
    let config = configure(&args.run)?;
    let stop = stop_on_signals()?;
    let what = json!({
        "config": config,
        "strategy": args.strategy.name(),
        "shape": format!("{:?}", args.shape),
        "affinity": format!("{:?}", args.measured),
    });
    let records = Records::<Record>::open(&args.out, &what)?;
    let logs = logs::open(&config.data, Some(&args.out.join(PREPARED)), &stop)?;
    let run = logs.check(&config).with_context(|| args.run.described())?;
    ensure!(run.data.eval_samples() > 0, "runs are compared by AUC; give samples to evaluate on with --eval");
    let known: Vec<(String, Towers, u64)> =
        records.all()?.into_iter().map(|record| (record.model, record.towers, record.seed)).collect();
    for row in &ROWS {
        let mut config = config.clone();
        config.model.kind = Some(row.kind);
        let found = Assignment::Lists(partitioned(args, row, &config, &logs, &stop)?);
        let module = (row.module)(run.model.dim());
        for seed in 1..=args.runs {
            for (towers, assignment) in
                [(Towers::Partitioner, found.clone()), (Towers::Strided, Assignment::Strided(row.towers))]
            {
                if known.contains(&(row.name.into(), towers, seed)) {
                    continue;
                }
                let mut config = in_towers(&config, assignment, module);
                config.train.seed = Some(seed);
                let whose = if towers == Towers::Partitioner { "TP" } else { "strided" };
                let title = format!("{} {whose} {seed}/{}", row.name, args.runs);
                let (_, outcome) = one_of_several(&config, &logs, None, &title, &stop)?;
                let auc = outcome.scores.as_ref().and_then(|scores| scores.evaluation.auc);
                records.append(&Record {
                    model: row.name.into(),
                    towers,
                    seed,
                    auc: auc.context("the evaluation samples have one label only, so there is no AUC")?,
                    seconds: outcome.seconds,
                    parameters_sha256: outcome.parameters_sha256,
                    version: env!("CARGO_PKG_VERSION").into(),
                })?;
            }
        }
    }
    Ok(())
}

/// The description given, with defaults that suit the table.
fn configure(args: &RunArgs) -> Result<Config> {
    let mut config = args.config()?;
    if args.config.is_none() {
        config.model.preset.get_or_insert(Preset::Kaggle);
        config.model.dim.get_or_insert(32);
        config.topology.ranks_per_host.get_or_insert(1);
        if config.data.train.is_empty() {
            config.model.rows_cap.get_or_insert(1000);
            let log = config.data.synthetic.get_or_insert_default();
            log.samples = args.samples.unwrap_or(1 << 20);
        }
    }
    Ok(config)
}

/// TP's towers for the model of a row, by way of a flat model; those of an earlier measurement where they are in the folder.
fn partitioned(args: &Args, row: &Row, config: &Config, logs: &OpenLogs, stop: &AtomicBool) -> Result<Vec<Vec<String>>> {
    let kind = match row.kind {
        ModelKind::Dlrm => "dlrm",
        ModelKind::Dcn => "dcn",
    };
    let file = args.out.join(format!("{kind}-{}-towers.json", row.towers));
    if let Ok(text) = std::fs::read_to_string(&file) {
        let file: TowersFile = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        return Ok(file.towers);
    }
    let affinity = flat_affinity(args, kind, config, logs, stop)?;
    let found = partition(&affinity, &args.shape.request(row.towers, args.strategy))?;
    let towers = named(&found, &affinity);
    write(&file.with_extension("svg"), &picture::of(&affinity, &found, false))?;
    write_towers(&file, &towers)?;
    Ok(towers)
}

fn flat_affinity(args: &Args, kind: &str, config: &Config, logs: &OpenLogs, stop: &AtomicBool) -> Result<Affinity> {
    let file: &Path = &args.out.join(format!("{kind}-affinity.json"));
    if let Ok(text) = std::fs::read(file) {
        return serde_json::from_slice(&text).with_context(|| file.display().to_string());
    }
    // Its tables may be large, and nobody needs them afterwards.
    let scratch = tempfile::tempdir_in(&args.out).with_context(|| format!("{}: no folder in it", args.out.display()))?;
    let flat = scratch.path().join("flat");
    one_of_several(config, logs, Some(&flat), &format!("flat {kind}"), stop)?;
    let affinity = measure(&flat, &Samples::default(), &args.measured)?;
    write_affinity(file, &affinity)?;
    Ok(affinity)
}

/// A row, measured.
struct Compared {
    row: &'static Row,
    /// AUCs of TP's and of strided towers.
    partitioner: Vec<f64>,
    strided: Vec<f64>,
}

fn compare(records: &[Record]) -> Vec<Compared> {
    let aucs = |row: &Row, towers: Towers| -> Vec<f64> {
        records.iter().filter(|r| r.model == row.name && r.towers == towers).map(|r| r.auc).collect()
    };
    let compared = |row| Compared {
        row,
        partitioner: aucs(row, Towers::Partitioner),
        strided: aucs(row, Towers::Strided),
    };
    ROWS.iter().map(compared).filter(|c| !c.partitioner.is_empty() && !c.strided.is_empty()).collect()
}

impl Compared {
    fn to_json(&self) -> Value {
        let test = mann_whitney(&self.partitioner, &self.strided);
        let side = |aucs: &[f64]| json!({ "median": median(&mut aucs.to_vec()), "std": standard_deviation(aucs), "aucs": aucs });
        json!({
            "model": self.row.name,
            "partitioner": side(&self.partitioner),
            "strided": side(&self.strided),
            "u": test.u,
            "p": test.p,
            "paper": self.row.paper.map(|(tp, strided, p)| json!({ "partitioner": tp, "strided": strided, "p": p })),
        })
    }
}

fn table(rows: &[Compared]) -> String {
    let head = ["model", "runs", "TP (std)", "strided (std)", "p", "paper: TP", "strided", "p"];
    let mut cells = vec![head.map(String::from).to_vec()];
    for Compared { row, partitioner, strided } in rows {
        let side = |aucs: &[f64]| format!("{:.4} ({:.4})", median(&mut aucs.to_vec()), standard_deviation(aucs));
        let paper = row.paper.map_or(["–", "–", "–"].map(String::from), |(tp, strided, p)| {
            [format!("{tp:.4}"), format!("{strided:.4}"), format!("{p:.4}")]
        });
        let mut line = vec![
            row.name.to_string(),
            format!("{}+{}", partitioner.len(), strided.len()),
            side(partitioner),
            side(strided),
            format!("{:.5}", mann_whitney(partitioner, strided).p),
        ];
        line.extend(paper);
        cells.push(line);
    }
    format!("Median AUC of models with the partitioner's towers and with strided ones; p of the Mann-Whitney U test\n{}", columns(&cells))
}
