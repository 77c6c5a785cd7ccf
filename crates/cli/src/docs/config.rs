//! docs/reference/config.md and schema.md, with JSON schemas of both files for editors.

use super::command_line::{help, split_default};
use super::keys::{Key, Types, description};
use super::{GENERATED, Page};
use anyhow::Result;
use pages::markdown::table;
use serde_json::Value;
use spec::run::Config;
use spec::schema::Schema;
use std::fmt::Write;

/// Keys whose flag of `train` has another name than the key.
const RENAMED: [(&str, &str); 18] = [
    ("checkpoint.every", "checkpoint-every"),
    ("checkpoint.kind", "checkpoint-kind"),
    ("checkpoint.memory", "checkpoint-memory"),
    ("data.slices", "slice"),
    ("data.train", "data"),
    ("emulation.nodes", "emulate-nodes"),
    ("model.kind", "model"),
    ("optimizer.dense", "optimizer"),
    ("optimizer.peak", "lr"),
    ("optimizer.tables", "optimizer"),
    // No flag lays out single tables.
    ("placement.tables", ""),
    ("tables.format", "tables"),
    ("tables.memory", "table-memory"),
    ("tables.store", "table-store"),
    ("train.overlap", "no-overlap"),
    ("wire.dense", "wire"),
    ("wire.gradients", "wire"),
    ("wire.rounding", "wire-rounding"),
];
/// More keys that share a flag with others.
const SHARED: [(&str, &str); 2] = [("wire.towers", "wire"), ("wire.vectors", "wire")];

/// Pages on the config of a run and on the schema of a log.
pub fn pages() -> Result<Vec<Page>> {
    let config = shortened(schemars::schema_for!(Config).to_value());
    let schema = shortened(schemars::schema_for!(Schema).to_value());
    Ok(vec![
        Page::new("reference/config.md", config_page(&config)),
        Page::new("reference/config.schema.json", serde_json::to_string_pretty(&config)? + "\n"),
        Page::new("reference/schema.md", schema_page(&schema)),
        Page::new("reference/schema.schema.json", serde_json::to_string_pretty(&schema)? + "\n"),
    ])
}

fn config_page(schema: &Value) -> String {
    let mut types = Types::new(schema, &[("Schema", "schema.md")]);
    let mut page = format!(
        "# Keys of a run's config\n\n{GENERATED}\n\
         A run is described by a TOML file, `campanile train run.toml`, by flags over it, or by both. Every key is optional; \
         unknown keys are refused. `campanile train --out DIR` writes the config with every default filled in to \
         `DIR/config.toml`. Keys stand in the order of the alphabet; `examples/multi-hot.toml` uses most of them.\n\n\
         Editors that know JSON schemas complete and check the keys: begin the file with \
         `#:schema docs/reference/config.schema.json`.\n"
    );
    for (section, keys) in sections(schema, &mut types) {
        let _ = writeln!(page, "\n## `[{section}]`\n");
        let rows: Vec<Vec<String>> = keys.into_iter().map(|key| config_row(&section, key)).collect();
        page += &table(5, &["key", "type", "default", "flag", "meaning"], &rows);
    }
    let described = types.sections();
    let _ = write!(page, "\n## Types\n\nTypes that the tables above link to.\n{described}");
    page
}

/// Sections of a config with their keys.
pub fn sections<'a>(schema: &'a Value, types: &mut Types<'a>) -> Vec<(String, Vec<Key>)> {
    let Some(sections) = schema["properties"].as_object() else { return Vec::new() };
    let section = |(name, value): (&'a String, &'a Value)| {
        let of_type = types.resolve(value);
        (name.clone(), types.keys(of_type))
    };
    sections.iter().map(section).collect()
}

fn config_row(section: &str, key: Key) -> Vec<String> {
    let path = format!("{section}.{}", key.name);
    let flag = flag_of(&path);
    let of_flag = flag.as_ref().and_then(|flag| split_default(&help(flag)).1);
    let vague = |stated: &String| ["as described", "empty", "`false`"].contains(&stated.as_str());
    let default = key.default.clone().filter(|stated| !vague(stated)).or(of_flag).or(key.default);
    let flag = flag.and_then(|flag| Some(format!("`--{}`", flag.get_long()?))).unwrap_or_default();
    vec![format!("`{}`", key.name), key.kind, default.unwrap_or("none".into()), flag, key.meaning]
}

/// Flag of `train` that sets the key at this path: of the same name, but for those that are listed here.
pub fn flag_of(path: &str) -> Option<clap::Arg> {
    let (_, key) = path.split_once('.')?;
    let renamed = RENAMED.iter().chain(&SHARED).find(|(renamed, _)| *renamed == path);
    let long = renamed.map_or_else(|| key.replace('_', "-"), |(_, flag)| (*flag).to_owned());
    let command = crate::commands::command();
    let train = command.find_subcommand("train")?;
    train.get_arguments().find(|arg| arg.get_long() == Some(&long)).cloned()
}

fn schema_page(schema: &Value) -> String {
    let mut types = Types::new(schema, &[]);
    let keys = types.keys(schema);
    let rows: Vec<Vec<String>> = keys.into_iter().map(Key::cells).collect();
    let described = types.sections();
    format!(
        "# Keys of a schema\n\n{GENERATED}\n\
         {} `--schema FILE` names it for `csv` and `parquet` data, or it stands in a config under `[data.schema]`. \
         `campanile data inspect --data LOG --write DIR` writes one for your log; `examples/schemas` has two. Unknown keys are \
         refused.\n\n\
         Editors that know JSON schemas complete and check the keys: begin the file with \
         `#:schema docs/reference/schema.schema.json`.\n\n{}\n## Types\n\nTypes that the table above links to.\n{described}",
        "A schema is a TOML file that gives the meaning of the columns of a log.",
        table(4, &["key", "type", "default", "meaning"], &rows)
    )
}

/// The schema with comments that end before their examples.
fn shortened(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                *field = match (name.as_str(), &*field) {
                    ("description", Value::String(_)) => {
                        Value::String(description(&serde_json::json!({ "description": field })))
                    }
                    _ => shortened(field.take()),
                };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = shortened(item.take())),
        _ => {}
    }
    schema
}
