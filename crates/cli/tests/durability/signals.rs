//! Runs that are asked to stop.

use crate::command::{Ended, campanile, resume, same, start, text, verified};
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LONG: &str = "--samples 32000 --eval-samples 500 --batch 64";

/// Asks a process to stop.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
    assert!(sent.success());
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
    for name in ["INT", "TERM"] {
        let run = folder.path().join(name);
        let mut child = start(&[&["train", "--json", "--out", text(&run)], &long[..]].concat());
        await_metrics(&mut child, &run, 10);
        signal(&child, name);
        let ended = Ended::of(child.wait_with_output().unwrap());
        let result = ended.json();
        assert_eq!(result["interrupted"], true, "{result}");
        let step = result["steps"].as_u64().unwrap();
        assert!(0 < step && step < 500, "{step}");
        assert!(ended.err.contains(&format!("stopped after step {step} of 500")), "{}", ended.err);
        assert_eq!(verified(&run), Some(step));
        let result = resume(&run, &[]).json();
        assert_eq!(result["interrupted"], false);
        same(&result, &expected);
    }
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
