//! `campanile data inspect`: counts that can be counted again, and a config that trains.

use super::{shop, shop_parquet};
use crate::support::command::{Folder, json, refused_with};
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

fn inspected(folder: &Folder, rows: &[shop::Row]) -> Value {
    let schema = folder.write("schema.toml", shop::schema());
    let log = folder.write("log.csv", shop::text(rows, ','));
    json(&["data", "inspect", "--format", "csv", "--schema", &schema, "--data", &log, "--json"])
}

#[test]
fn counts_are_those_of_the_log() {
    let (folder, rows) = (Folder::new(), shop::rows(0..2000));
    let value = inspected(&folder, &rows);
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

/// However a missing id is written, it is one id, and its text is the empty one.
#[test]
fn a_missing_id_is_named_too() {
    let (folder, mut rows) = (Folder::new(), shop::rows(0..200));
    // Every other line, where missing is written as NA.
    rows.iter_mut().skip(1).step_by(2).for_each(|row| row.user = None);
    rows.iter_mut().step_by(2).for_each(|row| row.user = Some("u1".into()));
    rows[0].user = Some("u2".into());
    let value = inspected(&folder, &rows);
    let user = column(&value["inspection"], "sparse", "user");
    assert_eq!((&user["hottest"][0]["text"], &user["hottest"][0]["count"]), (&"".into(), &100.into()));
}

/// Trains with the config that `inspect` suggests for a log.
fn suggestion_trains(folder: &Folder, format: &str, log: &str, more: &[&str]) {
    let inspect = ["data", "inspect", "--json", "--format", format, "--data", log];
    let value = json(&[&inspect[..], more].concat());
    let mut config: toml::Table = value["suggested_config"].as_str().unwrap().parse().unwrap();
    config["data"]["train"] = vec![log.to_owned()].into();
    let config = folder.write("run.toml", config.to_string());
    let result = json(&["train", &config, "--dim", "8", "--batch", "64", "--steps", "3", "--json"]);
    assert_eq!(result["steps"], 3, "{format}");
}

#[test]
fn the_suggested_config_trains() {
    let (folder, rows) = (Folder::new(), shop::rows(0..500));
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", shop::text(&rows, ','));
    suggestion_trains(&folder, "csv", &csv, &["--schema", &schema]);

    let (lists, parquet) =
        (folder.write("lists.toml", shop::schema_with_lists()), folder.path("log.parquet"));
    shop_parquet::write(&rows, &parquet);
    suggestion_trains(&folder, "parquet", &parquet, &["--schema", &lists]);

    let out = folder.path("prepared");
    json(&[
        "data", "prepare", "--format", "csv", "--schema", &schema, "--data", &csv, "--out", &out, "--json",
    ]);
    suggestion_trains(&folder, "prepared", &out, &[]);

    let line = |n: u64| format!("{}\t{}{:x}{}\n", n % 2, "3\t".repeat(13), n % 9, "\t68fd1e64".repeat(25));
    let criteo = folder.write("log.tsv", (0..300).map(line).collect::<String>());
    suggestion_trains(&folder, "criteo-tsv", &criteo, &[]);
}

/// The share of lookups that the `most` most frequent ids take, and how many ids there are.
fn hot(counts: &HashMap<String, u64>, most: usize) -> f64 {
    let mut counts: Vec<u64> = counts.values().copied().collect();
    counts.sort_by_key(|&count| std::cmp::Reverse(count));
    counts.iter().take(most).sum::<u64>() as f64 / counts.iter().sum::<u64>() as f64
}

/// Statistics for a planner are those of the rows, whatever file they are in.
#[test]
fn statistics_are_those_of_the_log() {
    let (folder, rows) = (Folder::new(), shop::rows(0..2000));
    let schema = folder.write("schema.toml", shop::schema());
    let parts = [("part-1.csv", &rows[..700]), ("part-2.csv", &rows[700..])]
        .map(|(name, rows)| folder.write(name, shop::text(rows, ',')));
    let stats = folder.path("stats.json");
    let csv = ["data", "inspect", "--format", "csv", "--schema", &schema, "--data", &parts[0], &parts[1]];
    json(&[&csv[..], &["--stats", &stats, "--json"]].concat());
    let read = |path: &str| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let written = read(&stats);
    let tags = column(&written, "features", "tags");
    let counts = counted(rows.iter().flat_map(|row| row.tags.clone()));
    let total: u64 = counts.values().sum();
    let empty = rows.iter().filter(|row| row.tags.is_empty()).count();
    assert_eq!(written["samples"], 2000);
    assert_eq!(tags["mean_ids"].as_f64().unwrap(), total as f64 / 2000.0);
    assert_eq!((tags["empty"].as_f64().unwrap(), &tags["max_ids"]), (empty as f64 / 2000.0, &3.into()));
    assert_eq!((&tags["distinct_ids"], &tags["distinct_is_exact"]), (&counts.len().into(), &true.into()));
    let users = counted(rows.iter().map(|row| row.user.clone().unwrap_or_default()));
    for (name, counts) in [("tags", counts), ("user", users)] {
        let hottest = column(&written, "features", name)["hottest"].as_array().unwrap();
        assert!(hottest.len() >= 2, "{name}: {hottest:?}");
        for step in hottest {
            let expected = hot(&counts, step["ids"].as_u64().unwrap() as usize);
            assert_eq!(step["share"].as_f64().unwrap(), expected, "{name}: {step}");
        }
    }
    assert_eq!(column(&written, "features", "user")["rows"], 400, "as the schema says");

    // Columns that were found, and the same rows as Parquet and prepared.
    let (lists, parquet) =
        (folder.write("lists.toml", shop::schema_with_lists()), folder.path("log.parquet"));
    shop_parquet::write(&rows, &parquet);
    let found = folder.path("found.json");
    json(&["data", "inspect", "--data", &parts[0], &parts[1], "--stats", &found, "--json"]);
    let brand = |file: &Value| {
        let mut brand = column(file, "features", "brand").clone();
        brand.as_object_mut().unwrap().remove("rows");
        brand
    };
    assert_eq!(brand(&read(&found)), brand(&written));
    let of_parquet = folder.path("parquet.json");
    let inspect =
        ["data", "inspect", "--format", "parquet", "--schema", &lists, "--data", &parquet, "--json"];
    json(&[&inspect[..], &["--stats", &of_parquet]].concat());
    assert_eq!(read(&of_parquet)["features"][0], written["features"][0]);
    let out = folder.path("prepared");
    json(&[&["data", "prepare"], &csv[2..], &["--out", &out, "--json"]].concat());
    let of_prepared = folder.path("prepared.json");
    json(&["data", "inspect", "--data", &out, "--stats", &of_prepared, "--json"]);
    assert_eq!(read(&of_prepared)["features"][0], written["features"][0]);

    // No input and no file that is there is replaced.
    for (output, told) in [(&parts[0], "input"), (&schema, "input"), (&stats, "--force")] {
        refused_with(&[&csv[..], &["--stats", output]].concat(), &[output, told]);
    }
    refused_with(
        &["data", "inspect", "--data", &out, "--force", "--stats", &format!("{out}/manifest.json")],
        &["manifest.json"],
    );
}
