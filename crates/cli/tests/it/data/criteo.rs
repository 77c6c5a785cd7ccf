//! Criteo's own lines. `CAMPANILE_DATA` names the folder they lie in, else it is `shared/data` beside the repository;
//! without them these tests say so and pass.

use crate::support::command::{Folder, json, repository};
use crate::support::skipped::skipped;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

pub fn real(name: &str) -> Option<String> {
    let folder = std::env::var_os("CAMPANILE_DATA").map_or(repository("../shared/data"), PathBuf::from);
    let path = folder.join(name);
    if !path.is_file() {
        skipped("data", &format!("{} is not there; name its folder with CAMPANILE_DATA", path.display()));
        return None;
    }
    Some(path.to_str().unwrap().to_owned())
}

/// Trains for 30 steps, and gives the losses on the way.
fn losses(data: &str) -> Vec<f64> {
    let folder = Folder::new();
    let run = folder.path("run");
    let files = ["train", "--format", "criteo-tsv", "--preset", "kaggle", "--data", data, "--out", &run];
    let size = ["--rows-cap", "10000", "--batch", "256", "--steps", "30", "--json"];
    assert_eq!(json(&[&files[..], &size].concat())["steps"], 30);
    let metrics = fs::read_to_string(format!("{run}/metrics.jsonl")).unwrap();
    let records = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .filter(|record| record["event"] == "train")
        .map(|record| record["loss"].as_f64().unwrap())
        .collect()
}

fn learns(name: &str) {
    let Some(data) = real(name) else { return };
    let losses = losses(&data);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(losses.len() >= 10, "{losses:?}");
    let (first, last) = (mean(&losses[..5]), mean(&losses[losses.len() - 5..]));
    assert!(last < first - 0.03, "{name}: {first} at first, {last} at last");
}

#[test]
fn kaggle_lines_are_learnt() {
    learns("criteo_kaggle_117k.tsv.xz");
}

#[test]
fn terabyte_lines_are_learnt() {
    learns("criteo_terabyte_day0_10k.tsv.gz");
}
