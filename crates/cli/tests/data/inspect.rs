//! `campanile data inspect`: counts that can be counted again, and a config that trains.

use crate::command::{Folder, json};
use crate::shop;
use serde_json::Value;
use std::collections::HashMap;

/// How often every id comes.
fn counted(ids: impl Iterator<Item = String>) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    ids.for_each(|id| *counts.entry(id).or_default() += 1);
    counts
}

fn column<'a>(inspection: &'a Value, kind: &str, name: &str) -> &'a Value {
    let mut columns = inspection[kind].as_array().unwrap().iter();
    columns.find(|column| column["name"] == name).unwrap()
}

fn inspected(folder: &Folder, rows: &[shop::Row]) -> (String, Value) {
    let schema = folder.write("schema.toml", shop::schema());
    let log = folder.write("log.csv", shop::text(rows, ','));
    let value = json(&["data", "inspect", "--format", "csv", "--schema", &schema, "--data", &log, "--json"]);
    (log, value)
}

#[test]
fn counts_are_those_of_the_log() {
    let (folder, rows) = (Folder::new(), shop::rows(0..2000));
    let (_, value) = inspected(&folder, &rows);
    let inspection = &value["inspection"];
    let clicks = rows.iter().filter(|row| row.clicked).count();
    assert_eq!((&inspection["samples"], &inspection["clicks"]), (&2000.into(), &clicks.into()));
    assert_eq!(inspection["click_rate"].as_f64().unwrap(), clicks as f64 / 2000.0);

    let age = column(inspection, "dense", "age");
    let ages = || rows.iter().map(|row| row.age.unwrap_or(30.0));
    assert_eq!(age["max"].as_f64().unwrap(), ages().fold(0.0, f64::max));
    assert!((age["mean"].as_f64().unwrap() - ages().sum::<f64>() / 2000.0).abs() < 1e-6);
    let price = column(inspection, "dense", "price");
    let missing = rows.iter().filter(|row| row.price.unwrap_or(0.0) == 0.0).count();
    assert_eq!(price["zeros"].as_f64().unwrap(), missing as f64 / 2000.0);

    let same = |name: &str, counts: HashMap<String, u64>| {
        let column = column(inspection, "sparse", name);
        let hottest = &column["hottest"][0];
        assert_eq!(hottest["count"].as_u64(), counts.values().max().copied(), "{name}");
        assert_eq!(
            hottest["count"].as_u64(),
            counts.get(hottest["text"].as_str().unwrap()).copied(),
            "{name}"
        );
        assert_eq!(column["distinct"], counts.len(), "{name}");
        assert_eq!(column["distinct_is_exact"], true, "{name}");
        assert!(column["suggested_rows"].as_u64().unwrap() >= counts.len() as u64, "{name}");
    };
    same("user", counted(rows.iter().map(|row| row.user.clone().unwrap_or_default())));
    same("brand", counted(rows.iter().map(|row| row.brand.clone())));
    same("tags", counted(rows.iter().flat_map(|row| row.tags.clone())));
    same("visited", counted(rows.iter().flat_map(|row| row.visited.iter().map(|(id, _)| id.to_string()))));
    same("hour", counted(rows.iter().map(|row| row.hour.to_string())));

    let tags = column(inspection, "sparse", "tags");
    let total: usize = rows.iter().map(|row| row.tags.len()).sum();
    let empty = rows.iter().filter(|row| row.tags.is_empty()).count();
    assert_eq!(tags["mean_ids"].as_f64().unwrap(), total as f64 / 2000.0);
    assert_eq!((&tags["max_ids"], tags["empty"].as_f64().unwrap()), (&3.into(), empty as f64 / 2000.0));
}

#[test]
fn the_suggested_config_trains() {
    let folder = Folder::new();
    let (log, value) = inspected(&folder, &shop::rows(0..2000));
    let mut config: toml::Table = value["suggested_config"].as_str().unwrap().parse().unwrap();
    config["data"]["train"] = vec![log].into();
    let config = folder.write("run.toml", config.to_string());
    assert_eq!(json(&["train", &config, "--dim", "8", "--steps", "3", "--json"])["steps"], 3);
}
