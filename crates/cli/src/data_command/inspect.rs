//! `campanile data inspect`: what is in a log, and a config to begin with.

mod found;
mod write;

use super::LogArgs;
use crate::logs::{self, Raw};
use crate::output::{Force, Inputs, Output};
use crate::progress::{Console, Unit};
use crate::text::{columns, printable, si};
use anyhow::{Result, bail};
use clap::ArgGroup;
use data::delimited::{LineLayout, Scratch, quotes_beside};
use data::inspect::{ExtrasInspection, HotId, Inspection, Inspector, SparseInspection, inspect_prepared};
use data::lines::{CHUNK, Chunk, Chunks};
use data::prepare::PrepareProgress;
use data::prepared::{PreparedLog, Values};
use data::warnings::{self, SampleObserver};
use data::{files, id};
use serde_json::json;
use spec::run::{Config, DataFormat};
use spec::schema::{IdRule, Schema, SparseColumn};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(group(ArgGroup::new("outputs").args(["write", "stats"]).multiple(true)))]
#[command(mut_arg("force", |arg| arg.requires("outputs")))]
#[command(after_help = "Examples:
  What is in a log; a schema and a run for it
    campanile data inspect --data shop.csv
    campanile data inspect --data shop.csv --write mine
  Where the label or the time is not recognised
    campanile data inspect --data shop.csv --label bought --time seen_at --write mine
  What a planner should know of the ids, for `campanile plan --stats`
    campanile data inspect --data shop.csv --stats shop.json")]
pub struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// Column of the label; numbers other than 0 and 1 get a threshold, positive_from [default: found by name and values]
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["format", "schema"])]
    label: Option<String>,
    /// Column with the time of each row [default: found by name and values]
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["format", "schema"])]
    time: Option<String>,
    /// Write schema.toml and run.toml into this folder, for `campanile train DIR/run.toml`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "schema"])]
    write: Option<PathBuf>,
    /// Write statistics of the ids of every feature into this JSON file, for `campanile plan --stats`
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let mut inputs = Inputs::default();
    inputs.add_log(&args.log.data).add_all(&args.log.schema);
    let stats = Output::check_if_any(args.stats.as_deref(), args.force.force, &inputs)?;
    let is_prepared = matches!(args.log.data.as_slice(), [folder] if Path::new(folder).is_dir());
    if args.log.format.is_none() && args.log.schema.is_none() && !is_prepared {
        return found::run(&args, &inputs, stats.as_ref(), console);
    }
    let format =
        if is_prepared { args.log.format.unwrap_or(DataFormat::Prepared) } else { args.log.format() };
    let (inspection, schema, bad_lines, warnings) = match format {
        DataFormat::Synthetic => bail!(
            "--format synthetic: there is no file to inspect; `campanile describe` describes the synthetic log"
        ),
        DataFormat::Prepared => {
            let [folder] = args.log.data.as_slice() else { bail!("give one prepared folder at a time") };
            let log = PreparedLog::open(Path::new(folder))?;
            let manifest = log.manifest();
            let mut schema = manifest.schema.clone();
            for (column, feature) in schema.sparse.iter_mut().zip(&manifest.features) {
                if let Values::Rows(rows) = feature.values {
                    column.rows = Some(rows as usize);
                }
            }
            let mut warnings = warnings::of_schema(&schema);
            if let Some(noticed) = &manifest.noticed {
                warnings.extend(warnings::of_samples(&schema, manifest.samples, manifest.clicks, noticed));
            }
            (inspect_prepared(&log)?, schema, manifest.bad_lines.count, warnings)
        }
        _ => {
            let raw = Raw::of(&args.log.config()?, &args.log.data)?;
            let Pass { inspection, bad_lines, warnings } = pass(&raw, args.log.memory, console)?;
            (inspection, raw.schema, bad_lines, warnings)
        }
    };
    write_statistics(stats.as_ref(), &inspection, &schema)?;
    let config = suggested(&inspection, &schema, format);
    if args.json {
        let result = json!({
            "inspection": inspection,
            "bad_lines": bad_lines,
            "suggested_config": config,
            "warnings": warnings,
        });
        println!("{result}");
        return Ok(());
    }
    print_counts(&inspection, bad_lines);
    print_warnings(&warnings);
    println!("\nA config to begin with\n\n{config}");
    Ok(())
}

