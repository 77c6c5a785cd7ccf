//! `campanile data prepare`.

use super::LogArgs;
use crate::logs::{self, Raw};
use crate::output::{Inputs, Output};
use crate::progress::Console;
use crate::text::{bytes, si};
use anyhow::{Result, bail, ensure};
use data::prepare::{self, Learnt, RawLog, RowDivision};
use data::prepared::{INDEX, MANIFEST, Manifest, PreparedLog, SAMPLES};
use serde_json::json;
use spec::run::{DataConfig, DataFormat, Split};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  A Criteo log in two parts, and a run on them
    campanile data prepare --data train.tsv.xz --split 0.1 --out prepared
    campanile train --data prepared/train --eval prepared/eval
  A log with a schema; evaluation data with the same vocabularies
    campanile data prepare --data shop.csv --format csv --schema schema.toml --out prepared-shop
    campanile data prepare --data later.csv --format csv --schema schema.toml --vocabularies-of prepared-shop --out later")]
pub struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// Folder to write; must be new, empty, or hold a prepared log, which is replaced (with --split: DIR/train and DIR/eval)
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Use the vocabularies and learnt transforms of this prepared log instead of making new ones; evaluation data needs those of
    /// the training data
    #[arg(long, value_name = "DIR")]
    vocabularies_of: Option<PathBuf>,
    /// Keep this share of the rows for evaluation, and write two logs: DIR/train and DIR/eval. Chosen are the last rows where
    /// the log is in the order of time (criteo-tsv, or in_time_order in the schema), the latest by a column of time, or else
    /// rows by a hash of their numbers [default: no split]
    #[arg(long, value_name = "SHARE", conflicts_with = "vocabularies_of")]
    split: Option<f64>,
    /// Column of time by which --split finds the latest rows: numbers, or texts in the order of time such as ISO dates
    /// [default: `time` of the schema, unless the log is in the order of time]
    #[arg(long, value_name = "COLUMN")]
    split_by: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    if matches!(args.log.format(), DataFormat::Prepared | DataFormat::Synthetic) {
        bail!("--format {}: there is nothing to prepare", args.log.format().name());
    }
    let mut inputs = Inputs::default();
    inputs.add_log(&args.log.data).add_all(&args.log.schema).add_all(&args.vocabularies_of);
    Output::check_folder(&args.out, &inputs)?;
    let config = DataConfig { split: args.split, split_by: args.split_by.clone(), ..args.log.config()? };
    config.check_split()?;
    let raw = Raw::of(&config, &args.log.data)?;
    if let Some(split) = config.split_of(&raw.schema)? {
        return run_split(&args, &raw, &split, console);
    }
    ensure_ours(&args.out, &[])?;
    let like = match &args.vocabularies_of {
        Some(folder) => {
            let log = PreparedLog::open(folder)?;
            let (schema, folder) = (&log.manifest().schema, folder.display());
            ensure!(
                schema.sparse == raw.schema.sparse,
                "{folder}: the sparse columns of this log are not those of the schema"
            );
            ensure!(
                schema.dense == raw.schema.dense || !raw.schema.learns_transforms(),
                "{folder}: the dense columns of this log are not those of the schema, whose transforms are learnt"
            );
            Some(Learnt::of(&log)?)
        }
        None => None,
    };
    let began = Instant::now();
    let stop = crate::signals::stop_on_signals()?;
    let log = RawLog { stop: Some(&stop), ..raw.log(args.log.memory) };
    let manifest = logs::with_progress(console, "preparing", |progress| {
        prepare::prepare(&log, &args.out, like.as_ref(), progress)
    });
    let manifest = stop.ended(manifest)?;
    if let Some(folder) = &args.vocabularies_of {
        prepare::copy_texts(&manifest, folder, &args.out)?;
    }
    tell(&args, &args.out, &manifest, began.elapsed().as_secs_f64());
    Ok(())
}

/// Refuses a folder that holds something else than what an earlier command left, finished or not, and the `folders`.
fn ensure_ours(out: &Path, folders: &[&str]) -> Result<()> {
    let ours = |name: &str| {
        let file = name.starts_with(MANIFEST) || [SAMPLES, INDEX].contains(&name);
        folders.contains(&name) || (folders.is_empty() && (file || name.starts_with("vocabulary-")))
    };
    let mut entries = out.read_dir().into_iter().flatten().flatten();
    if let Some(other) = entries.find(|entry| !entry.file_name().to_str().is_some_and(ours)) {
        bail!(
            "{}: the folder holds something else, {:?}; choose a new folder",
            out.display(),
            other.file_name()
        );
    }
    Ok(())
}

