//! Going on over MPI: all ranks take the same checkpoint, which the first has chosen.

use crate::command::{digest, has_mpirun, mpirun, result, train};
use std::fs;

const OVER_MPI: &[&str] = &["--transport", "mpi", "--json"];

#[test]
fn a_damaged_checkpoint_is_passed_over_and_a_complete_run_stays_as_it_is() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let path = out.to_str().unwrap();
    let small = ["--samples", "640", "--eval-samples", "64", "--batch", "64", "--rows-cap", "100"];
    let saved = ["--checkpoint-every", "5", "--out", path];
    let expected = train(Some(mpirun(2)), &[OVER_MPI, &small, &saved]);
    let steps = || {
        let entries = fs::read_dir(out.join("checkpoints")).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(steps(), ["step-000000000005", "step-000000000010"]);
    let file = out.join("checkpoints/step-000000000010/rank-0001.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();

    let resumed = train(Some(mpirun(2)), &[OVER_MPI, &["--resume", path]]);
    assert_eq!(digest(&resumed), digest(&expected));
    let said = String::from_utf8_lossy(&resumed.stderr);
    assert_eq!(said.matches("using the last whole checkpoint, of step 5").count(), 1, "{said}");
    assert_eq!(steps(), ["damaged-step-000000000010", "step-000000000005", "step-000000000010"]);

    let again = train(Some(mpirun(2)), &[OVER_MPI, &["--resume", path]]);
    assert_eq!(digest(&again), digest(&expected));
    assert_eq!(result(&again)["samples"], 0, "nothing was left to train");
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(said.matches("is complete: all 10 steps are done").count(), 1, "{said}");
}
