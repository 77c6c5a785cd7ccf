//! `campanile data rows`: the rows of a log, as the model of a run takes them.

use crate::output::{Force, Output};
use crate::progress::Console;
use crate::signals::stop_on_signals;
use crate::text::{grouped, tell};
use anyhow::Result;
use campanile::scoring::Samples;
use campanile::{ModelRows, Use};
use serde_json::json;
use spec::run::DataFormat;
use std::path::PathBuf;

/// Write the rows of a log as inputs of an exported ONNX model: dense features after their transforms, and the table rows of ids
///
/// A column of labels is not looked at. Bad lines are left out. Vocabularies, transforms and, unless given, format and schema are those
/// of the run.
#[derive(clap::Args)]
#[command(after_help = "Arrays of the file, which numpy.load reads:
  dense             f32, samples × dense features
  rows.FEATURE      i64, samples; samples × the longest bag for a feature with many ids, where shorter bags end in -1
  weights.FEATURE   f32, the same shape, for features with weights
Example:
  campanile checkpoint export runs/one --format onnx --out model.onnx
  campanile data rows --checkpoint runs/one --data new.csv --out rows.npz
  python -c \"import numpy, onnxruntime; print(onnxruntime.InferenceSession('model.onnx').run(None, dict(numpy.load('rows.npz'))))\"")]
pub struct Args {
    /// Folder of a checkpoint, or of a run, whose best checkpoint is taken where it keeps one, else its last
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// Which checkpoint of a run: last or best [default: the best where the run keeps it, else the last]
    #[arg(long = "use", value_name = "last|best")]
    which: Option<Use>,
    /// Files to read: paths and globs; text may be compressed with gzip, xz or zstd
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    data: Vec<String>,
    /// Format of the files: criteo-tsv, csv, parquet or prepared [default: as in training]
    #[arg(long)]
    format: Option<DataFormat>,
    /// TOML file that gives the meaning of the columns, for csv and parquet [default: as in training]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Stop at the first bad line: a row of the log that cannot be read as a sample
    #[arg(long)]
    strict: bool,
    /// File to write: a .npz of NumPy
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let Args { data, format, schema, strict, which, .. } = &args;
    let samples = Samples {
        data: data.clone(),
        format: *format,
        schema: schema.clone(),
        strict: *strict,
        which: *which,
        ..Samples::default()
    };
    let rows = ModelRows::on(&args.checkpoint, samples);
    let output = Output::check(&args.out, args.force.force, &rows.inputs())?;
    let stop = stop_on_signals()?;
    let written = stop.ended(rows.control(console.control(&stop)).write(&output))?;
    let bad = written.rows - written.samples;
    if bad > 0 {
        tell(format!("{bad} bad line(s) left out; the first:"));
        written.first_bad.iter().for_each(|line| tell(format!("  {line}")));
    }
    if args.json {
        let shape = |width: Option<usize>| match width {
            Some(width) => json!([written.samples, width]),
            None => json!([written.samples]),
        };
        let arrays = written.tensors.iter().map(|tensor| (tensor.name.clone(), shape(tensor.width)));
        let result = json!({
            "out": args.out,
            "rows": written.rows,
            "samples": written.samples,
            "bad_lines": bad,
            "step": written.step,
            "used": written.used.name(),
            "arrays": arrays.collect::<serde_json::Map<_, _>>(),
        });
        println!("{result}");
        return Ok(());
    }
    let told = format!(
        "{}: {} rows in {} arrays, for the model after step {}{}",
        args.out.display(),
        grouped(written.samples),
        written.tensors.len(),
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
