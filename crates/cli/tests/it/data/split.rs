//! `--split`: which rows are kept from training, and that nothing of them gets into it.

use super::{shop, shop_parquet};
use crate::support::command::{Folder, has, json, json_and_warnings, refused_with};
use serde_json::Value;
use std::fs;

const SMALL: [&str; 5] = ["--dim", "8", "--batch", "64", "--json"];

/// The shop's log as a header and lines.
fn lines(rows: std::ops::Range<u64>) -> (String, Vec<String>) {
    let text = shop::text(&shop::rows(rows), ',');
    let mut lines = text.lines().map(ToOwned::to_owned);
    let header = lines.next().unwrap();
    (header, lines.collect())
}

fn joined(header: &str, lines: &[String]) -> String {
    format!("{header}\n{}\n", lines.join("\n"))
}

fn train(args: &[&str]) -> (Value, String) {
    json_and_warnings(&[&["train", "--format", "csv"], args, &SMALL].concat())
}

fn same(one: &Value, other: &Value) {
    for key in ["parameters_sha256", "auc", "logloss", "eval_samples"] {
        assert!(!one[key].is_null());
        assert_eq!(one[key], other[key], "{key}");
    }
}

/// The digest, the vocabularies in it, and the score are those of a log that was cut by hand.
#[test]
fn the_last_rows_are_held_out_where_the_order_is_time() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", format!("in_time_order = true\n{}", shop::schema()));
    let (header, lines) = lines(0..1200);
    let all = folder.write("all.csv", joined(&header, &lines));
    let first = folder.write("first.csv", joined(&header, &lines[..1080]));
    let last = folder.write("last.csv", joined(&header, &lines[1080..]));
    let (by_hand, said) = train(&["--schema", &schema, "--data", &first, "--eval", &last]);
    assert!(said.contains("rows are in time order: not shuffled; --shuffle N shuffles"), "{said}");
    let (split, said) = train(&["--schema", &schema, "--data", &all, "--split", "0.1"]);
    let line = "evaluating on the last 10 % of the rows: 120 of 1,200, by the order of the log";
    assert!(said.lines().any(|said| said == line), "{said}");
    same(&split, &by_hand);
    // The same by `data prepare`.
    let out = folder.path("prepared");
    let prepare = ["data", "prepare", "--format", "csv", "--schema", &schema, "--data", &all, "--out", &out];
    let prepared = json(&[&prepare[..], &["--split", "0.1", "--json"]].concat());
    has(&prepared, "folder samples clicks bytes_read bytes_written");
    assert_eq!((&prepared["train"]["samples"], &prepared["eval"]["samples"]), (&1080.into(), &120.into()));
    let (parts, whole) =
        ((format!("{out}/train"), format!("{out}/eval")), [&prepare[..], &["--split", "0.2"]].concat());
    same(&json(&[&["train", "--data", &parts.0, "--eval", &parts.1], &SMALL[..]].concat()), &by_hand);
    assert!(crate::support::command::campanile(&whole).status.success(), "its own folders are written again");
    refused_with(&prepare, &[&out, "holds something else"]);
    refused_with(&["train", "--data", &out], &[&out, "--data FOLDER/train", "--eval FOLDER/eval"]);
}

#[test]
fn the_latest_rows_are_held_out_by_a_column_of_time() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let (header, mut ordered) = lines(0..600);
    // The column `session` counts up; two rows do not say when they were.
    for line in &mut ordered[7..9] {
        let cut = line.rfind(',').unwrap();
        line.truncate(cut + 1);
    }
    let mut mixed = ordered.clone();
    mixed.rotate_left(250);
    mixed.reverse();
    let late =
        |line: &String| line.rsplit(',').next().unwrap().parse::<u64>().is_ok_and(|session| session >= 540);
    let (eval, kept): (Vec<String>, Vec<String>) = mixed.iter().cloned().partition(late);
    let all = folder.write("all.csv", joined(&header, &mixed));
    let first = folder.write("first.csv", joined(&header, &kept));
    let last = folder.write("last.csv", joined(&header, &eval));
    let (by_hand, said) = train(&["--schema", &schema, "--data", &first, "--eval", &last]);
    assert!(said.contains("in no order of time: shuffled in every epoch"), "{said}");
    let (split, said) =
        train(&["--schema", &schema, "--data", &all, "--split", "0.1", "--split-by", "session"]);
    let line = "evaluating on the latest 10 % of the rows: 60 of 600, by the times in column \"session\"; 2 rows without a \
                time are trained on";
    assert!(said.lines().any(|said| said == line), "{said}");
    same(&split, &by_hand);
    // The column may stand in the schema.
    let timed = folder.write("timed.toml", format!("time = \"session\"\n{}", shop::schema()));
    same(&train(&["--schema", &timed, "--data", &all, "--split", "0.1"]).0, &by_hand);
    let flags = ["train", "--format", "csv", "--schema", &schema, "--data", &all];
    refused_with(
        &[&flags[..], &["--split", "0.1", "--split-by", "visited"]].concat(),
        &["--split-by visited", "order is not"],
    );
    refused_with(
        &[&flags[..], &["--split", "0.1", "--split-by", "when"]].concat(),
        &[&all, "no column `when`"],
    );
}

