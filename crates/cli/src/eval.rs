//! `campanile eval`: a checkpoint on samples, and its predictions.

use crate::folder::VOCABULARIES;
use crate::logs;
use crate::text::si;
use crate::train::{SavedRun, folder_of, quality_on, stop_on_signals};
use anyhow::{Context, Result, ensure};
use data::predictions::Predictions;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use spec::optimizer::UpdateRule;
use spec::run::{Config, DataFormat, Run};
use std::path::PathBuf;
use training::checkpoint::locate;
use training::{Event, Logs};

/// Score a checkpoint, and write its predictions
#[derive(clap::Args)]
pub struct Args {
    /// A checkpoint, or the folder of a run: its last one
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// Samples to score: paths and globs [default: what the run was evaluated on]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    data: Vec<String>,
    /// How they are written: criteo-tsv, csv, parquet, prepared or synthetic [default: as in training]
    #[arg(long)]
    format: Option<DataFormat>,
    /// The columns of csv and parquet data, as TOML [default: as in training]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Refuse the first bad line
    #[arg(long)]
    strict: bool,
    /// Write label and probability of every sample, in their order: Parquet if the name ends in .parquet, else CSV. A
    /// bad line has none
    #[arg(long, value_name = "FILE")]
    predictions: Option<PathBuf>,
    /// Samples a step [default: as in training]
    #[arg(long, value_name = "GLOBAL")]
    batch: Option<usize>,
    /// Hosts
    #[arg(long, value_name = "H", default_value_t = 1)]
    hosts: usize,
    /// Ranks on each host [default: as many as the machine has cores]
    #[arg(long, value_name = "L")]
    ranks_per_host: Option<usize>,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let checkpoint = crate::checkpoint::open_verified(&locate(&args.checkpoint)?)?;
    let mut config = SavedRun::of(&checkpoint)?.config;
    configure(&mut config, &args)?;
    let folder = folder_of(checkpoint.path());
    let (run, logs, _kept);
    if config.data.format.unwrap_or_default() == DataFormat::Synthetic {
        ensure!(args.data.is_empty(), "the run's data is synthetic; say how --data is written with --format");
        (run, logs, _kept) = (config.check().context("the run of the checkpoint")?, Logs::Synthetic, None);
    } else {
        let stop = stop_on_signals()?;
        let open = logs::open_for_evaluation(&config.data, &folder.join(VOCABULARIES), &stop)?;
        run = open
            .check(&config)
            .with_context(|| format!("{} on {:?}", args.checkpoint.display(), config.data.eval))?;
        (logs, _kept) = (open.logs.clone(), Some(open));
    }
    evaluate(&args, &run, &logs, &checkpoint)
}

fn evaluate(
    args: &Args,
    run: &Run,
    logs: &Logs,
    checkpoint: &training::checkpoint::Checkpoint,
) -> Result<()> {
    let mut predictions = args.predictions.as_deref().map(Predictions::create).transpose()?;
    let bar = ProgressBar::new(run.data.eval_samples());
    bar.set_style(ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} samples  ETA {eta}")?);
    let observe = |_: Event| ();
    let scores = training::evaluate(run, logs, checkpoint, &observe, &mut |labels, probabilities| {
        bar.inc(labels.len() as u64);
        match &mut predictions {
            Some(predictions) => Ok(predictions.append(labels, probabilities)?),
            None => Ok(()),
        }
    });
    bar.finish_and_clear();
    let scores = scores?;
    if let Some(predictions) = predictions {
        predictions.finish()?;
    }
    let evaluation = &scores.evaluation;
    let step = checkpoint.manifest().step;
    if args.json {
        let result = json!({
            "auc": evaluation.auc,
            "logloss": evaluation.logloss,
            "ne": evaluation.ne,
            "accuracy": evaluation.accuracy,
            "calibration": evaluation.calibration,
            "mean_prediction": evaluation.mean_prediction,
            "click_rate": evaluation.click_rate,
            "samples": evaluation.samples,
            "step": step,
            "checkpoint": checkpoint.path(),
            "bins": scores.bins,
        });
        println!("{result}");
        return Ok(());
    }
    println!("{} after step {step}, on {} samples", run.model.kind(), si(evaluation.samples as f64));
    print!("{}", quality_on("scored", evaluation));
    if let Some(path) = &args.predictions {
        println!("predictions in {}", path.display());
    }
    Ok(())
}

/// The run's config, to predict with on one machine: no optimizer state, no checkpoints.
fn configure(config: &mut Config, args: &Args) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    config.topology.hosts = Some(args.hosts);
    config.topology.ranks_per_host = Some(args.ranks_per_host.unwrap_or(cores));
    // Groups and peers were those of the training's cluster.
    config.topology.hosts_per_tower = None;
    config.train.peer_permute = None;
    config.placement = Default::default();
    config.train.threads = None;
    for optimizer in [&mut config.optimizer.dense, &mut config.optimizer.tables].into_iter().flatten() {
        optimizer.update = UpdateRule::Sgd;
    }
    config.train.batch = args.batch.or(config.train.batch);
    let data = &mut config.data;
    if !args.data.is_empty() {
        data.eval = args.data.clone();
    }
    data.format = args.format.or(data.format);
    if let Some(path) = &args.schema {
        data.schema = Some(crate::args::read_toml(path)?);
    }
    data.strict = args.strict.then_some(true).or(data.strict);
    if data.format.unwrap_or_default() != DataFormat::Synthetic {
        ensure!(!data.eval.is_empty(), "the run had no evaluation data; name some with --data");
    }
    Ok(())
}
