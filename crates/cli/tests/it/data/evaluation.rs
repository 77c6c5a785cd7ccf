//! `campanile eval`: the scores that training reported, and predictions that bear them out.

use super::shop;
use crate::support::command::{Folder, has, json};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use std::fs::{self, File};

/// A model of the shop's log, which has vocabularies, and what training said of it.
struct Trained {
    folder: Folder,
    run: String,
    held_out: String,
    labels: Vec<f32>,
    result: Value,
}

impl Trained {
    fn new() -> Self {
        let folder = Folder::new();
        let schema = folder.write("schema.toml", shop::schema());
        let train = folder.write("train.csv", shop::text(&shop::rows(0..3000), ','));
        let rows = shop::rows(3000..4001);
        let held_out = folder.write("eval.csv", shop::text(&rows, ','));
        let run = folder.path("run");
        let files = ["--format", "csv", "--schema", &schema, "--data", &train, "--eval", &held_out];
        let size = ["--dim", "8", "--batch", "128", "--out", &run, "--json"];
        let result = json(&[&["train"], &files[..], &size].concat());
        let labels = rows.iter().map(|row| f32::from(u8::from(row.clicked))).collect();
        Self { folder, run, held_out, labels, result }
    }

    fn eval(&self, args: &[&str]) -> Value {
        json(&[&["eval", "--checkpoint", &self.run, "--json"], args].concat())
    }
}

/// The share of pairs of a click and no click in which the click was found more probable; half for a tie.
fn naive_auc(predictions: &[(f32, f32)]) -> f64 {
    let of = |label: f32| predictions.iter().filter(move |p| p.0 == label).map(|p| p.1);
    let (mut wins, mut pairs) = (0.0, 0.0);
    for click in of(1.0) {
        for other in of(0.0) {
            pairs += 1.0;
            wins += if click > other { 1.0 } else { f64::from(u8::from(click == other)) / 2.0 };
        }
    }
    wins / pairs
}

fn read_csv(path: &str) -> Vec<(f32, f32)> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("label,probability"));
    let row = |line: &str| line.split_once(',').map(|(l, p)| (l.parse().unwrap(), p.parse().unwrap()));
    lines.map(|line| row(line).unwrap()).collect()
}

/// For each click, the share of clicks among samples with at least its probability; the mean of those.
fn naive_pr_auc(predictions: &[(f32, f32)]) -> f64 {
    let clicks: Vec<f32> = predictions.iter().filter(|(label, _)| *label == 1.0).map(|(_, p)| *p).collect();
    let above = |all: &mut dyn Iterator<Item = f32>, p: f32| all.filter(|other| *other >= p).count() as f64;
    let precision =
        |&p: &f32| above(&mut clicks.iter().copied(), p) / above(&mut predictions.iter().map(|(_, p)| *p), p);
    clicks.iter().map(precision).sum::<f64>() / clicks.len() as f64
}

fn read_parquet(path: &str) -> Vec<(f32, f32)> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| (row.get_float(0).unwrap(), row.get_float(1).unwrap())).collect()
}

#[test]
fn eval_repeats_what_training_reported() {
    let trained = Trained::new();
    has(&trained.result, "auc pr_auc logloss ne accuracy calibration eval_samples");
    // What the run was evaluated on; the same, named; the same, on other numbers of ranks and with other batches.
    let again: [&[&str]; 4] = [
        &[],
        &["--data", &trained.held_out],
        &["--hosts", "2", "--ranks-per-host", "2"],
        &["--ranks-per-host", "3", "--batch", "97"],
    ];
    for args in again {
        let scores = trained.eval(args);
        has(&scores, "click_rate mean_prediction step checkpoint bins");
        assert_eq!(scores["samples"], 1001);
        for key in ["auc", "pr_auc", "logloss"] {
            assert_eq!(scores[key], trained.result[key], "{key} with {args:?}");
        }
    }
}

#[test]
fn predictions_bear_out_the_score() {
    let trained = Trained::new();
    let (csv, parquet) = (trained.folder.path("p.csv"), trained.folder.path("p.parquet"));
    let files = ["--data", &trained.held_out, "--predictions"];
    let scores = trained.eval(&[&files[..], &[&csv]].concat());
    let auc = scores["auc"].as_f64().unwrap();
    trained.eval(&[&files[..], &[&parquet]].concat());
    let predictions = read_csv(&csv);
    assert_eq!(predictions, read_parquet(&parquet));
    assert_eq!(predictions.iter().map(|p| p.0).collect::<Vec<_>>(), trained.labels);
    let naive = naive_auc(&predictions);
    assert!((naive - auc).abs() < 1e-12, "{naive} by pairs, {auc} reported");
    let (naive, pr_auc) = (naive_pr_auc(&predictions), scores["pr_auc"].as_f64().unwrap());
    assert!((naive - pr_auc).abs() < 1e-12, "{naive} by clicks, {pr_auc} reported");
    let logloss = |&(label, p): &(f32, f32)| -f64::from(if label == 1.0 { p } else { 1.0 - p }).ln();
    let mean = predictions.iter().map(logloss).sum::<f64>() / predictions.len() as f64;
    assert!((mean - trained.result["logloss"].as_f64().unwrap()).abs() < 1e-6, "a loss of {mean}");
}

/// Rows of a vocabulary are those of the training log: a log to score brings ids in another order, and new ones.
#[test]
fn predictions_belong_to_samples_and_not_to_their_log() {
    let trained = Trained::new();
    let predict = |log: &str, name: &str| {
        let path = trained.folder.path(name);
        trained.eval(&["--data", log, "--predictions", &path]);
        read_csv(&path)
    };
    let whole = predict(&trained.held_out, "whole.csv");
    let mut rows = shop::rows(3000..4001);
    rows.reverse();
    rows.truncate(300);
    let mut expected = whole;
    expected.reverse();
    expected.truncate(300);
    let log = trained.folder.write("reversed.csv", shop::text(&rows, ','));
    assert_eq!(predict(&log, "reversed.csv.predictions"), expected);

    let text = fs::read_to_string(&log).unwrap();
    let with_bad_line = text.replacen('\n', "\n1,1\n", 1);
    let log = trained.folder.write("bad.csv", with_bad_line);
    let path = trained.folder.path("bad.predictions");
    // One of 301 lines is less than the hundredth that is put up with.
    trained.eval(&["--data", &log, "--predictions", &path]);
    assert_eq!(read_csv(&path), expected);
}
