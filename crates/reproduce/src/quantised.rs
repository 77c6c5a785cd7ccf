//! Tables 2 to 4 of Yang et al., 2020: the accuracy of DLRM where vectors and gradients travel in a few bits.
//!
//! One rank trains the paper's model: as ranks would, it encodes and decodes every vector that would travel and its gradient, and it
//! emulates the all-reduce of 32, 64 or 128 nodes. Every training is compared with the one in f32 from the same seed; results are
//! the mean over seeds of the change of test accuracy in percent (the paper's Equation 2), with its standard error.

pub(crate) mod report;
mod tables;

pub use report::{recorded, report_of};
pub use tables::{ACCEPTED, NODES, Row, Table};

use crate::error::{During, Error, Result};
use crate::program::Program;
use crate::{Report, log_name};
use campanile::logs::{self, OpenLogs};
use campanile::records::Records;
use campanile::{Config, Control, Training, chain};
use serde::{Deserialize, Serialize};
use serde_json::json;
use spec::emulation::{EmulatedLayers, EmulationConfig};
use spec::optimizer::{Decay, LearningRate, UpdateRule};
use spec::presets::Preset;
use spec::run::{AllReduce, DataFormat, Optimizer, Run};
use spec::synthetic::Synthetic;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Trainings to compare, and the folder of results.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  All rows on the synthetic log, one training on each core
    campanile reproduce quantised-allreduce
  One seed of a few rows
    campanile reproduce quantised-allreduce --rows 'u4 ring' --nodes 32 --seeds 1
  A log of Criteo's format, of which the last rows are tested on
    campanile reproduce quantised-alltoall --data train.tsv --out runs/quantised-criteo
  Only the table of what was trained
    campanile reproduce quantised-allreduce --table

A measurement that was stopped or killed goes on with the same command: finished trainings are taken from DIR/records.jsonl. All
three tables may share a folder, and then share the trainings in f32.")]
pub struct Args {
    /// Number of seeds of the initial weights, from 0
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Trainings")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Numbers of nodes of the all-reduce; Table 2 has none
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "32,64,128",
        help_heading = "Trainings"
    )]
    nodes: Vec<usize>,
    /// Layers whose gradients are quantised: divisible (those whose number of outputs is a multiple of the number of nodes, as in
    /// the paper), all, or both one after the other
    #[arg(
        long,
        value_name = "LAYERS",
        value_delimiter = ',',
        default_value = "divisible,all",
        help_heading = "Trainings"
    )]
    layers: Vec<Layers>,
    /// Train only the rows whose name contains this text; may be given several times [default: all rows]
    #[arg(long, value_name = "TEXT", help_heading = "Trainings")]
    rows: Vec<String>,
    /// Number of training rows of the synthetic log
    #[arg(long, value_name = "N", default_value_t = 614_400, help_heading = "Data")]
    train_rows: u64,
    /// Number of test rows of the synthetic log
    #[arg(long, value_name = "N", default_value_t = 1_000_000, help_heading = "Data")]
    test_rows: u64,
    /// Largest number of rows of a table
    #[arg(long, value_name = "N", default_value_t = 10_000, help_heading = "Data")]
    rows_cap: usize,
    /// File in Criteo's format to train on, of which the last 15 % are tested on [default: a synthetic log]
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    data: Option<PathBuf>,
    /// Number of passes over the training rows
    #[arg(long, value_name = "E", default_value_t = 1, help_heading = "Data")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Learning rate of SGD, held for the first half of a training and then lowered to zero, so that the last steps' noise does not
    /// hide small changes
    #[arg(long, value_name = "RATE", default_value_t = 1.0, help_heading = "Data")]
    rate: f32,
    /// Keep the learning rate to the end, as the paper does
    #[arg(long, help_heading = "Data")]
    constant_rate: bool,
    /// Number of trainings at a time, of one thread each [default: the cores of the machine]
    #[arg(long, value_name = "N", help_heading = "Execution")]
    jobs: Option<usize>,
    /// Start no training that would not end within this many seconds, judged by the longest so far [default: no limit]
    #[arg(long, value_name = "SECONDS", help_heading = "Execution")]
    within: Option<u64>,
    /// Folder for the results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR", default_value = "reports/quantised/synthetic", help_heading = "Output")]
    out: PathBuf,
    /// Train nothing; print the table of the results in the folder
    #[arg(long, help_heading = "Output")]
    table: bool,
    /// Print one JSON array
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Layers whose gradients are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Layers {
    /// Layers whose number of outputs is a multiple of the number of nodes.
    Divisible,
    /// All layers.
    All,
}

impl From<Layers> for EmulatedLayers {
    fn from(layers: Layers) -> Self {
        match layers {
            Layers::Divisible => EmulatedLayers::Divisible,
            Layers::All => EmulatedLayers::All,
        }
    }
}

