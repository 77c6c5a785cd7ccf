//! `campanile eval`: a checkpoint on samples, and its predictions.

use crate::on_samples::{OnSamples, Opened};
use crate::output::{Force, Output};
use crate::progress::{Console, Unit};
use crate::text::si;
use crate::train::quality_on;
use anyhow::Result;
use data::DataError;
use data::predictions::{FirstColumn, Predictions};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use training::Event;

/// Score a checkpoint, and write its predictions
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    on: OnSamples,
    /// Write label and probability of every sample, in their order: Parquet if the name ends in .parquet, else CSV. A
    /// bad line has none
    #[arg(long, value_name = "FILE")]
    predictions: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let inputs = args.on.samples.inputs(&args.on.checkpoint);
    let output = Output::check_if_any(args.predictions.as_deref(), args.force.force, &inputs)?;
    let Opened { run, logs, checkpoint, stop, .. } = &args.on.open(console)?;
    let mut predictions = match &output {
        Some(output) => Some(Predictions::new(output.path(), output.create()?, &FirstColumn::Labels)?),
        None => None,
    };
    let progress = console.progress("evaluating", run.data.eval_samples(), Unit::Count("samples"));
    let observe = |_: Event| ();
    let mut done = 0;
    let scores = training::evaluate(run, logs, checkpoint, &observe, &mut |labels, probabilities| {
        if stop.load(Ordering::Relaxed) {
            return Err(DataError::Stopped.into());
        }
        done += labels.len() as u64;
        progress.at(done, "");
        match &mut predictions {
            Some(predictions) => Ok(predictions.append(labels, probabilities)?),
            None => Ok(()),
        }
    });
    drop(progress);
    let done = format!("stopped after {done} of {} samples; nothing was written", run.data.eval_samples());
    let scores = match scores {
        Err(_) if stop.load(Ordering::Relaxed) => return Err(stop.interrupted(done).into()),
        scores => scores?,
    };
    if let Some(predictions) = predictions {
        predictions.finish()?.finish()?;
    }
    let evaluation = &scores.evaluation;
    let step = checkpoint.manifest().step;
    if args.json {
        let mut result = json!({
            "mean_prediction": evaluation.mean_prediction,
            "click_rate": evaluation.click_rate,
            "samples": evaluation.samples,
            "step": step,
            "checkpoint": checkpoint.path(),
            "bins": scores.bins,
        });
        for (field, value) in evaluation.metrics() {
            result[field] = json!(value);
        }
        println!("{result}");
        return Ok(());
    }
    let told = format!(
        "{} after step {step}, on {} samples\n{}",
        run.model.kind(),
        si(evaluation.samples as f64),
        quality_on("scored", evaluation)
    );
    match &output {
        // Whoever reads the table from standard output wants nothing else there.
        Some(output) if output.is_stdout() => eprint!("{told}"),
        Some(output) => println!("{told}predictions in {}", output.path().display()),
        None => print!("{told}"),
    }
    Ok(())
}
