//! What a precision of matrix products does to what is learnt: AUC of trainings in f32x3 and bf16 beside those in f32 from the same
//! seeds.
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
use spec::precision::{Precision, PrecisionConfig};
use spec::presets::{ModelKind, Preset};
use spec::run::{DataFormat, Run};
use spec::synthetic::Synthetic;
use std::path::PathBuf;
use std::time::Instant;

/// Trainings to compare, and the folder of results.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  Five seeds on the synthetic log, in f32, f32x3 and bf16
    campanile reproduce precision
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
    /// Precisions that are compared with f32, each as --precision of `campanile train` takes it; may be given several times
    #[arg(long, value_name = "PRECISION", default_values = ["f32x3", "bf16"], help_heading = "Trainings")]
    precision: Vec<PrecisionConfig>,
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

/// Result of one training.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedIn {
    /// Precision of the training, as users write it.
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
    let plain = PrecisionConfig::all(Precision::F32);
    let config = configure(args, &plain, 0);
    let logs = logs::open(&config.data, None, &Control::default()).map_err(campanile::Error::from);
    let logs = logs.map_err(|error| Error::Program(error.into()))?;
    let run = logs.check(&config)?;
    for precision in &args.precision {
        logs.check(&configure(args, precision, 0)).during(|| format!("--precision {precision}"))?;
    }
    let records = Records::<TrainedIn>::open(&args.out, &json!(setting(args, &run)))?;
    if let Some(taken) = records.taken()? {
        program.note(&taken.to_string());
    }
    let known = records.all()?;
    let precisions: Vec<&PrecisionConfig> = std::iter::once(&plain).chain(&args.precision).collect();
    let all = (0..args.seeds).flat_map(|seed| precisions.iter().map(move |precision| (*precision, seed)));
    let progress = program.progress("training", args.seeds * precisions.len() as u64);
    for (done, (precision, seed)) in all.enumerate() {
        let title = format!("{precision}, seed {seed}");
        progress.at(done as u64, &title);
        let is_this = |record: &TrainedIn| record.precision == precision.to_string() && record.seed == seed;
        if !known.iter().any(is_this) {
            records.append(&train(args, precision, seed, &logs).during(|| title)?)?;
        }
    }
    Ok(())
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
fn configure(args: &Args, precision: &PrecisionConfig, seed: u64) -> Config {
    let mut config = Config::default();
    (config.model.preset, config.model.kind) = (Some(Preset::Kaggle), Some(args.model));
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(1));
    (config.train.batch, config.train.seed) = (Some(BATCH), Some(seed));
    config.train.precision = Some(precision.clone());
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

fn train(args: &Args, precision: &PrecisionConfig, seed: u64, logs: &OpenLogs) -> Result<TrainedIn> {
    let began = Instant::now();
    let trained = Training::new(configure(args, precision, seed)).logs(logs.clone()).run();
    let outcome = trained.map_err(|error| Error::Program(error.into()))?.outcome;
    let evaluation = outcome.scores.as_ref().map(|scores| scores.evaluation).ok_or(Error::NoAuc)?;
    Ok(TrainedIn {
        precision: precision.to_string(),
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