/// Prepares two logs in the folder: one to train on, one to evaluate on.
fn run_split(args: &Args, raw: &Raw, split: &Split, console: Console) -> Result<()> {
    let folders = ["train", "eval"].map(|part| args.out.join(part));
    ensure_ours(&args.out, &["train", "eval"])?;
    folders.iter().try_for_each(|folder| ensure_ours(folder, &[]))?;
    let began = Instant::now();
    let stop = crate::signals::stop_on_signals()?;
    let log = RawLog { stop: Some(&stop), ..raw.log(args.log.memory) };
    let parts = logs::showing_progress(console, "preparing", |progress| {
        prepare::prepare_split(&log, &RowDivision::of(split.clone()), &folders[0], &folders[1], progress)
    });
    let parts = stop.ended(parts)?;
    logs::warn_of_bad_lines(parts.train.bad_lines.count, &parts.train.bad_lines.lines);
    logs::say_split(console, split, parts.train.samples, parts.eval.samples, parts.untimed);
    let seconds = began.elapsed().as_secs_f64();
    if args.json {
        let (train, eval) = (&parts.train, &parts.eval);
        let result = json!({
            "folder": args.out,
            "samples": train.samples + eval.samples,
            "clicks": train.clicks + eval.clicks,
            "bad_lines": train.bad_lines.count,
            "bytes_read": train.source.files.iter().map(|file| file.bytes).sum::<u64>(),
            "bytes_written": train.files.samples.bytes + eval.files.samples.bytes,
            "seconds": seconds,
            "train": with_extras(
                json!({ "folder": folders[0], "samples": train.samples, "clicks": train.clicks }),
                train
            ),
            "eval": with_extras(
                json!({ "folder": folders[1], "samples": eval.samples, "clicks": eval.clicks }),
                eval
            ),
        });
        println!("{result}");
        return Ok(());
    }
    tell(args, &folders[0], &parts.train, seconds);
    tell(args, &folders[1], &parts.eval, seconds);
    Ok(())
}

/// Says what was prepared.
fn tell(args: &Args, folder: &Path, manifest: &Manifest, seconds: f64) {
    let read: u64 = manifest.source.files.iter().map(|file| file.bytes).sum();
    if args.json {
        let result = json!({
            "folder": folder,
            "samples": manifest.samples,
            "clicks": manifest.clicks,
            "bad_lines": manifest.bad_lines.count,
            "bytes_read": read,
            "bytes_written": manifest.files.samples.bytes,
            "seconds": seconds,
        });
        println!("{}", with_extras(result, manifest));
        return;
    }
    println!(
        "{}: {} samples, click rate {:.4}, {} columns of numbers and {} of ids{}; {} from {}, {seconds:.1} s",
        folder.display(),
        si(manifest.samples as f64),
        manifest.clicks as f64 / manifest.samples.max(1) as f64,
        manifest.dense.len(),
        manifest.features.len(),
        extras(manifest),
        bytes(manifest.files.samples.bytes),
        bytes(read)
    );
}

/// What the samples have besides one label and their inputs, in words.
fn extras(manifest: &Manifest) -> String {
    let mut parts = vec![];
    if !manifest.labels.is_empty() {
        let labels = manifest.labels.iter().map(|label| {
            let rate = label.clicks as f64 / manifest.samples.max(1) as f64;
            format!("{} {rate:.4}", label.column)
        });
        parts.push(format!("labels {}", labels.collect::<Vec<_>>().join(", ")));
    }
    if let (Some(weights), Some(column)) = (&manifest.sample_weights, &manifest.schema.weight) {
        let mean = weights.sum / manifest.samples.max(1) as f64;
        parts.push(format!("sample weight {column} {} to {}, mean {mean:.4}", weights.min, weights.max));
    }
    if !manifest.schema.keep.is_empty() {
        parts.push(format!("kept {}", manifest.schema.keep.join(", ")));
    }
    parts.iter().map(|part| format!("; {}", crate::text::printable(part))).collect()
}

/// Adds the fields about labels, sample weights and kept columns to a JSON object, where the log has any.
fn with_extras(mut result: serde_json::Value, manifest: &Manifest) -> serde_json::Value {
    if !manifest.labels.is_empty() {
        result["labels"] = json!(manifest.labels);
    }
    if let Some(weights) = &manifest.sample_weights {
        result["sample_weights"] = json!(weights);
    }
    if !manifest.schema.keep.is_empty() {
        result["kept"] = json!(manifest.schema.keep);
    }
    result
}
