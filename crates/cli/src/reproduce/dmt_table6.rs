//! Table 6 of the DMT paper: towers of the partitioner (TP) against strided ones.
//!
//! A flat DLRM is trained once (its dot products are what teaches embeddings to have cosines), and its affinity on training rows
//! gives towers by both of TP's strategies. For each model one pilot run with each decides for the better ("we simply try both",
//! §3.3), by validation rows: a tenth of the training rows, which neither the flat DLRM nor a pilot trains on. Then the model is
//! trained on all training rows with TP's and with strided towers from the same other seeds; whether one of them is better on the
//! test rows is judged by the Mann-Whitney U test.

use super::records::Records;
use crate::affinity::{Measured, measure};
use crate::args::RunArgs;
use crate::folder::PREPARED;
use crate::logs::{self, OpenLogs};
use crate::partition::{Division, Tables, picture, write, write_affinity, write_towers};
use crate::progress::Console;
use crate::scoring::Opened;
use crate::signals::{Stop, stop_on_signals};
use crate::text::{columns, median};
use crate::towers::{distinct, in_towers};
use crate::train::one_of_several;
use anyhow::{Context, Result, ensure};
use planning::partitioner::Strategy;
use planning::statistics::{mann_whitney, standard_deviation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spec::affinity::Affinity;
use spec::presets::{ModelKind, Preset};
use spec::run::Config;
use spec::towers::{Assignment, DcnOutput, Module, TowersFile};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    after_help = "Without a config or data: 26 features of at most 1000 rows, N = 32, and a synthetic log of 1 M samples.

Examples:
  campanile reproduce dmt-table6 --affinity-of mean-abs --out runs/table6
  campanile reproduce dmt-table6 --data train.tsv --eval eval.tsv --out runs/table6-kaggle
  campanile reproduce dmt-table6 --out runs/table6 --table               only the table of what is there"
)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Runs with each kind of towers
    #[arg(long, value_name = "N", default_value_t = 9, help_heading = "Towers")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// TP's strategies; of several, a pilot run with each decides
    #[arg(long, value_delimiter = ',', default_value = "coherent,diverse", help_heading = "Towers")]
    strategies: Vec<Strategy>,
    #[command(flatten, next_help_heading = "Towers")]
    division: Division,
    #[command(flatten, next_help_heading = "Towers")]
    measured: Measured,
    /// Folder for the affinity, towers and results; a measurement that was stopped goes on there
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
    paper: (f64, f64, f64),
}

/// The paper's two.
const ROWS: [Row; 2] = [
    Row {
        name: "DMT 8T-DCN",
        kind: ModelKind::Dcn,
        towers: 8,
        module: |dim| Module::Dcn { d: dim, rank: None, out: DcnOutput::Tower },
        paper: (0.8006, 0.8003, 0.0023),
    },
    Row {
        name: "DMT 16T-DLRM",
        kind: ModelKind::Dlrm,
        towers: 16,
        module: |dim| Module::Dlrm { c: 0, p: 1, d: dim },
        paper: (0.7990, 0.7981, 0.0006),
    },
];

/// One run.
#[derive(Serialize, Deserialize)]
struct Record {
    model: String,
    towers: Towers,
    strategy: String,
    /// 0 is the pilot's.
    seed: u64,
    auc: f64,
    /// Which rows the AUC is of. Until this was written down, pilots were judged by the test rows too.
    #[serde(default)]
    rows: Rows,
    seconds: f64,
    parameters_sha256: String,
    version: String,
}

/// Rows that an AUC is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rows {
    /// Rows to choose by.
    Validation,
    /// Rows to judge by.
    #[default]
    Test,
}

/// Whose towers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Towers {
    Partitioner,
    Strided,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    if !args.table {
        measure_all(&args, console)?;
    }
    let rows = compare(&Records::existing(&args.out).all()?);
    if args.json {
        println!("{}", Value::Array(rows.iter().map(Compared::to_json).collect()));
    } else {
        print!("{}", table(&rows));
    }
    Ok(())
}

