//! Jobs that are asked to stop: all ranks leave after the checkpoint is whole, and one alone says so.
//!
//! `mpirun` passes SIGUSR1 on to the ranks and waits for them. Other signals it follows with SIGKILL, a second after
//! SIGTERM unless `odls_base_sigkill_timeout` says otherwise, and it exits with 1 whatever its ranks exit with.

use crate::command::{PROGRAM, digest, has_mpirun, mpirun, train};
use crate::failures::{CLUSTER, OVER_MPI, RUN, end, process_of, signal, start};
use std::path::Path;
use std::process::{Command, Output};

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The step of the last checkpoint, every file of which must be whole.
fn verified(run: &Path) -> u64 {
    let output = Command::new(PROGRAM).args(["checkpoint", "verify", "--json"]).arg(run).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    found["step"].as_u64().unwrap()
}

/// Asserts that a job which was stopped has saved its state, and says so once.
fn assert_saved(output: &Output, run: &Path) {
    let said = said(output);
    let step = verified(run);
    let path = run.display();
    assert_eq!(said.matches("stopped after step").count(), 1, "{said}");
    assert!(said.contains(&format!("stopped after step {step} of ")), "{step}: {said}");
    assert_eq!(said.matches(&format!("campanile train --resume {path}")).count(), 1, "{said}");
    assert_eq!(said.matches("\"interrupted\":true").count(), 1, "{said}");
}

#[test]
fn a_signal_that_is_passed_on_saves_the_state_of_all_ranks() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let job = start(mpirun(4), &out, OVER_MPI);
    signal("-USR1", &job.id().to_string());
    let (output, _) = end(job);
    assert_eq!(output.status.code(), Some(138), "{}", said(&output));
    assert_saved(&output, &out);
    // So many that the learning rate was the same up to here: it falls in the second half.
    let steps = (2 * verified(&out) + 20).to_string();
    let path = out.to_str().unwrap();
    let resumed = train(Some(mpirun(4)), &[&["--resume", path, "--json"], OVER_MPI, &["--steps", &steps]]);
    let whole = train(None, &[RUN, CLUSTER, &["--steps", &steps, "--json"]]);
    assert_eq!(digest(&resumed), digest(&whole));
}

/// Any rank may be asked, not only the one that reports.
#[test]
fn a_signal_to_one_rank_stops_all() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let job = start(mpirun(4), &out, OVER_MPI);
    signal("-TERM", &process_of(3, &out));
    let (output, _) = end(job);
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
    assert_saved(&output, &out);
}

/// A launcher that ends the job leaves its ranks the time that it was told to.
#[test]
fn a_launcher_that_is_patient_lets_ranks_save() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut launcher = mpirun(4);
    launcher.args(["--mca", "odls_base_sigkill_timeout", "5"]);
    let job = start(launcher, &out, OVER_MPI);
    signal("-TERM", &job.id().to_string());
    let (output, _) = end(job);
    assert!(!output.status.success(), "{}", said(&output));
    assert!(verified(&out) > 0);
    let metrics = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let last = metrics.lines().last().unwrap();
    // A busy machine may be out of patience after the checkpoint, which is what counts, and before the last record.
    let saved = last.contains("\"event\":\"checkpoint\"") || last.contains("\"interrupted\":true");
    assert!(saved, "the last thing that the run did was to save its state: {last}");
}
