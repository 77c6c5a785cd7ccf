//! One log in many formats: what is learnt depends on the samples alone.

use super::{categories, shop, shop_parquet};
use crate::support::command::{Folder, json};
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use serde_json::Value;
use std::io::Write;

const SMALL: &[&str] = &["--dim", "8", "--batch", "128", "--json"];

/// The digest of all parameters after training with these arguments.
fn digest(args: &[&str]) -> Value {
    let result = json(&[&["train"], args, SMALL].concat());
    assert_eq!(result["samples"], 1500, "{args:?}");
    result["parameters_sha256"].clone()
}

/// Asserts that a log trains to `expected`.
fn trains_to(expected: &Value, format: &str, schema: &str, data: &str) {
    assert_eq!(&digest(&["--format", format, "--schema", schema, "--data", data]), expected, "{data}");
}

#[test]
fn nineteen_categories_and_no_numbers_are_learnt() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", categories::schema());
    let train = folder.write("train.csv", categories::log(0..8000));
    let held_out = folder.write("eval.csv", categories::log(8000..10_000));
    let files = [
        "train", "--format", "csv", "--schema", &schema, "--data", &train, "--eval", &held_out, "--epochs",
        "2",
    ];
    let result = json(&[&files, SMALL].concat());
    assert_eq!((&result["samples"], &result["eval_samples"]), (&16_000.into(), &2000.into()));
    let auc = result["auc"].as_f64().unwrap();
    assert!(auc > 0.65, "AUC {auc}");
}

/// A log with everything a schema can say, and the digest of what is learnt from it as CSV.
struct Shop {
    folder: Folder,
    rows: Vec<shop::Row>,
    schema: String,
    csv: String,
    expected: Value,
}

impl Shop {
    fn new() -> Self {
        let (folder, rows) = (Folder::new(), shop::rows(0..1500));
        let schema = folder.write("schema.toml", shop::schema());
        let csv = folder.write("log.csv", shop::text(&rows, ','));
        let expected = digest(&["--format", "csv", "--schema", &schema, "--data", &csv]);
        Self { folder, rows, schema, csv, expected }
    }
}

#[test]
fn multi_hot_columns_are_learnt() {
    let Shop { folder, schema, .. } = Shop::new();
    let train = folder.write("train.csv", shop::text(&shop::rows(0..6000), ','));
    let held_out = folder.write("eval.csv", shop::text(&shop::rows(6000..8000), ','));
    let files = [
        "train", "--format", "csv", "--schema", &schema, "--data", &train, "--eval", &held_out, "--epochs",
        "2",
    ];
    let auc = json(&[&files, SMALL].concat())["auc"].as_f64().unwrap();
    assert!(auc > 0.65, "AUC {auc}");
}

/// Without this, equal digests would mean nothing.
#[test]
fn every_column_matters() {
    let Shop { folder, schema, expected, .. } = Shop::new();
    let changes: [fn(&mut shop::Row); 8] = [
        |row| row.price = Some(7.0),
        |row| row.age = None,
        |row| row.user = Some("u1".into()),
        |row| row.brand = "Acme".into(),
        |row| row.tags = vec!["tag 1".into()],
        |row| row.visited = vec![(1, Some(0.5))],
        |row| row.bought = vec![(1, 0.5)],
        |row| row.hour = 23 - row.hour,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut rows = shop::rows(0..1500);
        rows[3..8].iter_mut().for_each(change);
        let log = folder.write("changed.csv", shop::text(&rows, ','));
        let got = digest(&["--format", "csv", "--schema", &schema, "--data", &log]);
        assert_ne!(got, expected, "change {number} made no difference");
    }
}

#[test]
fn delimiters_and_compression_make_no_difference() {
    let Shop { folder, rows, schema, expected, .. } = Shop::new();
    let tabs = folder.write("tabs.toml", shop::schema_with_tabs());
    let text = shop::text(&rows, ',');
    trains_to(&expected, "csv", &tabs, &folder.write("log.tsv", shop::text(&rows, '\t')));
    trains_to(&expected, "csv", &schema, &folder.write("crlf.csv", text.replace('\n', "\r\n")));
    trains_to(&expected, "csv", &schema, &folder.write("no-end.csv", text.trim_end()));

    // Two members, as programs that append write them.
    let (first, second) = text.split_at(text.len() / 3);
    let member = |text: &str| {
        let mut gzip = GzEncoder::new(vec![], flate2::Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    let gzip = folder.write("log.csv.gz", [member(first), member(second)].concat());
    trains_to(&expected, "csv", &schema, &gzip);
    let mut xz = XzEncoder::new(vec![], 1);
    xz.write_all(text.as_bytes()).unwrap();
    trains_to(&expected, "csv", &schema, &folder.write("log.csv.xz", xz.finish().unwrap()));
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    trains_to(&expected, "csv", &schema, &folder.write("log.csv.zst", zstd));
}

#[test]
fn files_and_threads_make_no_difference() {
    let Shop { folder, rows, schema, csv, expected } = Shop::new();
    for (number, part) in rows.chunks(600).enumerate() {
        folder.write(&format!("part-{number}.csv"), shop::text(part, ','));
    }
    trains_to(&expected, "csv", &schema, &folder.path("part-*.csv"));
    for threads in ["1", "3"] {
        let args = ["--format", "csv", "--schema", &schema, "--data", &csv, "--threads", threads];
        assert_eq!(digest(&args), expected, "{threads} threads");
    }
}

#[test]
fn a_prepared_log_gives_the_same() {
    let Shop { folder, schema, csv, expected, .. } = Shop::new();
    let prepared = folder.path("prepared");
    let prepare =
        ["data", "prepare", "--format", "csv", "--schema", &schema, "--data", &csv, "--out", &prepared];
    assert_eq!(json(&[&prepare[..], &["--json"]].concat())["samples"], 1500);
    assert_eq!(digest(&["--format", "prepared", "--data", &prepared]), expected);
}

#[test]
fn parquet_gives_the_same() {
    let Shop { folder, rows, expected, .. } = Shop::new();
    let schema = folder.write("lists.toml", shop::schema_with_lists());
    let path = folder.path("log.parquet");
    shop_parquet::write(&rows, &path);
    trains_to(&expected, "parquet", &schema, &path);
}