fn measure_all(args: &Args, console: Console) -> Result<()> {
    ensure!(
        args.run.towers.is_none()
            && args.run.tower_module.is_none()
            && args.run.model.is_none()
            && args.run.seed.is_none(),
        "--model, --towers, --tower-module and --seed are those of the table; leave them out"
    );
    let config = configure(&args.run)?;
    ensure!(
        config.model.towers.is_none() && config.model.tower_module.is_none(),
        "{}: it has towers; those of the table are put over a flat model",
        args.run.described()
    );
    distinct(&args.strategies)?;
    ensure!(
        !args.strategies.contains(&Strategy::Strided),
        "--strategies: strided is what the others are compared with"
    );
    let stop = stop_on_signals()?;
    let logs = stop.ended(logs::open(&config.data, Some(&args.out.join(PREPARED)), &stop, console))?;
    let run = logs.check(&config).with_context(|| args.run.described())?;
    ensure!(run.data.eval_samples() > 0, "runs are compared by AUC; give samples to evaluate on with --eval");
    for row in &ROWS {
        args.division.check(&run.model, row.towers, &args.strategies).context(row.name)?;
    }
    let pilot_logs = logs.for_pilots()?;
    let lab = Lab {
        console,
        stop,
        records: Records::open(
            &args.out,
            &json!({
                "config": config,
                "strategies": args.strategies.iter().map(|strategy| strategy.name()).collect::<Vec<_>>(),
                "division": format!("{:?}", args.division),
                "affinity": format!("{:?}", args.measured),
                "chosen_by": logs.pilot_rows(),
            }),
        )?,
        pilot_logs,
        args,
    };
    for row in &ROWS {
        lab.measure_row(row, &config, &logs, run.model.dim())?;
    }
    Ok(())
}

/// What all runs of a measurement share.
struct Lab<'a> {
    console: Console,
    args: &'a Args,
    stop: Stop,
    records: Records<Record>,
    /// The training rows alone, some of them to choose by.
    pilot_logs: OpenLogs,
}

impl Lab<'_> {
    fn measure_row(&self, row: &Row, config: &Config, logs: &OpenLogs, dim: usize) -> Result<()> {
        let mut config = config.clone();
        config.model.kind = Some(row.kind);
        let with = |towers: Assignment| in_towers(&config, towers, (row.module)(dim));
        let mut best: Option<(f64, Strategy, Assignment)> = None;
        for &strategy in &self.args.strategies {
            let towers = Assignment::Lists(self.towers(row, strategy, &config)?);
            let pilot =
                |towers| self.auc(row, Towers::Partitioner, strategy, 0, with(towers), &self.pilot_logs);
            let auc = if self.args.strategies.len() > 1 { pilot(towers.clone())? } else { 0.0 };
            if best.as_ref().is_none_or(|best| auc > best.0) {
                best = Some((auc, strategy, towers));
            }
        }
        let (_, strategy, towers) = best.context("--strategies names none")?;
        for seed in 1..=self.args.runs {
            self.auc(row, Towers::Partitioner, strategy, seed, with(towers.clone()), logs)?;
            let strided = with(Assignment::Strided(row.towers));
            self.auc(row, Towers::Strided, Strategy::Strided, seed, strided, logs)?;
        }
        Ok(())
    }

    /// The AUC of one run, which is trained unless it is known.
    fn auc(
        &self,
        row: &Row,
        towers: Towers,
        strategy: Strategy,
        seed: u64,
        mut config: Config,
        logs: &OpenLogs,
    ) -> Result<f64> {
        let same = |r: &Record| {
            (r.model.as_str(), r.towers, r.strategy.as_str(), r.seed)
                == (row.name, towers, strategy.name(), seed)
        };
        if let Some(known) = self.records.all()?.into_iter().find(same) {
            return Ok(known.auc);
        }
        config.train.seed = Some(seed);
        let which = if seed == 0 { "pilot".into() } else { format!("{seed}/{}", self.args.runs) };
        let title = format!("{} {} {which}", row.name, strategy.name());
        let (_, outcome) = one_of_several(&config, logs, None, &title, &self.stop, self.console)?;
        let auc = outcome.auc().context("the evaluation samples have one label only, so there is no AUC")?;
        self.records.append(&Record {
            model: row.name.into(),
            towers,
            strategy: strategy.name().into(),
            seed,
            auc,
            rows: if seed == 0 { Rows::Validation } else { Rows::Test },
            seconds: outcome.seconds,
            parameters_sha256: outcome.parameters_sha256.unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").into(),
        })?;
        Ok(auc)
    }

    /// TP's towers for the model of a row; those of an earlier measurement where they are in the folder.
    fn towers(&self, row: &Row, strategy: Strategy, config: &Config) -> Result<Vec<Vec<String>>> {
        let file = self.args.out.join(format!("{}-{}.json", row.towers, strategy.name()));
        if let Ok(text) = std::fs::read_to_string(&file) {
            let file: TowersFile = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
            return Ok(file.towers);
        }
        let affinity = self.flat_affinity(config)?;
        let model = self.pilot_logs.check(config)?.model;
        let divided = self.args.division.divide(&affinity, &Tables::of(&model), row.towers, strategy, 0)?;
        write(&file.with_extension("svg"), &picture::of(&divided, false))?;
        write_towers(&file, &divided.towers)?;
        Ok(divided.towers)
    }

    /// The affinity of a flat DLRM, on rows that it was trained on.
    fn flat_affinity(&self, config: &Config) -> Result<Affinity> {
        let out = &self.args.out;
        let file = out.join("affinity.json");
        if let Ok(text) = std::fs::read(&file) {
            return serde_json::from_slice(&text).with_context(|| file.display().to_string());
        }
        let mut config = config.clone();
        config.model.kind = Some(ModelKind::Dlrm);
        // Its tables may be large, and nobody needs them afterwards.
        let scratch =
            tempfile::tempdir_in(out).with_context(|| format!("{}: no folder in it", out.display()))?;
        let flat = scratch.path().join("flat");
        one_of_several(&config, &self.pilot_logs, Some(&flat), "flat DLRM", &self.stop, self.console)?;
        let affinity = measure(
            &Opened::on_training(&flat, &self.pilot_logs, &self.console.control(&self.stop))?,
            &self.args.measured,
            self.console,
        )?;
        write_affinity(&file, &affinity)?;
        Ok(affinity)
    }
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

