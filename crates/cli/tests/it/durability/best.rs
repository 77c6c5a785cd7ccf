//! A model that learns its training rows by heart: the best state is what other commands take, and a run of little patience
//! stops.

use super::command::{Ended, campanile, names, resume, text};
use super::logs::mixed;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// A log whose users are almost all different, so that learning them by heart does not help, and its schema.
fn log(folder: &Path) -> Vec<String> {
    let mut rows = String::from("clicked,user,item\n");
    for row in 0..700 {
        let at = mixed(row);
        let item = at % 10;
        let clicked = u8::from(mixed(at) % 10 < if item < 5 { 8 } else { 2 });
        writeln!(rows, "{clicked},u{},i{item}", mixed(at ^ 7) % 300).unwrap();
    }
    let (data, schema) = (folder.join("log.csv"), folder.join("schema.toml"));
    fs::write(&data, rows).unwrap();
    let columns =
        "[[sparse]]\ncolumn = \"user\"\nrows = 300\n[[sparse]]\ncolumn = \"item\"\nids = \"vocabulary\"\n";
    fs::write(&schema, format!("label = {{ column = \"clicked\" }}\n{columns}")).unwrap();
    let all = ["--format", "csv", "--schema", text(&schema), "--data", text(&data), "--split", "0.4"];
    let rest =
        ["--batch", "64", "--dim", "8", "--optimizer", "adam", "--lr", "0.05", "--ranks-per-host", "1"];
    all.iter().chain(&rest).map(|&arg| arg.to_owned()).collect()
}

fn train(log: &[String], out: &Path, more: &[&str]) -> Ended {
    let log: Vec<&str> = log.iter().map(String::as_str).collect();
    campanile(&[&["train", "--hosts", "1", "--out", text(out)], &log[..], more].concat())
}

fn step_folder(run: &Path, step: u64) -> PathBuf {
    run.join(format!("checkpoints/step-{step:012}"))
}

#[test]
fn other_commands_take_the_best_unless_they_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (log, run) = (log(folder.path()), folder.path().join("run"));
    let ended = train(&log, &run, &["--epochs", "8", "--keep", "1", "--json"]);
    let result = ended.json();
    let best = &result["best"];
    let (step, last) = (best["step"].as_u64().unwrap(), result["steps"].as_u64().unwrap());
    assert!(step < last && best["value"].as_f64() > result["auc"].as_f64(), "no overfitting: {result}");
    assert_eq!((&best["metric"], &best["metrics"]["auc"]), (&"auc".into(), &best["value"]));
    assert_eq!(best["checkpoint"], text(&step_folder(&run, step)));
    assert_eq!(names(&run.join("checkpoints")).len(), 2);
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["best"], *best);
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert!(metrics.lines().last().unwrap().contains("\"best\":{\"metric\":\"auc\""), "{metrics}");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Best AUC") && page.contains("best AUC</text>"));

    let eval = |of: &Path, more: &[&str]| {
        campanile(&[&["eval", "--ranks-per-host", "1", "--checkpoint", text(of)], more].concat())
    };
    let taken = |more: &[&str]| {
        let result = eval(&run, &[more, &["--json"]].concat()).json();
        (result["step"].as_u64().unwrap(), result["used"].as_str().unwrap().to_owned(), result["auc"].clone())
    };
    assert_eq!(taken(&[]), (step, "best".into(), best["value"].clone()));
    assert_eq!(taken(&["--use", "best"]), taken(&[]));
    assert_eq!(taken(&["--use", "last"]), (last, "last".into(), result["auc"].clone()));
    let said = eval(&run, &[]).out;
    assert!(said.contains(&format!("after step {step} (the best; the last is step {last})")), "{said}");
    let named = step_folder(&run, last);
    assert_eq!(eval(&named, &["--json"]).json()["step"], last);
    eval(&named, &["--use", "best"]).refused(&["a checkpoint itself", "leave --use out"]);

    let (data, out) = (folder.path().join("log.csv"), folder.path().join("out"));
    let predict =
        ["predict", "--checkpoint", text(&run), "--data", text(&data), "--out", text(&out), "--json"];
    assert_eq!(campanile(&predict).json()["step"], step);
    let export = ["checkpoint", "export", text(&run), "--out", text(&out), "--force", "--json"];
    assert_eq!(campanile(&export).json()["step"], step);
    assert_eq!(campanile(&[&export[..], &["--use", "last"]].concat()).json()["step"], last);

    // A run that is resumed goes on from its last step, and a damaged best is not used in silence.
    let again = resume(&run, &[]);
    assert!(again.err.contains("is complete"), "{}", again.err);
    assert_eq!(again.json()["best"], *best);
    resume(&run, &["--keep-best", "logloss"])
        .refused(&["train.keep_best: requested logloss, but the run has auc"]);
    fs::write(step_folder(&run, step).join("rank-0000.safetensors"), "no").unwrap();
    let damaged = eval(&run, &["--json"]);
    assert_eq!((damaged.json()["step"].as_u64(), damaged.err.contains("damaged")), (Some(last), true));
    eval(&run, &["--use", "best"]).refused(&["damaged"]);
}

#[test]
fn a_run_of_little_patience_stops_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (log, run) = (log(folder.path()), folder.path().join("run"));
    let ended = train(&log, &run, &["--epochs", "20", "--patience", "2", "--keep-best", "logloss"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let said = ended.out.lines().find(|line| line.contains("best logloss")).unwrap();
    assert!(said.ends_with("eval, predict and export use the best"), "{said}");
    let why = "2 evaluations without a better logloss";
    assert!(ended.out.contains(why), "{}", ended.out);
    assert!(fs::read_to_string(run.join("report.html")).unwrap().contains(why));
    let again = resume(&run, &[]);
    assert!(
        again.err.contains("stopped early after step") && again.err.contains("--patience 3"),
        "{}",
        again.err
    );
    let result = again.json();
    assert_eq!((&result["stopped_early"], &result["interrupted"]), (&true.into(), &false.into()));
    assert_eq!(result["stop_reason"], why);
    let (stopped, best) = (result["steps"].as_u64().unwrap(), result["best"]["step"].as_u64().unwrap());
    // 420 rows are 7 steps of 64.
    assert_eq!(stopped - best, 2 * 7, "{result}");
    let longer = resume(&run, &["--patience", "3"]).json();
    assert!(longer["steps"].as_u64() > Some(stopped), "{longer}");

    // What needs evaluations, a metric or a folder says so.
    let none = folder.path().join("none");
    let refused = |more: &[&str], parts: &[&str]| train(&log, &none, more).refused(parts);
    refused(&["--patience", "2"], &["train.patience (--patience)", "--eval-every"]);
    refused(&["--epochs", "2", "--patience", "2", "--keep-best", "none"], &["--keep-best auc"]);
    let usage = train(&log, &none, &["--keep-best", "calibration"]);
    assert_eq!(usage.code, Some(2), "{usage:?}");
    assert!(usage.err.contains("calibration has no best value; use one of auc"), "{}", usage.err);
    let log: Vec<&str> = log.iter().map(String::as_str).collect();
    let unkept = campanile(&[&["train", "--hosts", "1", "--epochs", "8"], &log[..]].concat());
    assert!(unkept.out.contains("the best was not kept: pass --out DIR to keep it"), "{}", unkept.out);
}
