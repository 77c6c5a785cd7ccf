//! A dry run checks and prints everything, and leaves nothing behind, not even in the temporary folder.

use super::command::{CAMPANILE, Ended, campanile, text};
use super::logs;
use std::fs;
use std::process::Command;

#[test]
fn a_dry_run_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (log, scratch, out) =
        (folder.path().join("log.tsv"), folder.path().join("tmp"), folder.path().join("run"));
    logs::criteo(&log, 400, 1);
    fs::create_dir(&scratch).unwrap();
    let args = "--split 0.25 --rows-cap 100 --dim 4 --batch 50 --epochs 2 --patience 3 --dry-run --data";
    let dry = |more: &[&str]| {
        let mut command = Command::new(CAMPANILE);
        command.arg("train").args(args.split(' ')).arg(&log).args(["--out", text(&out)]).args(more);
        Ended::of(command.env("TMPDIR", &scratch).output().unwrap())
    };
    let said = dry(&[]).out;
    for part in [
        "nothing is trained or kept",
        "300 to train on, 100 to evaluate on",
        "12 of 50 samples, 6 an epoch; 2 evaluation(s)",
        "prepared in a temporary folder",
        "patience 3",
        text(&out),
    ] {
        assert!(said.contains(part), "should say {part:?}: {said}");
    }
    assert_eq!(dry(&["--json"]).json()["dry_run"], true);
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "something is left in the temporary folder");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the log and the temporary folder");
    // Refused as the real command would be.
    let real = campanile(&["train", "--steps", "3", "--patience", "2"]);
    let dry = campanile(&["train", "--steps", "3", "--patience", "2", "--dry-run"]);
    assert_eq!((real.code, &real.err), (dry.code, &dry.err));
    assert_ne!(dry.code, Some(0));
}
