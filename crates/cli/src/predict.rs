//! `campanile predict`: a probability for every row of a log, with or without labels.

use crate::output::{Force, Output};
use crate::progress::Console;
use crate::scoring::ScoringArgs;
use crate::signals::stop_on_signals;
use crate::text::{grouped, tell};
use anyhow::Result;
use campanile::Prediction;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Score a log without labels: a probability for every row
///
/// A bad line keeps its place, without a probability. A column of labels is not looked at. Vocabularies and, unless given,
/// format and schema are those of the run.
#[derive(clap::Args)]
#[command(mut_arg("data", |arg| arg
    .required(true)
    .help("Files to score: paths and globs; text may be compressed with gzip, xz or zstd")))]
#[command(mut_arg("format", |arg| arg
    .help("Format of the files: criteo-tsv, csv, parquet or prepared [default: as in training]")))]
#[command(after_help = "Examples:
  campanile predict --checkpoint runs/one --data new.csv --key order_id --out scores.csv
  campanile predict --checkpoint runs/one --data new_*.parquet --out scores.parquet")]
pub struct Args {
    #[command(flatten)]
    on: ScoringArgs,
    /// File to write, with a header and one row for every row of the log, in the same order: Parquet if the name ends in
    /// .parquet, else CSV
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Column of the log that names each row of the output [default: a column `row` with the number of the row over all
    /// files, from 0]
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    #[command(flatten)]
    force: Force,
    /// Stop when more than this share of the rows cannot be read [default: 1, never]
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, hide_default_value = true)]
    max_bad_share: f64,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let began = Instant::now();
    let mut prediction =
        Prediction::on(&args.on.checkpoint, args.on.samples.samples()).max_bad_share(args.max_bad_share);
    if let Some(key) = &args.key {
        prediction = prediction.key(key);
    }
    prediction.check_key()?;
    let output = Output::check(&args.out, args.force.force, &prediction.inputs())?;
    let stop = stop_on_signals()?;
    let predicted = stop.ended(prediction.control(console.control(&stop)).write(&output))?;
    let bad = predicted.rows - predicted.scored;
    if bad > 0 {
        tell(format!("{bad} bad line(s) without a probability; the first:"));
        predicted.first_bad.iter().for_each(|line| tell(format!("  {line}")));
    }
    if args.json {
        let result = json!({
            "out": args.out,
            "rows": predicted.rows,
            "scored": predicted.scored,
            "bad_lines": bad,
            "step": predicted.step,
            "checkpoint": predicted.checkpoint,
            "used": predicted.used.name(),
            "seconds": began.elapsed().as_secs_f64(),
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "{}: {} rows, {} scored after step {}{}",
        args.out.display(),
        grouped(predicted.rows),
        grouped(predicted.scored),
        predicted.step,
        predicted.used.told(predicted.step)
    );
    Ok(())
}
