//! What a precision of matrix products, or a number format of tables, does to what is learnt: AUC of trainings in f32x3 and bf16, or with
//! tables of f16, beside those in f32 from the same seeds.
//!
//! Trainings run one after the other, each on all cores: results do not depend on the number of threads.

pub(crate) mod report;

pub use report::{recorded, report_of};

use crate::error::{During, Error, Result};
use crate::program::Program;
use crate::{Report, log_name};
use campanile::logs::{self, OpenLogs};
use campanile::records::Records;
use campanile::{Config, Control, Training};
use serde::{Deserialize, Serialize};
use serde_json::json;
use spec::byte_size::ByteSize;
use spec::codec::Rounding;
use spec::precision::{Precision, PrecisionConfig};
use spec::presets::{ModelKind, Preset};
use spec::run::{DataFormat, Run};
use spec::synthetic::Synthetic;
use spec::table_format::TableFormat;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

/// Trainings to compare, and the folder of results.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  Five seeds on the synthetic log, in f32, f32x3 and bf16
    campanile reproduce precision
  Tables of fewer bits instead, the last under 4 MiB of rows in f32
    campanile reproduce precision --tables f16 --tables int8:nearest --tables int8@4MiB --out reports/table-formats/synthetic
  A log of Criteo's format, of which the last rows are tested on
    campanile reproduce precision --data train.tsv --out reports/precision/criteo
  Only the table of what was trained
    campanile reproduce precision --table

A measurement that was stopped or killed goes on with the same command: finished trainings are taken from DIR/records.jsonl.")]
pub struct Args {
    /// Number of seeds of the initial weights, from 0
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Trainings")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Precisions that are compared with f32, each as --precision of `campanile train` takes it; may be given several times [default:
    /// f32x3 and bf16; none with --tables]
    #[arg(long, value_name = "PRECISION", help_heading = "Trainings")]
    precision: Vec<PrecisionConfig>,
    /// Number formats of tables that are compared with f32: f16, bf16 or int8, rounded at random, or f16:nearest and so on. With @SIZE,
    /// as int8@64MiB, rows of so many bytes are in memory as f32, and all others in files; may be given several times
    #[arg(long, value_name = "FORMAT[:ROUNDING][@SIZE]", help_heading = "Trainings")]
    tables: Vec<TablesIn>,
    /// Architecture of the network: dlrm, dcn or deepfm
    #[arg(long, value_name = "KIND", default_value = "dlrm", help_heading = "Trainings")]
    model: ModelKind,
    /// File in Criteo's format to train on, of which the last 15 % are tested on [default: a synthetic log]
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    data: Option<PathBuf>,
    /// Number of training rows of the synthetic log
    #[arg(long, value_name = "N", default_value_t = 262_144, help_heading = "Data")]
    train_rows: u64,
    /// Number of test rows of the synthetic log
    #[arg(long, value_name = "N", default_value_t = 262_144, help_heading = "Data")]
    test_rows: u64,
    /// Folder for the results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR", default_value = "reports/precision/synthetic", help_heading = "Output")]
    out: PathBuf,
    /// Train nothing; print the table of the results in the folder
    #[arg(long, help_heading = "Output")]
    table: bool,
    /// Print one JSON array
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Settings that all trainings of a folder share.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// File that is trained on; `synthetic` for the synthetic log.
    pub data: String,
    /// Architecture of the network.
    pub model: String,
    /// Number of steps of a training.
    pub steps: u64,
    /// Number of training rows.
    pub train_rows: u64,
    /// Number of test rows.
    pub test_rows: u64,
    /// Global batch.
    pub batch: usize,
}

/// Number format of tables and its rounding, as the command takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablesIn {
    format: TableFormat,
    rounding: Rounding,
    /// Memory for rows of f32 over tables of the format; `None` where the tables themselves are in memory.
    rows_of_f32: Option<ByteSize>,
}

impl FromStr for TablesIn {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (text, rows_of_f32) = match text.split_once('@') {
            Some((text, size)) => (text, Some(size.parse()?)),
            None => (text, None),
        };
        let (format, rounding) = text.split_once(':').unwrap_or((text, Rounding::Stochastic.name()));
        Ok(Self { format: format.parse()?, rounding: rounding.parse()?, rows_of_f32 })
    }
}

/// What one side of the comparison trains in.
#[derive(Clone, Debug)]
enum Arm {
    Precision(PrecisionConfig),
    Tables(TablesIn),
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Precision(precision) => precision.fmt(f),
            Self::Tables(TablesIn { format, rounding, rows_of_f32: None }) => {
                write!(f, "tables {format}, {rounding}")
            }
            Self::Tables(TablesIn { format, rounding, rows_of_f32: Some(memory) }) => {
                write!(f, "tables {format}, {rounding}, under {memory} of f32")
            }
        }
    }
}

