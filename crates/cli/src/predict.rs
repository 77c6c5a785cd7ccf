//! `campanile predict`: a probability for every row of a log, with or without labels.

use crate::logs::{RowSource, Unlabelled};
use crate::on_samples::Samples;
use crate::output::{Force, Output, Writing};
use crate::progress::{Console, Unit};
use crate::signals::stop_on_signals;
use crate::text::{grouped, tell};
use anyhow::{Context, Result, ensure};
use data::DataError;
use data::predictions::{FirstColumn, Predictions};
use data::rows::Row;
use serde_json::json;
use spec::run::DataFormat;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;
use training::{Error, Event};

/// Score a log without labels: a probability for every row
///
/// A bad line keeps its place, without a probability. A column of labels is not looked at. Vocabularies and, unless given,
/// format and schema are those of the run.
#[derive(clap::Args)]
pub struct Args {
    /// A checkpoint, or the folder of a run: its last one
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// Files to score: paths and globs; text may be compressed with gzip, xz or zstd
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    data: Vec<String>,
    /// The file to write, with a header and a row for every row of the log, in its order: Parquet if the name ends in
    /// .parquet, else CSV
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Name rows by the text of this column [default: by their number over all files, from 0, under `row`]
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    #[command(flatten)]
    force: Force,
    /// How the files are written: criteo-tsv, csv, parquet or prepared [default: as in training]
    #[arg(long)]
    format: Option<DataFormat>,
    /// The columns of csv and parquet data, as TOML [default: as in training]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Refuse the first bad line
    #[arg(long)]
    strict: bool,
    /// Stop when more than this share of the lines is bad [default: 1, never]
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, hide_default_value = true)]
    max_bad_share: f64,
    /// Samples a step [default: as in training]
    #[arg(long, value_name = "GLOBAL")]
    batch: Option<usize>,
    /// Hosts [default: 1]
    #[arg(long, value_name = "H")]
    hosts: Option<usize>,
    /// Ranks on each host [default: as many as the machine has cores]
    #[arg(long, value_name = "L")]
    ranks_per_host: Option<usize>,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let began = Instant::now();
    let first = match &args.key {
        None => FirstColumn::Rows,
        Some(key) => {
            ensure!(
                key != "probability",
                "--key probability: that column is the one that is written; rename it"
            );
            FirstColumn::Keys(key.clone())
        }
    };
    let samples = Samples {
        data: args.data.clone(),
        format: args.format,
        schema: args.schema.clone(),
        strict: args.strict,
        batch: args.batch,
        hosts: args.hosts,
        ranks_per_host: args.ranks_per_host,
    };
    let out = Output::check(&args.out, args.force.force, &samples.inputs(&args.checkpoint))?;
    let stop = stop_on_signals()?;
    let opened =
        samples.open_unlabelled(&args.checkpoint, args.key.as_deref(), args.max_bad_share, &stop, console);
    let (checkpoint, config, log) = stop.ended(opened)?;
    let Unlabelled { open, rows, count, samples: scored, first_bad } = log;
    let progress = console.progress("predicting", count, Unit::Count("rows"));
    let table = Predictions::new(out.path(), out.create()?, &first)?;
    let mut output = Scored { table, rows, number: 0, key: args.key.is_some() };
    if scored > 0 {
        let run = open
            .check(&config)
            .with_context(|| format!("{} on {}", args.checkpoint.display(), args.data.join(" ")))?;
        let observe = |_: Event| ();
        let predicted = training::predict(&run, &open.logs, &checkpoint, &observe, &mut |probabilities| {
            if stop.load(Ordering::Relaxed) {
                return Err(DataError::Stopped.into());
            }
            output.append(probabilities)?;
            progress.at(output.number, "");
            Ok(())
        });
        drop(progress);
        stop.ended(predicted.map_err(Into::into))?;
    }
    output.finish()?;
    let bad = count - scored;
    if bad > 0 {
        tell(format!("{bad} bad line(s) without a probability; the first:"));
        first_bad.iter().for_each(|line| tell(format!("  {line}")));
    }
    let step = checkpoint.manifest().step;
    if args.json {
        let result = json!({
            "out": args.out,
            "rows": count,
            "scored": scored,
            "bad_lines": bad,
            "step": step,
            "checkpoint": checkpoint.path(),
            "seconds": began.elapsed().as_secs_f64(),
        });
        println!("{result}");
        return Ok(());
    }
    println!("{}: {} rows, {} scored after step {step}", args.out.display(), grouped(count), grouped(scored));
    Ok(())
}

/// Rows on their way to the file, each with its probability where it has one.
struct Scored {
    table: Predictions<Writing>,
    rows: RowSource,
    /// Rows written.
    number: u64,
    /// Whether rows go by their text.
    key: bool,
}

impl Scored {
    /// Writes the next samples, and the rows without one before each of them.
    fn append(&mut self, probabilities: &[f32]) -> Result<(), Error> {
        for &probability in probabilities {
            while self.write_next(Some(probability))? == Written::Bad {}
        }
        Ok(())
    }

    /// Writes the rows after the last sample, and completes the file.
    fn finish(mut self) -> Result<()> {
        if let RowSource::Noted(_) = self.rows {
            while self.write_next(None)? == Written::Bad {}
        }
        self.table.finish()?.finish()
    }

    /// Writes the next row: with `probability` where it is a sample.
    fn write_next(&mut self, probability: Option<f32>) -> Result<Written, DataError> {
        let Row { is_sample, text } = match &mut self.rows {
            RowSource::Samples => Row { is_sample: true, text: None },
            RowSource::Noted(rows) => match rows.next_row()? {
                None => return Ok(Written::Nothing),
                Some(row) => row,
            },
        };
        let probability = probability.filter(|_| is_sample);
        match self.key {
            true => self.table.append_key(text, probability)?,
            false => self.table.append_row(self.number, probability)?,
        }
        self.number += 1;
        Ok(if is_sample { Written::Sample } else { Written::Bad })
    }
}

/// What a row was.
#[derive(PartialEq, Eq)]
enum Written {
    Sample,
    Bad,
    /// There was none left.
    Nothing,
}
