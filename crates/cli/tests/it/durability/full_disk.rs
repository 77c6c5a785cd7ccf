//! A disk that is full when a checkpoint is to be written.

use super::command::{CAMPANILE, Ended, campanile, names, resume, same, text, verified};
use std::fs;
use std::path::Path;
use std::process::Command;

const ARGS: &str = "--eval-samples 1000 --batch 64 --checkpoint-every 5";

fn train<'a>(run: &'a Path, samples: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args: Vec<&str> = ARGS.split(' ').collect();
    [&["train", "--json", "--out", text(run), "--samples", samples], &args[..], more].concat()
}

fn shell(script: &str, args: &[&str]) -> Ended {
    Ended::of(Command::new("sh").args(["-c", script, "sh"]).args(args).output().unwrap())
}

/// The size of the largest file of the last checkpoint, and of all its files.
fn sizes(run: &Path) -> (u64, u64) {
    let checkpoints = run.join("checkpoints");
    let last = checkpoints.join(names(&checkpoints).last().unwrap());
    let sizes = names(&last).into_iter().map(|name| fs::metadata(last.join(name)).unwrap().len());
    let sizes: Vec<u64> = sizes.collect();
    (sizes.iter().copied().max().unwrap(), sizes.iter().sum())
}

/// Files may not grow beyond a limit, so that the largest of a checkpoint cannot be written.
#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let [run, unharmed] = ["run", "unharmed"].map(|name| folder.path().join(name));
    campanile(&train(&run, "1920", &["--steps", "15"])).json();
    assert!(Command::new("cp").arg("-r").args([&run, &unharmed]).status().unwrap().success());
    let expected = resume(&unharmed, &["--steps", "30"]).json();

    let blocks = (sizes(&run).0 - 1) / 512;
    let script = r#"ulimit -f "$1"; shift; exec "$@""#;
    let limited = [&blocks.to_string(), CAMPANILE, "train", "--resume", text(&run), "--steps", "30"];
    let ended = shell(script, &limited);
    ended.refused(&["cannot write", ".writing-step-000000000020/rank-0", "too large", "ulimit -f unlimited"]);
    // One line for the cause and one for the remedy; where all ranks were is of no interest.
    let error: Vec<&str> = ended.err.lines().skip_while(|line| !line.starts_with("error: ")).collect();
    assert_eq!(error.len(), 2, "{error:#?}");
    assert_eq!(verified(&run), Some(15));
    same(&resume(&run, &["--steps", "30"]).json(), &expected);
}

/// A file system of its own in memory that has room for two checkpoints and a half. Needs the right to mount one.
#[test]
fn a_full_file_system_leaves_the_checkpoint_before() {
    if !Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not tested: no file system can be mounted here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let unharmed = folder.path().join("unharmed");
    // Long enough for more than two checkpoints, also where they are written slowly.
    let samples = "19200";
    let expected = campanile(&train(&unharmed, samples, &[])).json();
    let (disk, kept) = (folder.path().join("disk"), folder.path().join("kept"));
    fs::create_dir(&disk).unwrap();
    let script = r#"
        bytes=$1 disk=$2 kept=$3; shift 3
        mount -t tmpfs -o size="$bytes" tmpfs "$disk" || exit 77
        "$@"; code=$?
        df "$disk" >&2
        cp -r "$disk/run" "$kept"
        exit $code"#;
    let size = (sizes(&unharmed).1 * 5 / 2).to_string();
    let inside = disk.join("run");
    let run = train(&inside, samples, &[]);
    let script = ["-rm", "sh", "-c", script, "sh", &size, text(&disk), text(&kept), CAMPANILE];
    let ended = Ended::of(Command::new("unshare").args(script).args(run).output().unwrap());
    if ended.code == Some(77) {
        eprintln!("not tested: no file system can be mounted here: {}", ended.err);
        return;
    }
    ended.refused(&[
        "cannot write",
        "/checkpoints/.writing-step-",
        "No space left",
        "make room on that disk",
    ]);
    assert!(verified(&kept).is_some());
    same(&resume(&kept, &[]).json(), &expected);
}
