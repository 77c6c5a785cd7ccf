//! `campanile embeddings`: the rows of one table with their ids.

use crate::output::{Force, Output};
use crate::progress::Console;
use crate::signals::stop_on_signals;
use crate::text::{grouped, tell};
use anyhow::Result;
use campanile::{Embeddings, Use};
use serde_json::json;
use std::path::PathBuf;

/// Write the rows of one embedding table with their ids
///
/// Columns are row, id and count, then the values: v0, v1, … in CSV and TSV, a list `vector` in Parquet. Row 0 of a vocabulary is
/// for missing ids and all that have no row of their own. The id of a bucket is its range. A hashed table has rows without ids:
/// which ids share a row is not known. A DeepFM's rows end in the linear weight of the id.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of a checkpoint, or of a run, whose best checkpoint is taken where it keeps one, else its last
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// Which checkpoint of a run: last or best [default: the best where the run keeps it, else the last]
    #[arg(long = "use", value_name = "last|best")]
    which: Option<Use>,
    /// Feature whose table is written: the name of its column
    #[arg(long, value_name = "COLUMN")]
    feature: String,
    /// File to write: Parquet if the name ends in .parquet, TSV if it ends in .tsv, else CSV
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write the rows of the N most frequent ids only; the feature must have a vocabulary [default: all rows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    top: Option<u64>,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let top = args.top.map(|top| usize::try_from(top).unwrap_or(usize::MAX));
    let embeddings = Embeddings::of(&args.checkpoint, &args.feature).which(args.which).top(top);
    let output = Output::check(&args.out, args.force.force, &embeddings.inputs())?;
    let stop = stop_on_signals()?;
    let written = stop.ended(embeddings.control(console.control(&stop)).write(&output))?;
    if !written.with_ids {
        let why = match written.rule {
            Some("hash") => "they are hashed, so that several may share a row",
            Some(_) => "their texts were not kept when the log was prepared; prepare it again",
            None => "the log is generated",
        };
        tell(format!("the ids of {} are not known: {why}; rows are written without them", args.feature));
    }
    if args.json {
        let result = json!({
            "file": args.out,
            "feature": args.feature,
            "rows": written.rows,
            "dim": written.dim,
            "ids": written.rule,
            "with_ids": written.with_ids,
            "step": written.step,
            "used": written.used.name(),
            "checkpoint": written.checkpoint,
        });
        println!("{result}");
        return Ok(());
    }
    let told = format!(
        "{}: {} rows of {} values, of {} after step {}{}",
        args.out.display(),
        grouped(written.rows),
        written.dim,
        args.feature,
        written.step,
        written.used.told(written.step)
    );
    if output.is_stdout() {
        eprintln!("{told}")
    } else {
        println!("{told}")
    }
    Ok(())
}
