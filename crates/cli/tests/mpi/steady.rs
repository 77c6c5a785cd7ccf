//! A day of steps in miniature, over MPI: memory does not grow.

use crate::command::{PROGRAM, has_mpirun, mpirun_within};
use crate::resident::Samples;
use std::fs;
use std::process::Stdio;

#[test]
fn hundreds_of_steps_over_mpi_need_no_more_memory() {
    flat_memory("200");
}

#[test]
#[ignore = "long: scripts/test --long"]
fn thousands_of_steps_over_mpi_need_no_more_memory() {
    flat_memory("2000");
}

fn flat_memory(steps: &str) {
    if !has_mpirun() {
        return;
    }
    let mut job = mpirun_within("900", 8);
    job.args([PROGRAM, "train", "--json", "--transport", "mpi", "--dim", "4", "--rows-cap", "2000"]);
    job.args(["--batch", "32", "--samples", "100000", "--eval-samples", "64", "--steps", steps]);
    let mut job = job.stdout(Stdio::piped()).spawn().unwrap();
    let mut samples = Samples::default();
    while job.try_wait().unwrap().is_none() {
        let ranks = children(job.id());
        if ranks.len() >= 8 {
            samples.take(&ranks);
        }
    }
    assert!(job.wait().unwrap().success());
    samples.assert_flat();
}

/// The processes that `parent` has started.
fn children(parent: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|process| process.parse().ok()).collect()
}