/// A row, measured.
struct Compared {
    row: &'static Row,
    /// TP's strategy, and the AUC of every pilot by strategy.
    strategy: String,
    pilots: Vec<(String, f64)>,
    /// The rows by which it was chosen.
    chosen_by: Rows,
    /// AUCs of TP's and of strided towers.
    partitioner: Vec<f64>,
    strided: Vec<f64>,
}

fn compare(records: &[Record]) -> Vec<Compared> {
    let of_row = |row: &'static Row| {
        let own = || records.iter().filter(move |record| record.model == row.name);
        let aucs =
            |towers: Towers| own().filter(|r| r.towers == towers && r.seed > 0).map(|r| r.auc).collect();
        let strategy = own().find(|record| record.towers == Towers::Partitioner && record.seed > 0)?;
        Some(Compared {
            row,
            strategy: strategy.strategy.clone(),
            chosen_by: own().find(|record| record.seed == 0).map_or(Rows::Validation, |r| r.rows),
            pilots: own().filter(|record| record.seed == 0).map(|r| (r.strategy.clone(), r.auc)).collect(),
            partitioner: aucs(Towers::Partitioner),
            strided: aucs(Towers::Strided),
        })
    };
    ROWS.iter().filter_map(of_row).filter(|compared| !compared.strided.is_empty()).collect()
}

impl Compared {
    fn to_json(&self) -> Value {
        let (test, paper) = (mann_whitney(&self.partitioner, &self.strided), self.row.paper);
        let side = |aucs: &[f64]| json!({ "median": median(&mut aucs.to_vec()), "std": standard_deviation(aucs), "aucs": aucs });
        json!({
            "model": self.row.name,
            "strategy": self.strategy,
            "pilots": self.pilots,
            "pilots_of": self.chosen_by,
            "partitioner": side(&self.partitioner),
            "strided": side(&self.strided),
            "u": test.u,
            "p": test.p,
            "paper": { "partitioner": paper.0, "strided": paper.1, "p": paper.2 },
        })
    }
}

fn table(rows: &[Compared]) -> String {
    let head =
        ["model", "TP's strategy", "runs", "TP (std)", "strided (std)", "p", "paper: TP", "strided", "p"];
    let mut cells = vec![head.map(String::from).to_vec()];
    for Compared { row, strategy, partitioner, strided, .. } in rows {
        let side =
            |aucs: &[f64]| format!("{:.4} ({:.4})", median(&mut aucs.to_vec()), standard_deviation(aucs));
        let (tp, naive, p) = row.paper;
        cells.push(vec![
            row.name.to_string(),
            strategy.clone(),
            format!("{}+{}", partitioner.len(), strided.len()),
            side(partitioner),
            side(strided),
            format!("{:.5}", mann_whitney(partitioner, strided).p),
            format!("{tp:.4}"),
            format!("{naive:.4}"),
            format!("{p:.4}"),
        ]);
    }
    let chosen = match rows.iter().any(|row| row.chosen_by == Rows::Test) {
        true => "TP's strategy was chosen, and affinity measured, on the test rows: an older result",
        false => {
            "TP's strategy was chosen by validation rows, a tenth of the training rows, and affinity measured on training rows"
        }
    };
    format!(
        "Median AUC of models with the partitioner's towers and with strided ones; p of the Mann-Whitney U test\n{}{chosen}\n",
        columns(&cells)
    )
}
