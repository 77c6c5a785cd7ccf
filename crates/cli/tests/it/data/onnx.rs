//! `campanile checkpoint export --format onnx` and `campanile data rows`: onnxruntime gives the predictions of this program.

use super::{criteo, shop};
use crate::support::command::{Folder, json, json_and_warnings, refused_with, repository};
use crate::support::python::{python_with, run};
use liblzma::read::XzDecoder;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};

/// Rows that are scored.
const ROWS: usize = 2000;

/// Compares the probabilities that onnxruntime gives with those of a file, and prints the largest difference and their number. Batches
/// of several sizes must give the same.
const COMPARE: &str = "
import sys, csv, numpy, onnxruntime
model, rows, scores = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=['CPUExecutionProvider'])
inputs = dict(numpy.load(rows))
probability, = session.run(None, inputs)
first, = session.run(None, {name: array[:7] for name, array in inputs.items()})
expected = numpy.array([float(row['probability']) for row in csv.DictReader(open(scores))], dtype=numpy.float32)
assert probability.shape == expected.shape and first.shape == (7,), (probability.shape, expected.shape)
assert numpy.std(expected) > 1e-3, 'all probabilities are alike'
print(max(abs(probability - expected).max(), abs(first - expected[:7]).max()), len(expected))
";

/// A trained run, and a log to score.
struct Case {
    folder: Folder,
    run: String,
    log: String,
}

impl Case {
    /// Trains on the first lines of a real log, and scores the first 2,000 of them.
    fn criteo(more: &[&str]) -> Option<Self> {
        let real = criteo::real("criteo_kaggle_117k.tsv.xz")?;
        let folder = Folder::new();
        let lines = BufReader::new(XzDecoder::new(File::open(real).unwrap())).lines();
        let lines: Vec<String> = lines.take(3 * ROWS).map(|line| line.unwrap() + "\n").collect();
        let log = folder.write("log.tsv", lines[..ROWS].concat());
        let train = folder.write("train.tsv", lines.concat());
        let run = folder.path("run");
        let files =
            ["train", "--format", "criteo-tsv", "--preset", "kaggle", "--data", &train, "--out", &run];
        let size = ["--rows-cap", "2000", "--batch", "256", "--epochs", "2", "--json"];
        json(&[&files[..], &size, more].concat());
        Some(Self { folder, run, log })
    }

    /// Trains on the shop's log, which has bags of ids, with weights and without.
    fn shop(more: &[&str]) -> Self {
        let folder = Folder::new();
        let schema = folder.write("schema.toml", shop::schema());
        let train = folder.write("train.csv", shop::text(&shop::rows(0..2000), ','));
        let log = folder.write("new.csv", shop::text(&shop::rows(3000..3000 + ROWS as u64), ','));
        let run = folder.path("run");
        let files = ["--format", "csv", "--schema", &schema, "--data", &train, "--out", &run];
        json(&[&["train"], &files[..], &["--dim", "8", "--batch", "128", "--json"], more].concat());
        Self { folder, run, log }
    }

    /// Exports the model, and asserts that onnxruntime predicts what this program does.
    fn agrees(&self, export: &[&str]) {
        let [model, rows, scores] =
            ["model.onnx", "rows.npz", "scores.csv"].map(|name| self.folder.path(name));
        let Self { run: trained, log, .. } = self;
        let flags = ["checkpoint", "export", trained, "--format", "onnx", "--out", &model, "--json"];
        let exported = json(&[&flags[..], export].concat());
        assert_eq!(exported["data"].is_null(), export.is_empty(), "{exported}");
        let Some(python) = python_with("numpy, onnxruntime") else { return };
        let written =
            json(&["data", "rows", "--checkpoint", trained, "--data", log, "--out", &rows, "--json"]);
        assert_eq!((&written["samples"], &written["bad_lines"]), (&ROWS.into(), &0.into()));
        json(&["predict", "--checkpoint", trained, "--data", log, "--out", &scores, "--json"]);
        let said = run(&python, COMPARE, &[&model, &rows, &scores]);
        let (difference, count) = said.trim().split_once(' ').unwrap();
        assert!(difference.parse::<f64>().unwrap() < 1e-6, "{difference} apart");
        assert_eq!(count, ROWS.to_string());
    }
}