/// Rows are drawn by their numbers: the same ones for every seed and format, and neither few nor many.
#[test]
fn rows_are_drawn_where_nothing_says_when_they_were() {
    let folder = Folder::new();
    let rows = shop::rows(0..1500);
    let schema = folder.write("schema.toml", shop::schema());
    let lists = folder.write("lists.toml", shop::schema_with_lists());
    let csv = folder.write("all.csv", shop::text(&rows, ','));
    let parquet = folder.path("all.parquet");
    shop_parquet::write(&rows, &parquet);
    let mut held_out = vec![];
    for seed in ["0", "7"] {
        let run = folder.path(&format!("run{seed}"));
        let args = ["--schema", &schema, "--data", &csv, "--split", "0.2", "--seed", seed, "--out", &run];
        let (result, said) = train(&args);
        let eval = result["eval_samples"].as_u64().unwrap();
        assert!((220..380).contains(&eval), "{eval} of 1500");
        assert!(said.contains("drawn by a hash of row numbers"), "{said}");
        held_out.push(fs::read(format!("{run}/prepared/eval/samples.bin")).unwrap());
        let other =
            ["train", "--format", "parquet", "--schema", &lists, "--data", &parquet, "--split", "0.2"];
        same(&json(&[&other[..], &["--seed", seed], &SMALL].concat()), &result);
        // What was held out is what `eval` scores.
        same_scores(&json(&["eval", "--checkpoint", &run, "--json"]), &result);
    }
    assert_eq!(held_out[0], held_out[1]);
}

fn same_scores(scores: &Value, result: &Value) {
    assert_eq!((&scores["auc"], &scores["samples"]), (&result["auc"], &result["eval_samples"]));
}

#[test]
fn a_run_goes_on_with_the_split_it_had() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("all.csv", shop::text(&shop::rows(0..600), ','));
    let run = folder.path("run");
    let once = ["--schema", &schema, "--data", &csv, "--split", "0.25", "--epochs", "1"];
    let (first, _) = train(&[&once[..], &["--out", &run]].concat());
    let samples = format!("{run}/prepared/train/samples.bin");
    let written = fs::metadata(&samples).unwrap().modified().unwrap();
    let resume = ["train", "--resume", &run, "--json"];
    let (second, said) = json_and_warnings(&[&resume[..], &["--epochs", "2"]].concat());
    assert_eq!(second["eval_samples"], first["eval_samples"]);
    assert!(said.contains("evaluating on 25 % of the rows"), "{said}");
    assert_eq!(fs::metadata(&samples).unwrap().modified().unwrap(), written, "nothing was prepared again");
    // Another split is another training log.
    refused_with(
        &[&resume[..], &["--epochs", "3", "--split", "0.5"]].concat(),
        &["data.split (--split)", "0.5", "0.25"],
    );
    json(&[&resume[..], &["--epochs", "3"]].concat());
    // A damaged log says how to get a sound one.
    let mut bytes = fs::read(&samples).unwrap();
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    fs::write(&samples, bytes).unwrap();
    let prepared = format!("{run}/prepared");
    let more = [&resume[..], &["--epochs", "4"]].concat();
    refused_with(&more, &[&samples, "is damaged", &format!("delete {prepared}")]);
    fs::remove_dir_all(&prepared).unwrap();
    json(&more);
}

#[test]
fn splits_that_cannot_be_made_are_refused() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..50), ','));
    let two = folder.write("two.csv", shop::text(&shop::rows(0..2), ','));
    let out = folder.path("prepared");
    json(&[
        "data", "prepare", "--format", "csv", "--schema", &schema, "--data", &csv, "--out", &out, "--json",
    ]);
    let on = |data, more: &[&'static str]| {
        let args = ["train", "--format", "csv", "--schema", schema.as_str(), "--data", data];
        args.into_iter().chain(more.iter().copied()).map(ToOwned::to_owned).collect::<Vec<String>>()
    };
    let cases: Vec<(Vec<String>, Vec<&str>)> = vec![
        (on(&csv, &["--split", "1"]), vec!["--split", "between 0 and 1"]),
        (on(&csv, &["--split", "0"]), vec!["--split", "between 0 and 1"]),
        (on(&csv, &["--split", "nan"]), vec!["--split", "between 0 and 1"]),
        (on(&csv, &["--split", "0.1", "--eval", "x.csv"]), vec!["--split", "--eval"]),
        (on(&csv, &["--split-by", "session"]), vec!["--split-by", "--split 0.1"]),
        (on(&two, &["--split", "0.0001"]), vec![&two, "leaves none of the 2 samples to evaluate on"]),
        (["train", "--split", "0.1"].map(Into::into).to_vec(), vec!["--split", "synthetic"]),
        (
            ["train", "--data", &out, "--split", "0.1"].map(Into::into).to_vec(),
            vec!["--split", "data prepare --split 0.1 --out DIR"],
        ),
    ];
    for (args, expected) in cases {
        refused_with(&args.iter().map(String::as_str).collect::<Vec<_>>(), &expected);
    }
}