/// Result of one training.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedIn {
    /// Precision of the training, as users write it, or format and rounding of its tables.
    pub precision: String,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Test AUC.
    pub auc: f64,
    /// Test logloss.
    pub logloss: f64,
    /// Duration of the training, in seconds.
    pub seconds: f64,
    /// Digest of all parameters.
    pub parameters_sha256: String,
    /// Version of the program.
    pub version: String,
}

/// Global batch of all trainings.
const BATCH: usize = 1024;
/// Share of the rows of a log that are tested on.
const TEST_SHARE: f64 = 0.15;
/// Largest number of rows of a table of the synthetic log.
const ROWS_CAP: usize = 10_000;

/// Trains what the folder lacks, and compares all of it with the trainings in f32.
pub fn report(args: &Args, program: &dyn Program) -> Result<Report> {
    if !args.table {
        measure(args, program)?;
    }
    recorded(&args.out)
}

fn measure(args: &Args, program: &dyn Program) -> Result<()> {
    let arms = arms(args);
    let config = configure(args, &arms[0], 0);
    let logs = logs::open(&config.data, None, &Control::default()).map_err(campanile::Error::from);
    let logs = logs.map_err(|error| Error::Program(error.into()))?;
    let run = logs.check(&config)?;
    for arm in &arms[1..] {
        logs.check(&configure(args, arm, 0)).during(|| arm.to_string())?;
    }
    let records = Records::<TrainedIn>::open(&args.out, &json!(setting(args, &run)))?;
    if let Some(taken) = records.taken()? {
        program.note(&taken.to_string());
    }
    let known = records.all()?;
    let all = (0..args.seeds).flat_map(|seed| arms.iter().map(move |arm| (arm, seed)));
    let progress = program.progress("training", args.seeds * arms.len() as u64);
    for (done, (arm, seed)) in all.enumerate() {
        let title = format!("{arm}, seed {seed}");
        progress.at(done as u64, &title);
        let is_this = |record: &TrainedIn| record.precision == arm.to_string() && record.seed == seed;
        if !known.iter().any(is_this) {
            records.append(&train(args, arm, seed, &logs).during(|| title)?)?;
        }
    }
    Ok(())
}

/// What is compared; f32 comes first.
fn arms(args: &Args) -> Vec<Arm> {
    let usual = [Precision::F32x3, Precision::Bf16].map(PrecisionConfig::all).to_vec();
    let precisions = match args.precision.is_empty() && args.tables.is_empty() {
        true => usual,
        false => args.precision.clone(),
    };
    let plain = std::iter::once(PrecisionConfig::all(Precision::F32));
    let tables = args.tables.iter().copied().map(Arm::Tables);
    plain.chain(precisions).map(Arm::Precision).chain(tables).collect()
}

fn setting(args: &Args, run: &Run) -> Setting {
    Setting {
        data: log_name(args.data.as_deref()),
        model: run.model.kind().into(),
        steps: run.steps,
        train_rows: run.data.samples(),
        test_rows: run.data.eval_samples(),
        batch: run.batch,
    }
}

/// The model of the Kaggle preset, trained for one epoch by the usual optimizers.
fn configure(args: &Args, arm: &Arm, seed: u64) -> Config {
    let mut config = Config::default();
    (config.model.preset, config.model.kind) = (Some(Preset::Kaggle), Some(args.model));
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(1));
    (config.train.batch, config.train.seed) = (Some(BATCH), Some(seed));
    match arm {
        Arm::Precision(precision) => config.train.precision = Some(precision.clone()),
        Arm::Tables(TablesIn { format, rounding, rows_of_f32 }) => {
            (config.tables.format, config.tables.rounding) = (Some(*format), Some(*rounding));
            if let Some(memory) = rows_of_f32 {
                (config.tables.memory, config.tables.store) = (Some(*memory), Some(args.out.clone()));
                config.tables.cache_format = Some(TableFormat::F32);
            }
        }
    }
    match &args.data {
        None => {
            config.model.rows_cap = Some(ROWS_CAP);
            let (samples, eval_samples) = (args.train_rows, args.test_rows);
            config.data.synthetic = Some(Synthetic { samples, eval_samples, ..Synthetic::default() });
        }
        Some(path) => {
            config.data.format = Some(DataFormat::CriteoTsv);
            config.data.train = vec![path.display().to_string()];
            config.data.split = Some(TEST_SHARE);
        }
    }
    config
}

fn train(args: &Args, arm: &Arm, seed: u64, logs: &OpenLogs) -> Result<TrainedIn> {
    let began = Instant::now();
    let trained = Training::new(configure(args, arm, seed)).logs(logs.clone()).run();
    let outcome = trained.map_err(|error| Error::Program(error.into()))?.outcome;
    let evaluation = outcome.scores.as_ref().map(|scores| scores.evaluation).ok_or(Error::NoAuc)?;
    Ok(TrainedIn {
        precision: arm.to_string(),
        seed,
        auc: evaluation.auc.ok_or(Error::NoAuc)?,
        logloss: evaluation.logloss,
        seconds: began.elapsed().as_secs_f64(),
        parameters_sha256: outcome.parameters_sha256.unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

#[cfg(test)]
mod tests;