/// Models of Criteo's log by name, with the flags that make them.
const MODELS: [(&str, &[&str]); 7] = [
    ("dlrm", &["--model", "dlrm"]),
    ("dcn", &["--model", "dcn"]),
    ("deepfm", &["--model", "deepfm"]),
    ("dmt-dlrm", &["--model", "dlrm", "--towers", "strided:4", "--tower-module", "dlrm:c=1,p=1,d=8"]),
    ("dmt-dcn", &["--model", "dcn", "--towers", "strided:4", "--tower-module", "dcn:d=8"]),
    ("f16", &["--model", "dlrm", "--tables", "f16"]),
    ("bf16", &["--model", "dcn", "--tables", "bf16"]),
];

fn model(name: &str) {
    let (_, flags) = MODELS.iter().find(|(known, _)| *known == name).unwrap();
    if let Some(case) = Case::criteo(flags) {
        case.agrees(&[]);
    }
}

#[test]
fn onnxruntime_gives_the_predictions_of_a_dlrm() {
    model("dlrm");
}

#[test]
fn onnxruntime_gives_the_predictions_of_a_dcn() {
    model("dcn");
}

#[test]
fn onnxruntime_gives_the_predictions_of_a_deepfm() {
    model("deepfm");
}

#[test]
fn onnxruntime_gives_the_predictions_of_a_dmt_dlrm() {
    model("dmt-dlrm");
}

#[test]
fn onnxruntime_gives_the_predictions_of_a_dmt_dcn() {
    model("dmt-dcn");
}

#[test]
fn tables_of_16_bits_keep_their_type() {
    for name in ["f16", "bf16"] {
        let (_, flags) = MODELS.iter().find(|(known, _)| *known == name).unwrap();
        let Some(case) = Case::criteo(flags) else { return };
        case.agrees(&[]);
        let (model, whole) = (case.folder.path("model.onnx"), case.folder.path("whole.onnx"));
        // A table of half the bytes is seen in the size of the file.
        let wide = Case::criteo(&flags[..2]).unwrap();
        json(&["checkpoint", "export", &wide.run, "--format", "onnx", "--out", &whole, "--json"]);
        let size = |path: &str| fs::metadata(path).unwrap().len();
        let tables = json(&["checkpoint", "inspect", &case.run, "--json"]);
        let numbers = tables["tensors"].as_array().unwrap().iter().filter(|t| {
            let name = t["name"].as_str().unwrap();
            name.starts_with("tables.")
        });
        let numbers: u64 = numbers
            .map(|t| t["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product::<u64>())
            .sum();
        assert!(size(&model) + 2 * numbers <= size(&whole) + 4096, "{name}: tables were expanded");
    }
}

#[test]
fn onnxruntime_gives_the_predictions_of_bags_with_weights() {
    Case::shop(&[]).agrees(&[]);
}

#[test]
fn weights_may_lie_in_a_file_of_their_own() {
    let case = Case::shop(&["--model", "dcn"]);
    case.agrees(&["--external-data"]);
}

#[test]
fn bad_lines_are_left_out_of_rows_and_told() {
    let case = Case::shop(&["--epochs", "1"]);
    let text = fs::read_to_string(&case.log).unwrap();
    let mut lines: Vec<&str> = text.lines().take(11).collect();
    let bad = lines[5].replacen(',', ",soon,", 1);
    lines[5] = &bad;
    let log = case.folder.write("bad.csv", lines.join("\n") + "\n");
    let out = case.folder.path("bad.npz");
    let asked = ["data", "rows", "--checkpoint", &case.run, "--data", &log, "--out", &out, "--json"];
    let (written, said) = json_and_warnings(&asked);
    assert_eq!(
        (&written["rows"], &written["samples"], &written["bad_lines"]),
        (&10.into(), &9.into(), &1.into())
    );
    assert_eq!(written["arrays"]["dense"], serde_json::json!([9, 2]));
    assert_eq!(written["arrays"]["rows.user"], serde_json::json!([9]));
    assert!(said.contains("bad.csv") && said.contains("6"), "{said}");
    refused_with(&[&asked[..], &["--force", "--strict"]].concat(), &["bad.csv"]);
    refused_with(&asked, &["--force"]);
}

#[test]
fn what_onnx_cannot_hold_is_refused() {
    let missing = repository("nowhere");
    let missing = missing.to_str().unwrap();
    let asked = ["checkpoint", "export", missing, "--out", "model.onnx"];
    refused_with(
        &[&asked[..], &["--format", "onnx", "--optimizer"]].concat(),
        &["--optimizer", "safetensors"],
    );
    refused_with(&[&asked[..], &["--external-data"]].concat(), &["--external-data", "--format onnx"]);
    refused_with(&[&asked[..], &["--format", "onnx"]].concat(), &["nowhere"]);
}
