//! Ranks that were not started alike are refused before the first step, with what differs.

use crate::command::{PROGRAM, SMALL, has_mpirun, mpirun, refusal, train};
use std::fs;

#[test]
fn another_config_on_one_rank() {
    if !has_mpirun() {
        return;
    }
    let mut job = mpirun(2);
    job.args([PROGRAM, "train", "--transport", "mpi"]).args(SMALL);
    job.args([":", "-np", "1", PROGRAM, "train", "--transport", "mpi", "--seed", "7"]).args(SMALL);
    let said = refusal(&job.output().unwrap());
    assert!(said.contains("rank 2 was started with something else than rank 0"), "{said}");
    assert!(said.contains("rank 0: seed = 0") && said.contains("here:   seed = 7"), "{said}");
}

#[test]
fn another_executable_on_one_rank() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("campanile");
    let mut bytes = fs::read(PROGRAM).unwrap();
    bytes.push(0);
    fs::write(&other, bytes).unwrap();
    fs::set_permissions(&other, fs::metadata(PROGRAM).unwrap().permissions()).unwrap();
    let mut job = mpirun(1);
    job.args([PROGRAM, "train", "--transport", "mpi"]).args(SMALL);
    job.args([":", "-np", "1"]).arg(&other).args(["train", "--transport", "mpi"]).args(SMALL);
    let said = refusal(&job.output().unwrap());
    assert!(said.contains("rank 1 was started with something else than rank 0"), "{said}");
    assert!(said.contains("here:   campanile 0.1.0, executable "), "{said}");
}

#[test]
fn another_number_of_processes() {
    if !has_mpirun() {
        return;
    }
    let asked = ["--hosts", "2", "--ranks-per-host", "2", "--transport", "mpi", "--assume-hosts"];
    let said = refusal(&train(Some(mpirun(3)), &[SMALL, &asked]));
    assert!(said.contains("MPI started 3 processes, but 2 × 2 has 4 ranks"), "{said}");
}

#[test]
fn raw_logs_without_a_shared_folder() {
    if !has_mpirun() {
        return;
    }
    let asked = ["--data", "day_0.gz", "--transport", "mpi"];
    let said = refusal(&train(Some(mpirun(2)), &[&asked]));
    assert!(said.contains("give --out on a file system that all hosts share"), "{said}");
}

#[test]
fn assumed_hosts_need_mpi() {
    let said = refusal(&train(None, &[SMALL, &["--assume-hosts"]]));
    assert!(said.contains("it needs --transport mpi"), "{said}");
}

/// What is wrong with all ranks is told by one of them.
#[test]
fn an_error_of_all_ranks_is_told_once() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, missing, config) = (path("run"), path("missing.tsv"), path("missing.toml"));
    let cases: [(&[&str], &str); 5] = [
        // Before anything is known of ranks.
        (&["--batch", "many"], "invalid value 'many'"),
        (&[&config], "missing.toml"),
        // While one rank reads the log for all.
        (&["--data", &missing, "--out", &out], "missing.tsv"),
        // At the launch.
        (&["--hosts", "5", "--ranks-per-host", "1", "--assume-hosts"], "MPI started 3 processes"),
        // On the way.
        (&["--optimizer", "sgd", "--lr", "1e30", "--model", "dcn"], "the loss of step"),
    ];
    for (args, part) in cases {
        let said = refusal(&train(Some(mpirun(3)), &[&["--transport", "mpi"], args]));
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        assert_eq!(said.lines().filter(|line| line.contains(part)).count(), 1, "{part}: {said}");
        assert!(said.matches(" on host ").count() <= 1, "where all ranks were does not matter: {said}");
    }
}
