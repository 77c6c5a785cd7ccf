//! Differences between a resumed run and its checkpoint, field by field, with both values.

use super::ResumeError;
use serde_json::{Value, json};
use spec::run::{Config, ModelConfig};
use std::path::Path;

/// Differences that are told one by one.
const TOLD: usize = 5;
/// The longest value that is shown whole, in characters.
const LONGEST: usize = 60;

/// Refuses to go on with the run of `folder`, whose config is `before`, where `now` says another model, optimizer, batch,
/// seed or log.
pub fn refuse_another(folder: &Path, before: &Config, now: &Config) -> Result<(), ResumeError> {
    let (mut before_value, mut now_value) = (compared(before)?, compared(now)?);
    // A run that was evaluated only once may begin to keep its best state.
    if before.train.keep_best.is_some() {
        before_value["train"]["keep_best"] = json!(before.train.keep_best);
        now_value["train"]["keep_best"] = json!(now.train.keep_best);
    }
    let found = lines(&before_value, &now_value, "the run");
    match found.is_empty() {
        true => Ok(()),
        false => Err(ResumeError::Another { folder: folder.to_owned(), differences: found }),
    }
}

/// A line for every value that differs, with both values; `owner` has the values `before`.
pub fn lines(before: &Value, now: &Value, owner: &str) -> Vec<String> {
    let mut found = Vec::new();
    differences("", before, now, &mut found);
    let line = |Difference { name, before, now }| {
        format!("{name}: requested {}, but {owner} has {}", shown(now), shown(before))
    };
    found.into_iter().map(line).collect()
}

/// A value that differs.
struct Difference<'a> {
    name: String,
    before: &'a Value,
    now: &'a Value,
}

/// The first differences, a line each.
pub fn told(differences: &[String]) -> String {
    let more = differences.len().saturating_sub(TOLD);
    let told: String = differences.iter().take(TOLD).map(|line| format!("\n  {line}")).collect();
    if more > 0 { format!("{told}\n  and {more} more") } else { told }
}

/// What must be the same. Another cluster, device, precision, dataflow, wire or all-reduce may take a run over, and rates may change.
fn compared(config: &Config) -> Result<Value, ResumeError> {
    let mut model = ModelConfig { preset: None, ..config.model.clone() };
    // Where rows lie changes no result.
    model.features.iter_mut().flatten().for_each(|feature| feature.cache = None);
    let update = |optimizer: Option<spec::run::Optimizer>| json!({ "update": optimizer.map(|optimizer| optimizer.update) });
    let optimizer = &config.optimizer;
    Ok(json!({
        "model": serde_json::to_value(model).map_err(ResumeError::Model)?,
        "train": {
            "batch": config.train.batch,
            "seed": config.train.seed,
            "warm_start": config.train.warm_start,
            "label_smoothing": config.train.label_smoothing,
            "positive_weight": config.train.positive_weight,
            "clip_value": config.train.clip_value,
            "clip_norm": config.train.clip_norm,
        },
        "tables": { "rounding": config.tables.rounding, "cache_format": config.tables.cache_format },
        "data": { "shuffle": config.data.shuffle, "synthetic": config.data.synthetic },
        "optimizer": {
            "dense": update(optimizer.dense),
            "tables": update(optimizer.tables),
            "weight_decay": optimizer.weight_decay,
            "table_weight_decay": optimizer.table_weight_decay,
        },
    }))
}

/// Adds every value that differs, under its name in a config.
fn differences<'a>(name: &str, before: &'a Value, now: &'a Value, found: &mut Vec<Difference<'a>>) {
    let null = &Value::Null;
    match (before, now) {
        (before, now) if before == now => {}
        (Value::Object(one), Value::Object(other)) => {
            let added = other.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(added) {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                differences(&name, one.get(key).unwrap_or(null), other.get(key).unwrap_or(null), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (i, (before, now)) in one.iter().zip(other).enumerate() {
                differences(&format!("{name}[{i}]"), before, now, found);
            }
        }
        _ => found.push(Difference { name: name.to_owned(), before, now }),
    }
}

/// A value in a few words.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "none".into(),
        Value::Array(values) => format!("{} entries", values.len()),
        Value::String(text) => text.clone(),
        // A number of single precision as it was written: 0.1, not 0.10000000149.
        Value::Number(number) if number.is_f64() => match number.as_f64().unwrap_or_default() {
            value if f64::from(value as f32) == value => (value as f32).to_string(),
            value => value.to_string(),
        },
        value => value.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