/// Settings that all trainings of a folder share.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// File that is trained on; `synthetic` for the synthetic log.
    pub data: String,
    /// Number of steps of a training.
    pub steps: u64,
    /// Number of training rows.
    pub train_rows: u64,
    /// Number of test rows.
    pub test_rows: u64,
    /// Largest number of rows of a table.
    pub rows_cap: usize,
    /// Global batch.
    pub batch: usize,
    /// Learning rate of SGD.
    pub rate: f32,
    /// Whether the learning rate is kept to the end, instead of lowered to zero over the second half of a training.
    pub constant_rate: bool,
}

/// Result of one training.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedRow {
    /// Table of the row; `None` for the training in f32.
    pub table: Option<Table>,
    /// Name of the row; `f32` for the training in f32.
    pub row: String,
    /// Number of nodes of the all-reduce; `None` where it is not quantised.
    pub nodes: Option<usize>,
    /// Layers whose gradients are quantised; `None` where they are not.
    pub layers: Option<Layers>,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Test accuracy; `None` where the training diverged.
    pub accuracy: Option<f64>,
    /// Test AUC; `None` where the training diverged.
    pub auc: Option<f64>,
    /// Test logloss; `None` where the training diverged.
    pub logloss: Option<f64>,
    /// Reason why there are no metrics: what happened when the training diverged.
    pub diverged: Option<String>,
    /// Duration of the training, in seconds.
    pub seconds: f64,
    /// Digest of all parameters.
    pub parameters_sha256: String,
    /// Version of the program.
    pub version: String,
}

/// A training to be done.
#[derive(Clone, Debug)]
struct Case {
    table: Option<Table>,
    row: Option<&'static Row>,
    nodes: Option<usize>,
    layers: Option<Layers>,
    seed: u64,
}

impl Case {
    fn name(&self) -> &'static str {
        self.row.map_or("f32", |row| row.name)
    }

    /// What is shown while the case is trained.
    fn title(&self) -> String {
        let nodes = self.nodes.map_or(String::new(), |nodes| format!(", {nodes} nodes"));
        let layers = if self.layers == Some(Layers::All) { ", all layers" } else { "" };
        format!("{}{nodes}{layers}, seed {}", self.name(), self.seed)
    }

    fn is(&self, record: &TrainedRow) -> bool {
        (self.table, self.name(), self.nodes, self.layers, self.seed)
            == (record.table, record.row.as_str(), record.nodes, record.layers, record.seed)
    }
}

/// Cases of a table, all of a seed before those of the next, the longest of a seed first.
fn cases(table: Table, args: &Args) -> Vec<Case> {
    let wanted = |row: &&Row| args.rows.is_empty() || args.rows.iter().any(|text| row.name.contains(text));
    let rows: Vec<&'static Row> = table.rows().iter().filter(wanted).collect();
    let mut nodes = args.nodes.clone();
    nodes.sort_unstable_by(|a, b| b.cmp(a));
    let mut cases = Vec::new();
    for seed in 0..args.seeds {
        cases.push(Case { table: None, row: None, nodes: None, layers: None, seed });
        if table == Table::Alltoall {
            let of_row = |row: &&'static Row| Case {
                table: Some(table),
                row: Some(row),
                nodes: None,
                layers: None,
                seed,
            };
            cases.extend(rows.iter().map(of_row));
            continue;
        }
        for &nodes in &nodes {
            for &layers in &args.layers {
                let of_row = |row: &&'static Row| Case {
                    table: Some(table),
                    row: Some(row),
                    nodes: Some(nodes),
                    layers: Some(layers),
                    seed,
                };
                cases.extend(rows.iter().map(of_row));
            }
        }
    }
    cases
}

/// Trains what the folder lacks of a table, and compares all of it with the trainings in f32.
pub fn report(table: Table, args: &Args, program: &dyn Program) -> Result<Report> {
    if !args.table {
        measure(table, args, program)?;
    }
    recorded(&args.out, table)
}

fn measure(table: Table, args: &Args, program: &dyn Program) -> Result<()> {
    let plain = configure(args, None, 0)?;
    let logs = logs::open(&plain.data, None, &Control::default()).map_err(campanile::Error::from);
    let logs = logs.map_err(|error| Error::Program(error.into()))?;
    let run = logs.check(&plain)?;
    let all = cases(table, args);
    for case in &all {
        logs.check(&configure(args, Some(case), run.steps)?).during(|| case.title())?;
    }
    let records = Records::<TrainedRow>::open(&args.out, &json!(setting(args, &run)))?;
    if let Some(taken) = records.taken()? {
        program.note(&taken.to_string());
    }
    let known = records.all()?;
    let left: Vec<&Case> = all.iter().filter(|case| !known.iter().any(|record| case.is(record))).collect();
    let progress = program.progress("training", all.len() as u64);
    let mut done = (all.len() - left.len()) as u64;
    progress.at(done, "");
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let (next, longest) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let limit = args.within.map(Duration::from_secs);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let (results, arrived) = mpsc::channel();
        for _ in 0..jobs.clamp(1, left.len().max(1)) {
            let (results, left, next, longest) = (results.clone(), &left, &next, &longest);
            let (logs, run) = (&logs, &run);
            scope.spawn(move || {
                while let Some(case) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let usual = Duration::from_millis(longest.load(Ordering::Relaxed) as u64);
                    if limit.is_some_and(|limit| began.elapsed() + usual > limit) {
                        break;
                    }
                    let start = Instant::now();
                    let result = train(args, case, run.steps, logs);
                    longest.fetch_max(start.elapsed().as_millis() as usize, Ordering::Relaxed);
                    let failed = result.is_err();
                    if results.send((*case, result)).is_err() || failed {
                        break;
                    }
                }
            });
        }
        drop(results);
        for (case, result) in arrived {
            // No further training is begun after one that failed.
            let record = result.inspect_err(|_| next.store(left.len(), Ordering::Relaxed));
            records.append(&record.during(|| case.title())?)?;
            done += 1;
            progress.at(done, &case.title());
        }
        Ok(())
    })
}

