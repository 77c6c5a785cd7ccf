//! `schema.toml` and `run.toml`: what was found, as files that train.

use crate::output::{Inputs, Output};
use crate::text::printable;
use anyhow::{Context, Result, bail, ensure};
use data::discover::Found;
use spec::run::Config;
use spec::schema::{IdRule, Schema, SparseColumn, Transform};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that says what the columns are.
pub const SCHEMA: &str = "schema.toml";
/// The file that is trained with.
pub const RUN: &str = "run.toml";

/// Refuses a folder in which something would be lost.
pub fn check(folder: &Path, force: bool, inputs: &Inputs) -> Result<()> {
    ensure!(
        !folder.exists() || folder.is_dir(),
        "{}: this is a file; --write needs a folder",
        folder.display()
    );
    if folder.is_dir() {
        outputs(folder, force, inputs)?;
    }
    Ok(())
}

/// Outputs for `schema.toml` and `run.toml`, in a folder that is there.
fn outputs(folder: &Path, force: bool, inputs: &Inputs) -> Result<[Output; 2]> {
    let output = |name: &str| Output::check(&folder.join(name), force, inputs);
    Ok([output(SCHEMA)?, output(RUN)?])
}

/// Writes both files, and gives their paths.
pub fn write(
    folder: &Path,
    force: bool,
    inputs: &Inputs,
    found: &Found,
    config: &Config,
) -> Result<[PathBuf; 2]> {
    let Some(schema) = &config.data.schema else { bail!("a run without a schema; please report this") };
    let schema_text = schema_text(found, schema);
    let read: Schema =
        toml::from_str(&schema_text).context("schema.toml as it would be; please report this")?;
    ensure!(read == *schema, "schema.toml would say something else than was found; please report this");
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
    let outputs = outputs(folder, force, inputs)?;
    for (output, text) in outputs.iter().zip([schema_text, run_text(config)]) {
        output.write(text.as_bytes())?;
    }
    Ok(outputs.map(|output| output.path().to_owned()))
}

/// A text as TOML writes it, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

fn schema_text(found: &Found, schema: &Schema) -> String {
    let mut text = String::from(
        "# What the columns of a log are, as `campanile data inspect` found them. Change what is wrong: a column may be left\n\
         # out, or stand under [[dense]] (numbers) or [[sparse]] (ids).\n\n",
    );
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    let reason = |name: &str| {
        let column = found.columns.iter().find(|column| column.name == name);
        column.map_or(String::new(), |column| format!("# {}", printable(&column.reason)))
    };
    line(format!("delimiter = {}", quoted(&schema.delimiter.to_string())));
    if let Some(columns) = &schema.columns {
        line("# The files have no header, so that columns are named here.".into());
        line(format!("columns = {}", list(columns)));
    }
    if !schema.missing.is_empty() {
        line("# Texts that mean \"missing\", besides the empty one.".into());
        line(format!("missing = {}", list(&schema.missing)));
    }
    if let Some(time) = &schema.time {
        line(reason(time));
        line(format!("time = {}", quoted(time)));
    }
    if schema.in_time_order {
        line("in_time_order = true".into());
    }
    line(reason(&schema.label.column));
    let threshold =
        schema.label.positive_from.map_or(String::new(), |from| format!(", positive_from = {from:?}"));
    line(format!("label = {{ column = {}{threshold} }}", quoted(&schema.label.column)));
    if let Some(weight) = &schema.weight {
        line(reason(weight));
        line(format!("weight = {}", quoted(weight)));
    }
    for column in found.columns.iter().filter(|column| column.role == data::discover::Role::LeftOut) {
        line(format!("# Column {} is {}", quoted(&column.name), printable(&column.reason)));
    }
    for dense in &schema.dense {
        line(format!("\n{}\n[[dense]]\ncolumn = {}", reason(&dense.column), quoted(&dense.column)));
        if dense.transform == Transform::Log {
            line("transform = \"log\"".into());
        }
    }
    for sparse in &schema.sparse {
        line(format!("\n{}\n[[sparse]]", reason(&sparse.column)));
        sparse_lines(sparse).into_iter().for_each(&mut line);
    }
    text
}

fn sparse_lines(column: &SparseColumn) -> Vec<String> {
    let mut lines = vec![format!("column = {}", quoted(&column.column))];
    if column.ids == IdRule::Vocabulary {
        lines.push("ids = \"vocabulary\"".into());
    }
    lines.extend(column.rows.map(|rows| format!("rows = {rows}")));
    lines.extend(column.separator.map(|c| format!("separator = {}", quoted(&c.to_string()))));
    lines.extend(column.weight_separator.map(|c| format!("weight_separator = {}", quoted(&c.to_string()))));
    if column.list {
        lines.push("list = true".into());
    }
    lines
}

fn run_text(config: &Config) -> String {
    let (data, model) = (&config.data, &config.model);
    let in_time_order = data.schema.as_ref().is_some_and(|schema| schema.in_time_order);
    let evaluated = match &data.split_by {
        Some(_) => {
            "The latest tenth of the rows, by the column of time, is kept from training and evaluated on."
        }
        None if in_time_order => {
            "The last tenth of the rows, the latest, is kept from training and evaluated on."
        }
        None => {
            "A tenth of the rows, chosen by a hash of their numbers, is kept from training and evaluated on."
        }
    };
    let split_by =
        data.split_by.as_ref().map_or(String::new(), |column| format!("split_by = {}\n", quoted(column)));
    let preset = model.preset.unwrap_or_default();
    format!(
        "# A run on a log that `campanile data inspect` looked at. To train, with checkpoints in the folder RUN:\n\
         #\n\
         #     campanile train {RUN} --out RUN\n\
         #\n\
         # Flags override what stands here: see `campanile train --help`.\n\
         \n\
         [data]\n\
         format = {format}\n\
         train = {train}\n\
         # Beside this file: what each column is.\n\
         schema = {SCHEMA:?}\n\
         # {evaluated}\n\
         split = {split:?}\n\
         {split_by}\
         \n\
         [model]\n\
         # Dot products of vectors; \"dcn\" has cross layers, \"deepfm\" a factorization machine.\n\
         kind = \"dlrm\"\n\
         # Widths of the layers: \"demo\" is narrow, \"kaggle\" wider, for logs of a million rows and more.\n\
         preset = {preset:?}\n\
         # Length of the vector of an id.\n\
         dim = {dim}\n\
         \n\
         [train]\n\
         # Passes over the log. More of them let the model learn rows by heart: watch the AUC.\n\
         epochs = {epochs}\n",
        format = quoted(data.format.unwrap_or_default().name()),
        train = list(&data.train),
        split = data.split.unwrap_or(0.0),
        preset = preset.name(),
        dim = model.dim.unwrap_or(16),
        epochs = config.train.epochs.unwrap_or(1),
    )
}
