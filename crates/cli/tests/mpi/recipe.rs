//! The recipe of DMT on ranks that are processes: flat model, affinity, towers; and evaluations. Each step gives what it gives in
//! one process.

use crate::command::{campanile, has_mpirun, mpirun, refusal, result, train};
use crate::failures::{CLUSTER, OVER_MPI};
use serde_json::Value;
use std::fs;
use std::path::Path;

const TINY: &[&str] =
    &["--samples", "2048", "--eval-samples", "301", "--batch", "128", "--rows-cap", "200", "--dim", "8"];

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A run of two ranks, kept at `out`.
fn trained(out: &str, more: &[&str]) {
    result(&train(None, &[TINY, &["--hosts", "1", "--ranks-per-host", "2", "--json", "--out", out], more]));
}

/// The result of a command on four ranks: threads, or processes over MPI.
fn on_threads(name: &str, arguments: &[&[&str]]) -> Value {
    result(&campanile(None, name, &[&arguments.concat(), CLUSTER, &["--json"]]))
}

fn over_mpi(name: &str, arguments: &[&[&str]]) -> Value {
    result(&campanile(Some(mpirun(4)), name, &[&arguments.concat(), CLUSTER, OVER_MPI, &["--json"]]))
}

/// The checkpoint of two ranks is used by four, whose world is that of the threads that it is compared with.
#[test]
fn checkpoints_are_evaluated_and_measured_with_the_bits_of_threads() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = at("run");
    trained(&run, &[]);
    let on: &[&str] = &["--checkpoint", &run, "--batch", "100"];

    let (here, there) = (at("here.csv"), at("there.csv"));
    let threads = on_threads("eval", &[on, &["--predictions", &here]]);
    assert_eq!(over_mpi("eval", &[on, &["--predictions", &there]]), threads);
    assert_eq!(threads["samples"], 301);
    assert_eq!(fs::read(&there).unwrap(), fs::read(&here).unwrap());
    // A file that is there is refused by the first rank, for all.
    let again = campanile(Some(mpirun(4)), "eval", &[on, &["--predictions", &there], CLUSTER, OVER_MPI]);
    let said = refusal(&again);
    assert_eq!(said.matches("--force").count(), 1, "{said}");

    let (here, there) = (at("here.json"), at("there.json"));
    let few: &[&str] = &["--affinity-samples", "1000"];
    on_threads("affinity", &[on, few, &["--out", &here]]);
    over_mpi("affinity", &[on, few, &["--out", &there]]);
    assert_eq!(fs::read(&there).unwrap(), fs::read(&here).unwrap());
}

/// Every step of the search, and a search that goes on: what it knows is not trained again.
#[test]
fn towers_are_those_of_threads() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let asked: &[&str] = &["--steps", "8", "--towers", "2", "--strategies", "coherent,strided"];
    let asked = [TINY, asked, &["--affinity-samples", "500"]].concat();
    let threads = on_threads("towers", &[&asked, &["--out", here.to_str().unwrap()]]);
    let out = ["--out", there.to_str().unwrap()];
    let processes = over_mpi("towers", &[&asked, &out]);
    // Threads measure affinity on as many ranks as there are cores: sums may differ in their last bits, towers do not.
    for field in ["best", "towers", "flat"] {
        assert_eq!(processes[field], threads[field], "{field}");
    }
    assert_eq!(processes["test"]["auc"], threads["test"]["auc"]);
    for tried in 0..2 {
        for field in ["strategy", "auc", "towers", "bytes_between_hosts"] {
            assert_eq!(processes["tried"][tried][field], threads["tried"][tried][field], "{field}");
        }
    }
    let rows = |at: &Path| -> Vec<f64> {
        let affinity = json(&at.join("affinity.json"));
        let rows = affinity["affinity"].as_array().unwrap().iter();
        rows.flat_map(|row| row.as_array().unwrap()).map(|value| value.as_f64().unwrap()).collect()
    };
    let (a, b) = (rows(&there), rows(&here));
    assert!(a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-9), "{a:?} and {b:?}");

    // The last run is lost, as if the job had been killed: the others are taken from the records.
    let records = there.join("records.jsonl");
    let known = fs::read_to_string(&records).unwrap();
    let kept: String = known
        .lines()
        .filter(|line| !line.contains("\"name\":\"best\""))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&records, kept).unwrap();
    let again = over_mpi("towers", &[&asked, &out]);
    assert_eq!(again["test"]["auc"], threads["test"]["auc"]);
    assert_eq!(again["tried"], processes["tried"], "seconds of training too: nothing was trained again");
    assert_eq!(fs::read_to_string(&records).unwrap().lines().count(), known.lines().count());
}

/// A rank that cannot read its shards ends all, and one of them says why.
#[test]
fn a_rank_that_fails_is_reported_once() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (run, log) = (at("run"), at("log.tsv"));
    trained(&run, &[]);
    let differs = ["--checkpoint", &run, "--transport", "mpi"];
    let mut job = mpirun(1);
    job.args([crate::command::PROGRAM, "eval"]).args(differs);
    job.args([":", "-np", "1", crate::command::PROGRAM, "eval"]).args(differs).args(["--batch", "64"]);
    let said = refusal(&job.output().unwrap());
    assert!(said.contains("rank 1 was started with something else than rank 0"), "{said}");
    // Each rank would prepare a log of its own.
    fs::write(&log, "").unwrap();
    let raw = ["--checkpoint", &run, "--data", &log, "--format", "criteo-tsv", "--transport", "mpi"];
    let said = refusal(&campanile(Some(mpirun(2)), "eval", &[&raw]));
    assert_eq!(said.matches("need a log that all of them can read").count(), 1, "{said}");
}