/// Writes what a planner should know of the log, where the user asked for it.
fn write_statistics(output: Option<&Output>, inspection: &Inspection, schema: &Schema) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(&inspection.statistics(schema))?;
    text.push('\n');
    Ok(output.write(text.as_bytes())?)
}

fn print_counts(inspection: &Inspection, bad_lines: u64) {
    println!(
        "{} samples, {} clicks: a rate of {:.4}; {bad_lines} bad lines",
        si(inspection.samples as f64),
        si(inspection.clicks as f64),
        inspection.click_rate
    );
    print_extras(&inspection.extras);
    if !inspection.dense.is_empty() {
        println!("\nNumbers, as the model gets them\n{}", dense_table(inspection));
    }
    println!("\nIds\n{}", sparse_table(inspection));
}

/// Prints what rows have besides one label and their inputs.
fn print_extras(extras: &ExtrasInspection) {
    for label in &extras.labels {
        let clicks = si(label.clicks as f64);
        println!("label {}: {clicks} clicks, a rate of {:.4}", printable(&label.name), label.click_rate);
    }
    if let Some(weight) = &extras.sample_weight {
        println!(
            "sample weight {}: {} to {}, mean {:.4}; {:.1} % are 0",
            printable(&weight.name),
            weight.min,
            weight.max,
            weight.mean,
            100.0 * weight.zeros
        );
    }
    for kept in &extras.kept {
        println!("kept column {}: {} distinct values", printable(&kept.name), si(kept.distinct as f64));
    }
}

fn print_warnings(warnings: &[String]) {
    if !warnings.is_empty() {
        println!("\nWarnings");
        warnings.iter().for_each(|warning| println!("  {}", printable(warning)));
    }
}

/// What a pass over a log found.
struct Pass {
    inspection: Inspection,
    bad_lines: u64,
    warnings: Vec<String>,
}

/// Reads a whole log.
fn pass(raw: &Raw, memory: u64, console: Console) -> Result<Pass> {
    let shown = console.progress("inspecting", 0, Unit::Bytes);
    let mut inspector = Inspector::new(&raw.schema);
    let mut observer = SampleObserver::new(&raw.schema);
    let log = raw.log(memory);
    let bad = log.decode(
        &[],
        &|progress| logs::show(&shown, "inspecting", PrepareProgress { counting: false, progress }),
        &mut |samples| {
            inspector.add(samples);
            observer.add(samples);
            Ok(())
        },
    );
    drop(shown);
    let bad = bad?;
    let first: Vec<String> = bad.first.iter().map(ToString::to_string).collect();
    logs::warn_of_bad_lines(bad.count, &first);
    let mut inspection = inspector.finish();
    if raw.format != DataFormat::Parquet {
        name_hottest(&mut inspection, raw)?;
    }
    let mut warnings = warnings::of_schema(&raw.schema);
    let (samples, clicks) = (inspection.samples, inspection.clicks);
    warnings.extend(warnings::of_samples(&raw.schema, samples, clicks, &observer.noticed()));
    Ok(Pass { inspection, bad_lines: bad.count, warnings })
}

/// Chunks in which the texts of the hottest ids are looked for: what comes often comes early.
const NAMED_WITHIN: usize = 64;

