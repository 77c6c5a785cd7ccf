//! `campanile eval`: a checkpoint on samples, and its predictions.

use crate::cluster::TransportArgs;
use crate::output::{Force, Output};
use crate::progress::Console;
use crate::scoring::{ScoringArgs, hosts_or_found, ranks_or_found};
use crate::signals::stop_on_signals;
use crate::text::si;
use crate::train::quality_of;
use anyhow::Result;
use campanile::Evaluation;
use std::path::PathBuf;

/// Score a checkpoint, and write its predictions
#[derive(clap::Args)]
#[command(after_help = "Examples:
  The rows that the run was evaluated on; other rows, with predictions
    campanile eval --checkpoint runs/one
    campanile eval --checkpoint runs/one --data new.tsv --predictions new.csv
  A model that no machine holds alone, on a prepared log (a build with --features mpi)
    mpirun -np 8 campanile eval --checkpoint runs/one --data prepared/eval --transport mpi")]
#[command(mut_arg("hosts", hosts_or_found), mut_arg("ranks_per_host", ranks_or_found))]
pub struct Args {
    #[command(flatten)]
    on: ScoringArgs,
    #[command(flatten)]
    transport: TransportArgs,
    /// Write the label and the predicted probability of every sample, in the order of the log: Parquet if the name ends in
    /// .parquet, else CSV. Bad lines have no row
    #[arg(long, value_name = "FILE")]
    predictions: Option<PathBuf>,
    /// Also tell the AUC averaged over the groups that this column makes, such as users: the mean of the AUCs of groups with
    /// both labels, weighted by their samples [default: as in training, without --data; else none]
    #[arg(long, value_name = "COLUMN")]
    group: Option<String>,
    /// Also tell AUC, logloss and calibration for the values of this column, the 50 largest one by one; may be given several
    /// times [default: as in training, without --data; else none]
    #[arg(long, value_name = "COLUMN")]
    slice: Vec<String>,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let cluster = args.transport.join()?;
    let mut samples = args.on.samples.samples();
    (samples.group, samples.slices) = (args.group.clone(), args.slice.clone());
    let inputs = samples.inputs(&args.on.checkpoint);
    // The first rank writes for all.
    let written = args.predictions.as_deref().filter(|_| cluster.has_first_rank());
    let output = Output::check_if_any(written, args.force.force, &inputs)?;
    let stop = stop_on_signals()?;
    let evaluation = Evaluation::on(&args.on.checkpoint, samples).predictions_to(output.clone());
    let evaluated = stop.ended(evaluation.control(console.control(&stop)).run_on(cluster))?;
    let Some(evaluated) = evaluated else { return Ok(()) };
    let (scores, step) = (&evaluated.scores, evaluated.step);
    let evaluation = &scores.evaluation;
    if args.json {
        println!("{}", campanile::summary::of_evaluation(&evaluated));
        return Ok(());
    }
    let told = format!(
        "{} after step {step}{}, on {} samples\n{}",
        evaluated.run.model.kind(),
        evaluated.used.told(step),
        si(evaluation.samples as f64),
        quality_of("scored", scores)
    );
    match &output {
        // Whoever reads the table from standard output wants nothing else there.
        Some(output) if output.is_stdout() => eprint!("{told}"),
        Some(output) => println!("{told}predictions in {}", output.path().display()),
        None => print!("{told}"),
    }
    Ok(())
}
