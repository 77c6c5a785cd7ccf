//! A log that nobody has described: what it is, found by looking at it.

use super::write;
use super::{Args, Pass, pass, print_counts, print_warnings, write_statistics};
use crate::logs::Raw;
use crate::output::{Inputs, Output};
use crate::progress::Console;
use crate::text::printable;
use anyhow::{Context, Result, ensure};
use campanile::discover::{SPLIT, sized};
use campanile::file::whole;
use data::discover::{Found, Request, discover};
use data::inspect::Inspection;
use serde_json::json;
use spec::run::{Config, DataConfig, DataFormat};
use spec::schema::Schema;

/// Samples below which a narrow model is enough.
const FEW_SAMPLES: u64 = 200_000;
/// Samples below which one pass over them teaches too little, and more than two are learnt by heart.
const SHORT: u64 = 50_000;

pub fn run(args: &Args, inputs: &Inputs, stats: Option<&Output>, console: Console) -> Result<()> {
    let files = data::files::resolve(&args.log.data)?;
    if let Some(folder) = &args.write {
        write::check(folder, args.force.force, inputs)?;
    }
    let request = Request { label: args.label.as_deref(), time: args.time.as_deref() };
    let mut found = discover(&files, &request)?;
    let data = DataConfig {
        format: Some(found.format),
        schema: Some(found.schema.clone()),
        strict: args.log.strict.then_some(true),
        max_bad_share: args.log.max_bad_share,
        ..DataConfig::default()
    };
    let raw = Raw::of(&data, &args.log.data)?;
    let Pass { inspection, bad_lines, warnings } =
        pass(&raw, args.log.memory, console).with_context(|| {
            "reading the log with the columns that were found (choose others with --label and --time, or describe all \
             columns in a schema)"
        })?;
    ensure!(inspection.samples > 0, "{}: there are no samples in this log", args.log.data.join(" "));
    found.warnings.extend(warnings);
    let schema = sized(&found.schema, &inspection);
    write_statistics(stats, &inspection, &schema)?;
    for seen in &inspection.sparse {
        let column = found.columns.iter_mut().find(|column| column.name == seen.name);
        if let Some(column) = column {
            column.counted(seen.distinct);
        }
    }
    let config = config(&found, &schema, &inspection, &args.log.data)?;
    let written = match &args.write {
        None => None,
        Some(folder) => Some(write::write(folder, args.force.force, inputs, &found, &config)?),
    };
    if args.json {
        let result = json!({
            "inspection": inspection,
            "bad_lines": bad_lines,
            "suggested_config": toml::to_string_pretty(&config)?,
            "format": found.format,
            "delimiter": found.delimiter,
            "header": found.header,
            "columns": found.columns,
            "rows_looked_at": found.rows,
            "missing_texts": schema.missing,
            "label": schema.label.column,
            "positive_from": schema.label.positive_from,
            "time": schema.time,
            "in_time_order": schema.in_time_order,
            "warnings": found.warnings,
            "written": written,
        });
        println!("{result}");
        return Ok(());
    }
    println!("{}", described(&found));
    println!("\n{}", table(&found));
    print_counts(&inspection, bad_lines);
    print_warnings(&found.warnings);
    match (&args.write, written) {
        (Some(folder), Some(_)) => println!(
            "\nWrote schema.toml and run.toml. To train on this log, with a tenth of it kept for evaluation:\n\n  \
             campanile train {} --out RUN",
            folder.join(write::RUN).display()
        ),
        _ => {
            println!("\nTo train on this log, add --write DIR: it leaves a schema.toml and a run.toml there.")
        }
    }
    Ok(())
}

/// A run that trains on the log.
fn config(found: &Found, schema: &Schema, inspection: &Inspection, paths: &[String]) -> Result<Config> {
    let mut config = Config::default();
    let data = &mut config.data;
    data.format = Some(found.format);
    data.train = paths.iter().map(|path| whole(path)).collect::<Result<_, _>>()?;
    data.schema = Some(schema.clone());
    data.split = Some(SPLIT);
    data.split_by = schema.time.clone().filter(|_| !schema.in_time_order);
    let few = inspection.samples < FEW_SAMPLES;
    config.model.preset = Some(if few { spec::presets::Preset::Demo } else { spec::presets::Preset::Kaggle });
    config.model.kind = Some(spec::presets::ModelKind::Dlrm);
    config.model.dim = Some(16);
    config.train.epochs = Some(if inspection.samples < SHORT { 2 } else { 1 });
    Ok(config)
}

/// The log in a line.
fn described(found: &Found) -> String {
    let rows = found.rows;
    let what = match (found.format, found.delimiter, found.header) {
        (DataFormat::CriteoTsv, ..) => {
            "Criteo's log: a label, 13 counts and 26 ids a line, tabs between them, no header".into()
        }
        (_, Some(delimiter), header) => {
            let between = if delimiter == '\t' { "tabs".into() } else { format!("`{delimiter}`") };
            let header = if header == Some(true) { "a header" } else { "no header" };
            format!("Text with {between} between fields and {header}")
        }
        _ => "Parquet".into(),
    };
    let missing = match found.schema.missing.as_slice() {
        [] => String::new(),
        texts => format!("; missing: empty, {}", printable(&texts.join(", "))),
    };
    format!("{what}; {} columns, {rows} rows looked at{missing}", found.columns.len())
}

/// The columns, one a line.
fn table(found: &Found) -> String {
    const LONGEST: usize = 32;
    let name = |name: &str| {
        let shown = printable(name);
        let more = if shown.chars().count() > LONGEST { "…" } else { "" };
        format!("{}{more}", shown.chars().take(LONGEST).collect::<String>())
    };
    let names: Vec<String> = found.columns.iter().map(|column| name(&column.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!("  {:width$}  {:>7}  {:>9}  what it is\n", "column", "missing", "distinct");
    for (column, name) in found.columns.iter().zip(names) {
        let pad = " ".repeat(width - name.chars().count());
        let (missing, distinct) = (format!("{:.1} %", 100.0 * column.missing), column.distinct);
        let reason = printable(&column.reason);
        text.push_str(&format!("  {name}{pad}  {missing:>7}  {distinct:>9}  {reason}\n"));
    }
    text
}
