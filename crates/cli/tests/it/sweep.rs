//! `campanile sweep`: a search that can be killed, goes on, and never looks at rows to evaluate on.

use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn sweep(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.current_dir(folder).arg("sweep").args(arguments.split(' ')).output().unwrap()
}

fn json(output: &Output) -> Value {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"))
}

fn refused(folder: &Path, arguments: &str, parts: &[&str]) {
    let output = sweep(folder, arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{arguments}");
    for part in parts {
        assert!(err.contains(part), "{arguments}: {part:?} is missing in\n{err}");
    }
}

/// A log in the order of time, whose users click or do not.
fn log(rows: std::ops::Range<u64>) -> String {
    let mut text = String::new();
    for row in rows {
        let (user, item) = (row * 7 % 23, row * 5 % 17);
        let clicked = u8::from((user * 3 + item + row % 5).is_multiple_of(4));
        writeln!(text, "{row},u{user},i{item},{}.5,{clicked}", row % 11).unwrap();
    }
    text
}

const HEAD: &str = "seen,user,item,price,clicked\n";
const SCHEMA: &str = r#"
in_time_order = true
label = { column = "clicked" }
[[dense]]
column = "price"
[[sparse]]
column = "user"
ids = "vocabulary"
[[sparse]]
column = "item"
ids = "vocabulary"
"#;

/// What a table says, without times.
fn table(result: &Value) -> Vec<Value> {
    let fields = ["trial", "settings", "rung", "steps", "value", "parameters_sha256", "failed"];
    let rows = result["trials"].as_array().unwrap();
    rows.iter().map(|row| fields.iter().map(|field| row[field].clone()).collect()).collect()
}

const ASKED: &str = "--format csv --schema schema.toml --ranks-per-host 1 --hosts 1 --dim 4 --batch 32 --epochs 1 \
                     --set optimizer.peak=0.001..0.3:log --set model.top=[8,1],[4,1] --trials 4 --json -q";

#[test]
fn a_killed_sweep_goes_on_to_the_same_table_and_sees_no_row_to_evaluate_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows = log(0..600);
    std::fs::write(at.join("schema.toml"), SCHEMA).unwrap();
    std::fs::write(at.join("all.csv"), format!("{HEAD}{rows}")).unwrap();
    let cut: usize = rows.lines().take(540).map(|line| line.len() + 1).sum();
    std::fs::write(at.join("train.csv"), format!("{HEAD}{}", &rows[..cut])).unwrap();

    let asked = |data: &str, out: &str| format!("--data {data} {ASKED} --out {out}");
    let whole = json(&sweep(at, &asked("all.csv --split 0.1", "whole")));
    assert_eq!(whole["rungs"], 3);
    let ran = |rung: u64| whole["trials"].as_array().unwrap().iter().filter(|t| t["rung"] == rung).count();
    assert_eq!([ran(1), ran(2), ran(3)], [2, 1, 1]);
    assert_eq!(whole["best"]["trial"], whole["trials"][0]["trial"]);

    // Rows to evaluate on decide nothing: without any, the table is the same. The sweep is killed after some record, and started
    // again.
    let arguments = asked("train.csv", "killed");
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.current_dir(at).arg("sweep").args(arguments.split(' ')).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = |folder: &str| {
        std::fs::read_to_string(at.join(folder).join("records.jsonl")).map_or(0, |text| text.lines().count())
    };
    while lines("killed") < 4 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(table(&json(&sweep(at, &arguments))), table(&whole));

    // Records that are gone, a torn one among them, are made again, whatever states there are.
    let records = std::fs::read_to_string(at.join("whole/records.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 1 + 4 + 2 + 1, "a head, and a record for each finished rung");
    let kept = records.lines().take(1 + 4).collect::<Vec<_>>().join("\n");
    std::fs::write(at.join("whole/records.jsonl"), format!("{kept}\n{{\"trial\":")).unwrap();
    let output = sweep(at, "--resume whole --json");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains("4 result(s) are taken from whole/records.jsonl"), "{err}");
    assert!(err.contains("of 4, rung 2 of 3, best so far auc 0."), "{err}");
    assert_eq!(table(&json(&output)), table(&whole));
    assert_eq!(lines("whole"), records.lines().count());

    // The best setting is judged once, and the config to train with gives the same bits.
    let judged = json(&sweep(at, "--resume whole --final --json -q"));
    assert_eq!(judged["final"]["samples"], 60);
    assert_eq!(judged["final"]["trial"], whole["best"]["trial"]);
    let mut train = Command::new(env!("CARGO_BIN_EXE_campanile"));
    let trained = train.current_dir(at).args(["train", "whole/best.toml", "--json", "-q"]).output().unwrap();
    let trained = json(&trained);
    assert_eq!(trained["parameters_sha256"], judged["final"]["parameters_sha256"]);
    assert_eq!(trained["auc"], judged["final"]["value"]);
    let page = std::fs::read_to_string(at.join("whole/sweep.html")).unwrap();
    for part in
        ["Trials, best first", "AUC against optimizer.peak", "AUC against model.top", "no choice has seen"]
    {
        assert!(page.contains(part), "{part}");
    }

    let other = asked("all.csv --split 0.1", "whole").replace("--trials 4", "--trials 5");
    refused(
        at,
        &other,
        &["whole: the folder holds another sweep", "trials: requested 5, but the folder has 4"],
    );
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let small = "--ranks-per-host 1 --hosts 1 --steps 4 --batch 32 --eval-samples 256 --out new";
    let refuse = |set: &str, parts: &[&str]| {
        refused(at, &format!("{set} {small}"), parts);
        assert!(!at.join("new/trials").exists(), "{set}");
    };
    refuse("--set optimizer.pek=1,2", &["trial 1 (optimizer.pek = 1)", "unknown field `pek`"]);
    refuse("--set model.dim=8,-1", &["trial 2 (model.dim = -1)"]);
    refuse("--set train.batch=8,0", &["trial 2 (train.batch = 0)", "train.batch: a step needs samples"]);
    refuse("--set model.dim=8,16 --metric calibration", &["--metric calibration", "auc, pr_auc, logloss"]);
    refuse("--set data.split=0.1", &["share one log"]);
    refuse("--set model.dim=8 --validation 0.2", &["synthetic log has validation rows of its own"]);
    refused(at, "--resume new --hosts 2", &["leave out all flags but --final and --json"]);
    refused(at, "--resume nowhere", &["nowhere: no sweep to go on with"]);
    std::fs::create_dir(at.join("taken")).unwrap();
    std::fs::write(at.join("taken/mine.txt"), "").unwrap();
    refused(
        at,
        &format!("--set model.dim=4,8 {small}").replace("--out new", "--out taken"),
        &["not an empty folder"],
    );
}

#[test]
fn a_trial_that_fails_is_recorded_and_the_sweep_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let arguments = "--ranks-per-host 1 --hosts 1 --steps 4 --batch 32 --eval-samples 256 --out failing --json \
                     --optimizer sgd --no-halving --set optimizer.peak=1e30,0.01 --set model.dim=4";
    let output = sweep(at, arguments);
    let result = json(&output);
    assert_eq!(result["best"]["trial"], 2);
    assert_eq!((&result["rungs"], &result["trials"][1]["rung"]), (&1.into(), &1.into()));
    let why = result["trials"][1]["failed"].as_str().unwrap();
    assert!(why.contains("the loss of step"), "{why}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed, and the sweep goes on"));
    assert!(
        at.join("failing/trials/002/checkpoints").is_dir()
            && !at.join("failing/trials/001/checkpoints").is_dir()
    );
}

#[test]
fn long_commands_say_that_they_go_on() {
    let commands = [
        "sweep",
        "towers",
        "reproduce dmt-speedup",
        "reproduce dmt-table6",
        "reproduce predictions",
        "reproduce planted-groups",
    ];
    for command in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_campanile"))
            .args(command.split(' '))
            .arg("--help")
            .output()
            .unwrap();
        let help = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("stopped or killed goes on with the same command"), "{command}:\n{help}");
        assert!(help.contains("records.jsonl"), "{command}");
    }
}
