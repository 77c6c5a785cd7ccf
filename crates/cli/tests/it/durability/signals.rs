//! Runs that are asked to stop.

use super::command::{CAMPANILE, Ended, campanile, resume, same, start, text, verified};
use super::logs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Steps of a run that does not end before it is asked to, however busy the machine is.
const STEPS: u64 = 2500;
const LONG: &str = "--samples 160000 --eval-samples 500 --batch 64";

/// Asks a process to stop.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
    assert!(sent.success());
}

/// Whether this process ignores SIGHUP, which those that it starts then do too.
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}

/// Waits until the metrics of a run have this many lines.
fn await_metrics(child: &mut Child, run: &Path, lines: usize) {
    let began = Instant::now();
    loop {
        let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
        if metrics.lines().count() >= lines {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was asked to");
        assert!(began.elapsed() < Duration::from_secs(60), "no progress");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_that_is_asked_to_stop_saves_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let long: Vec<&str> = LONG.split(' ').collect();
    let expected = campanile(&[&["train", "--json"], &long[..]].concat()).json();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("USR1", 138)] {
        if name == "HUP" && hangups_are_ignored() {
            eprintln!("SIGHUP is ignored here, as under nohup: a run goes on, as it should");
            continue;
        }
        let run = folder.path().join(name);
        let mut child = start(&[&["train", "--json", "--out", text(&run)], &long[..]].concat());
        await_metrics(&mut child, &run, 10);
        signal(&child, name);
        let ended = Ended::of(child.wait_with_output().unwrap());
        let result = ended.json_with_code(code);
        assert_eq!(result["interrupted"], true, "{result}");
        let step = result["steps"].as_u64().unwrap();
        assert!(0 < step && step < STEPS, "{step}");
        let path = text(&run);
        let said =
            format!("stopped after step {step} of {STEPS}: the state is saved in {path}/checkpoints\n");
        let how = format!("go on with: campanile train --resume {path}\n");
        assert!(ended.err.contains(&(said + &how)), "{}", ended.err);
        assert_eq!(verified(&run), Some(step));
        if name == "TERM" {
            let result = resume(&run, &[]).json();
            assert_eq!(result["interrupted"], false);
            same(&result, &expected);
        }
    }
}

/// Waits until the process handles SIGINT, by what the system says of it: nothing else tells that of a run without a
/// folder.
fn await_handler(child: &mut Child) {
    let began = Instant::now();
    let handles = |status: String| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
        mask.and_then(|digits| u64::from_str_radix(digits, 16).ok()).is_some_and(|mask| mask & 2 != 0)
    };
    while !std::fs::read_to_string(format!("/proc/{}/status", child.id())).is_ok_and(handles) {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was asked to");
        assert!(began.elapsed() < Duration::from_secs(60), "no handler");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_without_a_folder_says_that_nothing_was_saved() {
    let mut child = start(&["train", "--samples", "3200000", "--eval-samples", "500", "--batch", "64"]);
    await_handler(&mut child);
    signal(&child, "INT");
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.err.contains("nothing was saved: pass --out DIR to keep checkpoints"), "{}", ended.err);
}

/// A run that is to outlive its terminal, as by `nohup`, does so.
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let script = r#"trap '' HUP; exec "$@""#;
    let args = [
        "train",
        "--json",
        "--out",
        text(&run),
        "--eval-samples",
        "500",
        "--samples",
        "32000",
        "--batch",
        "64",
    ];
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", CAMPANILE]).args(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_metrics(&mut child, &run, 10);
    signal(&child, "HUP");
    assert_eq!(Ended::of(child.wait_with_output().unwrap()).json()["interrupted"], false);
}

/// Reading a log, and scoring one, are stopped as well.
#[test]
fn other_commands_end_with_the_code_of_the_signal() {
    let folder = tempfile::tempdir().unwrap();
    let [run, small, large, prepared, predictions] =
        ["run", "small.tsv", "large.tsv", "prepared", "p.csv"].map(|name| folder.path().join(name));
    logs::criteo(&small, 100, 1);
    logs::criteo(&large, 60_000, 2);
    let model = ["--rows-cap", "100", "--dim", "4", "--batch", "50", "--steps", "1"];
    campanile(&[&["train", "--out", text(&run), "--data", text(&small), "--json"], &model[..]].concat())
        .json();
    let prepare = ["data", "prepare", "--data", text(&large), "--out", text(&prepared)];
    let stopped = |args: &[&str]| {
        let mut child = start(args);
        await_handler(&mut child);
        signal(&child, "TERM");
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(143), "{ended:?}");
        assert!(ended.err.contains("stopped ") && !ended.err.contains("error: "), "{}", ended.err);
    };
    stopped(&prepare);
    assert_eq!(campanile(&prepare).code, Some(0), "what was stopped is in nobody's way");
    let eval = ["eval", "--checkpoint", text(&run), "--predictions", text(&predictions)];
    stopped(&[&eval[..], &["--data", text(&large)]].concat());
    // In steps of two samples, this goes on for long.
    stopped(&[&eval[..], &["--data", text(&prepared), "--format", "prepared", "--batch", "2"]].concat());
    assert!(!predictions.exists(), "half of the predictions are none");
}

/// A step of this run takes seconds, so the first signal cannot have ended it.
#[test]
fn a_second_signal_ends_a_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let large = "--samples 1000000 --eval-samples 1000 --batch 200000 --model dcn";
    let large: Vec<&str> = large.split(' ').collect();
    let mut child = start(&[&["train", "--json", "--out", text(&run)], &large[..]].concat());
    await_metrics(&mut child, &run, 1);
    // The first line is written just before signals are handled.
    sleep(Duration::from_millis(300));
    signal(&child, "INT");
    sleep(Duration::from_millis(100));
    signal(&child, "INT");
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{ended:?}");
    // Nothing was complete; the run begins again.
    assert_eq!(verified(&run), None);
}