fn setting(args: &Args, run: &Run) -> Setting {
    Setting {
        data: log_name(args.data.as_deref()),
        steps: run.steps,
        train_rows: run.data.samples(),
        test_rows: run.data.eval_samples(),
        rows_cap: args.rows_cap,
        batch: run.batch,
        rate: args.rate,
        constant_rate: args.constant_rate,
    }
}

/// Global batch of the paper (§4).
const BATCH: usize = 1024;
/// Share of the rows of a log that are tested on.
const TEST_SHARE: f64 = 0.15;

/// The model of the paper (its Table 1), trained for `steps` steps as in §4; as the row says, or in f32.
fn configure(args: &Args, case: Option<&Case>, steps: u64) -> Result<Config> {
    let mut config = Config::default();
    config.model.preset = Some(Preset::Kaggle);
    config.model.rows_cap = Some(args.rows_cap);
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(1));
    config.train.batch = Some(BATCH);
    config.train.epochs = Some(args.epochs);
    config.train.eval_every = Some(u64::MAX);
    config.train.threads = Some(1);
    let half = steps / 2;
    let decay = match args.constant_rate || half == 0 {
        true => Decay::None,
        false => Decay::Linear { steps: steps - half, floor: 0.0 },
    };
    let rate = LearningRate { peak: args.rate, warm_up: 0, hold: half, decay };
    let sgd = Optimizer { update: UpdateRule::Sgd, rate };
    (config.optimizer.dense, config.optimizer.tables) = (Some(sgd), Some(sgd));
    match &args.data {
        None => {
            // Strong effects of ids and dense inputs: what a model learns in its first thousand steps.
            config.data.synthetic = Some(Synthetic {
                samples: args.train_rows,
                eval_samples: args.test_rows,
                main: 2.0,
                dense: 1.0,
                within: 0.3,
                ..Synthetic::default()
            });
        }
        Some(path) => {
            config.data.format = Some(DataFormat::CriteoTsv);
            config.data.train = vec![path.display().to_string()];
            config.data.split = Some(TEST_SHARE);
        }
    }
    let Some(case) = case else { return Ok(config) };
    config.train.seed = Some(case.seed);
    if let Some(row) = case.row {
        config.wire = row.wire().parse().map_err(|problem| Error::Format { row: row.name, problem })?;
        if let Some((_, algorithm)) = row.allreduce {
            config.train.all_reduce = Some(AllReduce::By(algorithm));
            let layers = case.layers.map(EmulatedLayers::from);
            config.emulation = EmulationConfig { nodes: case.nodes, nodes_per_host: None, layers };
        }
    }
    Ok(config)
}

fn train(args: &Args, case: &Case, steps: u64, logs: &OpenLogs) -> Result<TrainedRow> {
    let began = Instant::now();
    let trained =
        Training::new(configure(args, Some(case), steps)?).logs(logs.clone()).titled(case.title()).run();
    let mut record = TrainedRow {
        table: case.table,
        row: case.name().into(),
        nodes: case.nodes,
        layers: case.layers,
        seed: case.seed,
        accuracy: None,
        auc: None,
        logloss: None,
        diverged: None,
        seconds: 0.0,
        parameters_sha256: String::new(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    match trained {
        Ok(trained) => {
            let scores = trained.outcome.scores.as_ref().ok_or(Error::NoAuc)?;
            (record.accuracy, record.auc) = (Some(scores.evaluation.accuracy), scores.evaluation.auc);
            record.logloss = Some(scores.evaluation.logloss);
            record.parameters_sha256 = trained.outcome.parameters_sha256.unwrap_or_default();
        }
        Err(error) => {
            let told = chain(&error);
            // A loss that is not finite, or a value that no codec with a scale can encode.
            if !told.contains("the loss of step") && !told.contains("finite values") {
                return Err(Error::Program(error.into()));
            }
            record.diverged = Some(told);
        }
    }
    record.seconds = began.elapsed().as_secs_f64();
    Ok(record)
}

#[cfg(test)]
mod tests;
