//! `data prepare` within the memory it was given.

use super::command::{Ended, start, text};
use super::{logs, peak};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const MIB: u64 = 1 << 20;

#[test]
fn preparing_a_log_four_times_the_memory_stays_within_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.tsv");
    logs::criteo(&file, 520_000, 3);
    assert!(fs::metadata(&file).unwrap().len() >= 4 * 32 * MIB);
    prepare_within(32, folder.path(), &["--data", text(&file)]);
}

/// So many distinct ids that their counts go to disk on the way.
#[test]
fn counting_many_ids_stays_within_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (file, schema) = (folder.path().join("log.csv"), folder.path().join("schema.toml"));
    logs::distinct_ids(&file, 5_000_000);
    assert!(fs::metadata(&file).unwrap().len() >= 4 * 32 * MIB);
    let columns = r#"
        label = { column = "clicked" }
        [[dense]]
        column = "price"
        [[sparse]]
        column = "user"
        ids = "vocabulary"
        rows = 100000
    "#;
    fs::write(&schema, columns).unwrap();
    prepare_within(32, folder.path(), &["--data", text(&file), "--format", "csv", "--schema", text(&schema)]);
}

/// Prepares a log with `mebibytes` of memory, and asserts that the process never had more.
fn prepare_within(mebibytes: u64, folder: &Path, log: &[&str]) {
    let (out, limit) = (folder.join("prepared"), format!("{mebibytes}MiB"));
    let more = ["data", "prepare", "--json", "--memory", &limit, "--out", text(&out)];
    let mut child = start(&[&more, log].concat());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        // The mark only rises, so what is missed is what happens in the last moment.
        peak = peak.max(peak::most(child.id()).unwrap_or(0));
        sleep(Duration::from_millis(2));
    }
    let result = Ended::of(child.wait_with_output().unwrap()).json();
    let mark = peak as f64 / MIB as f64;
    eprintln!("{mark:.1} MiB at most of {limit}, {:.1} s", result["seconds"].as_f64().unwrap());
    assert_eq!(result["bad_lines"], 0);
    assert!(peak > 0 && peak <= mebibytes * MIB, "{mark:.1} MiB, allowed were {limit}");
}
