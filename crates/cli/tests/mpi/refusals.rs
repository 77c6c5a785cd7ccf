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
