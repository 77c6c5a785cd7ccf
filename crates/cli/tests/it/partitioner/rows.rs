//! Which rows decide: training and validation rows choose towers, test rows judge them and nothing else.

use crate::support::command::{Folder, campanile, has, json};
use serde_json::Value;
use std::fs;

/// Samples as Criteo writes them, whose labels follow from two of their ids.
fn criteo(samples: std::ops::Range<usize>) -> String {
    let line = |at: usize| {
        let bits = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let id = |column: usize| (bits >> (column % 29)) % 5;
        let numbers: Vec<String> = (0..13).map(|column| id(column).to_string()).collect();
        let ids: Vec<String> = (0..26).map(|column| format!("{:08x}", id(column) + 10 * column)).collect();
        let label = usize::from((id(3) * id(17) + at % 2).is_multiple_of(3));
        format!("{label}\t{}\t{}\n", numbers.join("\t"), ids.join("\t"))
    };
    samples.map(line).collect()
}

const SMALL: &str = "--rows-cap 50 --dim 4 --batch 100 --hosts 1 --ranks-per-host 2 --threads 1 --json";

fn run(args: &[&str]) -> Value {
    json(&[args, &SMALL.split(' ').collect::<Vec<_>>()].concat())
}

/// Two logs to evaluate on: all that depends on them is what is said of the test rows.
#[test]
fn test_rows_decide_nothing() {
    let folder = Folder::new();
    let train = folder.write("train.tsv", criteo(0..1000));
    let tests = [folder.write("one.tsv", criteo(2000..2300)), folder.write("two.tsv", criteo(5000..5400))];
    let found: Vec<Value> = (0..2)
        .map(|at| {
            let (out, affinity) = (folder.path(&format!("towers-{at}")), folder.path(&format!("a{at}.json")));
            let found = run(&[
                "towers",
                "--data",
                &train,
                "--eval",
                &tests[at],
                "--towers=3",
                "--strategies=coherent,strided",
                "--out",
                &out,
            ]);
            // Affinity of a run needs no test rows: it is measured on what the run was trained on.
            fs::remove_file(&tests[at]).unwrap();
            let flat = format!("{out}/flat");
            let measured = campanile(&["affinity", "--checkpoint", &flat, "--out", &affinity]);
            assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
            found
        })
        .collect();
    for value in &found {
        has(value, "best towers tried flat auc_of test");
        assert!(value["auc_of"].as_str().unwrap().contains("last tenth of the training rows"), "{value}");
        assert_eq!(value["tried"][0]["auc_of"], "validation");
        assert_eq!(value["test"]["samples"], 1000, "the last run has all training rows");
    }
    let aucs = |value: &Value| {
        let tried = value["tried"].as_array().unwrap();
        tried.iter().map(|one| one["auc"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(aucs(&found[0]), aucs(&found[1]));
    assert_eq!((&found[0]["best"], &found[0]["towers"]), (&found[1]["best"], &found[1]["towers"]));
    assert_ne!(found[0]["test"]["auc"], found[1]["test"]["auc"]);
    let read = |name: &str| fs::read(folder.path(name)).unwrap();
    assert!(read("a0.json") == read("a1.json"), "affinity depends on the test rows");
    assert!(read("towers-0/affinity.json") == read("towers-1/affinity.json"));
    // Pilots learn from nine tenths.
    let summary = |name: &str| -> Value { serde_json::from_slice(&read(name)).unwrap() };
    assert_eq!(summary("towers-0/strided/summary.json")["eval_samples"], 100);
    assert_eq!(summary("towers-0/best/summary.json")["eval_samples"], 300);
}

/// The synthetic log has validation samples of its own; a log of fewer than ten samples has none to give.
#[test]
fn pilots_need_rows_to_choose_by() {
    let folder = Folder::new();
    let out = folder.path("few");
    let few = folder.write("few.tsv", criteo(0..9));
    let args = ["towers", "--data", &few, "--eval", &few, "--rows-cap", "50", "--dim", "4", "--out", &out];
    crate::support::command::refused_with(&args, &["9 samples", "a share of 0.1", "at least 10"]);
}