/// Finds out how the hottest ids are written, by a second look at the beginning of the log.
fn name_hottest(inspection: &mut Inspection, raw: &Raw) -> Result<()> {
    let mut unnamed: Vec<HashMap<u64, &mut HotId>> = inspection
        .sparse
        .iter_mut()
        .map(|column| column.hottest.iter_mut().map(|hot| (hot.key, hot)).collect())
        .collect();
    for (column, hot) in raw.schema.sparse.iter().zip(&mut unnamed) {
        if column.ids == IdRule::Index {
            hot.drain().for_each(|(row, hot)| hot.text = Some(row.to_string()));
        } else if column.ids == IdRule::Buckets {
            let text = |key| data::number::of_ordered_key(key).map_or(String::new(), |x| x.to_string());
            hot.drain().for_each(|(key, hot)| hot.text = Some(text(key)));
        } else if let Some(hot) = hot.remove(&id::MISSING) {
            // However the log writes it.
            hot.text = Some(String::new());
        }
    }
    let Some(path) = raw.files.first() else { return Ok(()) };
    let contents = files::open(path, logs::MEMORY, Default::default())?;
    let mut chunks = Chunks::new(contents, path, CHUNK).quoted(quotes_beside(&raw.schema));
    let header = if raw.schema.columns.is_none() { chunks.header()? } else { None };
    let layout = LineLayout::new(&raw.schema, path, header.as_deref())?;
    let (mut scratch, mut chunk) = (Scratch::default(), Chunk::default());
    for _ in 0..NAMED_WITHIN {
        if unnamed.iter().all(HashMap::is_empty) || !chunks.next(&mut chunk)? {
            break;
        }
        layout.texts(&mut scratch, &chunk, &mut |column, text| {
            if let Some(hot) = unnamed[column].remove(&id::key(text)) {
                hot.text = Some(String::from_utf8_lossy(text).into_owned());
            }
        });
    }
    Ok(())
}

fn dense_table(inspection: &Inspection) -> String {
    let mut rows = vec![["column", "min", "mean", "max", "zero or missing"].map(String::from).to_vec()];
    for column in &inspection.dense {
        rows.push(vec![
            printable(&column.name).into_owned(),
            format!("{:.3}", column.min),
            format!("{:.3}", column.mean),
            format!("{:.3}", column.max),
            format!("{:.1} %", 100.0 * column.zeros),
        ]);
    }
    columns(&rows)
}

fn sparse_table(inspection: &Inspection) -> String {
    let head = ["column", "distinct", "ids a sample", "most", "empty", "rows to begin with", "hottest"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for column in &inspection.sparse {
        let about = if column.distinct_is_exact { "" } else { "≈" };
        rows.push(vec![
            printable(&column.name).into_owned(),
            format!("{about}{}", column.distinct),
            format!("{:.2}", column.mean_ids),
            column.max_ids.to_string(),
            format!("{:.1} %", 100.0 * column.empty),
            column.suggested_rows.to_string(),
            hottest(column),
        ]);
    }
    columns(&rows)
}

fn hottest(column: &SparseInspection) -> String {
    let shown = column.hottest.iter().take(3).map(|hot| {
        let name = match hot.text.as_deref() {
            Some("") => "(missing)".into(),
            Some(text) => printable(&text.chars().take(16).collect::<String>()).into_owned(),
            None => format!("#{:x}", hot.key),
        };
        format!("{name} {:.1} %", 100.0 * hot.share)
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A config that trains on the log: its format, its columns, and tables of a size that suits them.
fn suggested(inspection: &Inspection, schema: &Schema, format: DataFormat) -> String {
    let mut config = Config::default();
    config.data.format = Some(format);
    config.data.train = vec!["…".into()];
    let rows =
        |column: &SparseColumn, seen: &SparseInspection| column.rows.unwrap_or(seen.suggested_rows as usize);
    let columns = || schema.sparse.iter().zip(&inspection.sparse);
    match format {
        DataFormat::CriteoTsv | DataFormat::Prepared => {
            let feature = |(column, seen)| {
                SparseColumn::feature(column, rows(column, seen), seen.mean_ids.round() as u32)
            };
            config.model.features = Some(columns().map(feature).collect());
        }
        _ => {
            let mut schema = schema.clone();
            for (column, (known, seen)) in schema.sparse.iter_mut().zip(columns()) {
                column.rows = Some(rows(known, seen));
            }
            config.data.schema = Some(schema);
        }
    }
    toml::to_string_pretty(&config).unwrap_or_default()
}
