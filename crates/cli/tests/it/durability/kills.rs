//! Runs that are killed, over and over, at random moments.

use super::command::{Ended, campanile, resume, same, start, text, verified};
use super::logs::{self, mixed};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SMALL: &str = "--samples 19200 --eval-samples 500 --eval-every 100 --batch 64 --checkpoint-every 5";

/// Kills in the short test of each kind, and in the long one.
const FEW: u64 = 8;
const MANY: u64 = 100;

#[test]
fn a_run_that_is_killed_ends_as_if_it_was_not() {
    kill_generated(FEW);
}

#[test]
#[ignore = "long: scripts/test --long"]
fn a_run_that_is_killed_a_hundred_times_ends_as_if_it_was_not() {
    kill_generated(MANY);
}

#[test]
fn a_run_from_files_that_is_killed_ends_as_if_it_was_not() {
    kill_from_files(FEW);
}

#[test]
#[ignore = "long: scripts/test --long"]
fn a_run_from_files_that_is_killed_a_hundred_times_ends_as_if_it_was_not() {
    kill_from_files(MANY);
}

#[test]
fn a_run_with_tables_larger_than_memory_that_is_killed_ends_as_if_it_was_not() {
    kill_cached(FEW);
}

#[test]
#[ignore = "long: scripts/test --long"]
fn a_run_with_tables_larger_than_memory_that_is_killed_a_hundred_times_ends_as_if_it_was_not() {
    kill_cached(MANY);
}

#[test]
fn a_run_with_increments_that_is_killed_ends_as_if_it_was_not() {
    kill_incremental(FEW);
}

#[test]
#[ignore = "long: scripts/test --long"]
fn a_run_with_increments_that_is_killed_a_hundred_times_ends_as_if_it_was_not() {
    kill_incremental(MANY);
}

/// With increments that are brought together again and again.
fn kill_incremental(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let increments = ["--checkpoint-kind", "incremental", "--increments", "3"];
    let args = [&SMALL.split(' ').collect::<Vec<_>>()[..], &increments].concat();
    kill_often(kills, folder.path(), &args, &[100, 200, 300]);
}

/// With a part of the tables in memory.
fn kill_cached(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let cache = ["--table-memory", "200KiB", "--table-store", text(&store)];
    let args = [&SMALL.split(' ').collect::<Vec<_>>()[..], &cache].concat();
    kill_often(kills, folder.path(), &args, &[100, 200, 300]);
    assert_eq!(fs::read_dir(&store).unwrap().count(), 0, "nothing is left in the store");
}

fn kill_generated(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    kill_often(kills, folder.path(), &SMALL.split(' ').collect::<Vec<_>>(), &[100, 200, 300]);
}

/// With a log that must be prepared first, shuffled, and read more than once.
fn kill_from_files(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (train, eval) = (folder.path().join("train.tsv"), folder.path().join("eval.tsv"));
    logs::criteo(&train, 3000, 1);
    logs::criteo(&eval, 500, 2);
    let files = ["--data", text(&train), "--eval", text(&eval), "--format", "criteo-tsv", "--shuffle", "500"];
    let rest = "--preset kaggle --rows-cap 200 --dim 4 --epochs 3 --batch 64 --checkpoint-every 5";
    kill_often(
        kills,
        folder.path(),
        &[&files, &rest.split(' ').collect::<Vec<_>>()[..]].concat(),
        &[47, 94, 141],
    );
}

/// Kills runs with `args`, `kills` times. A run that ends before it is killed counts as killed, and the next begins in a
/// new folder. `evaluated` are the steps after which there is an evaluation; the last of them is the end.
fn kill_often(kills: u64, folder: &Path, args: &[&str], evaluated: &[u64]) {
    let began = Instant::now();
    let expected = campanile(&fresh(&folder.join("unharmed"), args)).json();
    let whole = began.elapsed();
    assert_whole(&folder.join("unharmed"), evaluated);

    let mut chains = 0;
    let mut ended = 0;
    let run = |chain: u64| folder.join(format!("chain-{chain}"));
    for kill in 0..kills {
        let run = run(chains);
        match killed_after(&next(&run, args), moment(kill, whole)) {
            None => {
                verified(&run);
            }
            Some(result) => {
                same(&result, &expected);
                assert_whole(&run, evaluated);
                (chains, ended) = (chains + 1, ended + 1);
            }
        }
    }
    // The last chain goes on to its end.
    let run = run(chains);
    same(&campanile(&next(&run, args)).json(), &expected);
    assert_whole(&run, evaluated);
    same(&resume(&run, &[]).json(), &expected);
    eprintln!("{kills} kills, {ended} of them too late, in {:.1} s", began.elapsed().as_secs_f64());
}

/// When the kill of this number comes: every third while the process starts, the others at any time of a whole run.
fn moment(kill: u64, whole: Duration) -> Duration {
    let share = mixed(kill) as f64 / u64::MAX as f64;
    if kill.is_multiple_of(3) { Duration::from_millis(60).mul_f64(share) } else { whole.mul_f64(share) }
}

fn fresh<'a>(run: &'a Path, args: &[&'a str]) -> Vec<&'a str> {
    [&["train", "--json", "--out", text(run)], args].concat()
}

/// How to go on with the run in `run`: resume it, or start it where it had not begun.
fn next<'a>(run: &'a Path, args: &[&'a str]) -> Vec<&'a str> {
    // A run has begun once its config is written.
    if verified(run).is_some() || run.join("config.toml").is_file() {
        return vec!["train", "--json", "--resume", text(run)];
    }
    fresh(run, args)
}

/// Starts a command and kills it after a while; its result if it ended before, which must be a success.
fn killed_after(args: &[&str], after: Duration) -> Option<Value> {
    let mut child = start(args);
    sleep(after);
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    // A process that a signal ended has no code.
    let whole = output.status.code().is_some();
    let ended = Ended::of(output);
    whole.then(|| ended.json())
}

/// Asserts that a finished run's folder has its report, and all metrics once.
fn assert_whole(run: &Path, evaluated: &[u64]) {
    let steps = *evaluated.last().unwrap();
    assert!(run.join("report.html").is_file() && run.join("summary.json").is_file(), "{}", run.display());
    let records: Vec<Value> = fs::read_to_string(run.join("metrics.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}")))
        .collect();
    let of = |event: &str| -> Vec<u64> {
        let those = records.iter().filter(|record| record["event"] == event);
        those.map(|record| record["step"].as_u64().unwrap_or(0)).collect()
    };
    // About a hundred reports, whatever the length.
    let every = steps.div_ceil(100);
    let trained = [&[0], &of("train")[..]].concat();
    for pair in trained.windows(2) {
        assert!(pair[0] < pair[1] && pair[1] <= pair[0] + every, "{pair:?} in {}", run.display());
    }
    assert_eq!(trained.last(), Some(&steps));
    assert_eq!(of("start").len(), 1, "{}", run.display());
    assert_eq!(of("eval"), evaluated, "{}", run.display());
    assert_eq!(verified(run), Some(steps));
}
