//! What a run says it needs of memory, against what it takes, from one rank to 1024 in one process.

use super::command::{Ended, campanile, start};
use super::peak;
use serde_json::Value;
use std::io::Read;
use std::process::Child;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// What is stated may be off by so much.
const WITHIN: f64 = 0.20;
/// Only runs that need at most this are tried.
const MOST: u64 = 8_000_000_000;

/// Bytes that the run said it would need, and the most that it had.
struct Measured {
    stated: u64,
    peak: u64,
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.peak as f64 / self.stated as f64
    }

    fn holds(&self) -> bool {
        (1.0 - WITHIN..=1.0 + WITHIN).contains(&self.ratio())
    }
}

/// Trains with `args`, watches the memory that it has, and ends it should it need far more than it may.
fn measure(args: &str) -> Measured {
    let words: Vec<&str> = args.split_whitespace().collect();
    let mut child = start(&[&["train", "--json"], &words[..]].concat());
    // The result of a thousand ranks does not fit into a pipe: it is read meanwhile.
    let mut out = child.stdout.take().unwrap();
    let reader = spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        text
    });
    let peak = watch(&mut child);
    let mut ended = Ended::of(child.wait_with_output().unwrap());
    ended.out = reader.join().unwrap();
    let result: Value = ended.json();
    Measured { stated: result["memory_bytes"].as_u64().unwrap(), peak }
}

/// The most memory that a process had until it ended.
fn watch(child: &mut Child) -> u64 {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak::most(child.id()).unwrap_or(0));
        if peak > MOST + MOST / 2 {
            child.kill().unwrap();
        }
        sleep(Duration::from_millis(1));
    }
    peak
}

/// What `campanile describe` says that a run needs.
fn described(args: &str) -> u64 {
    let words: Vec<&str> = args.split_whitespace().collect();
    campanile(&[&["describe", "--json"], &words[..]].concat()).json()["memory_bytes"].as_u64().unwrap()
}

#[test]
fn a_run_takes_the_memory_that_it_states() {
    for (hosts, ranks, more) in [
        (1, 1, "--batch 8192"),
        (2, 4, "--batch 8192"),
        (2, 4, "--batch 4096 --model dcn --dataflow sptt"),
        (16, 4, "--batch 2048"),
    ] {
        let args = format!("--hosts {hosts} --ranks-per-host {ranks} --steps 3 --eval-samples 4096 {more}");
        let measured = measure(&args);
        eprintln!("{args}: {} stated, {} at most", measured.stated, measured.peak);
        assert!(measured.holds(), "{args}: {} stated, {} at most", measured.stated, measured.peak);
    }
}

/// The table of reports/memory.md.
#[test]
#[ignore = "long: scripts/test --long"]
fn what_is_stated_holds_from_1_to_1024_ranks() {
    let models = [
        ("demo", "--batch 1024"),
        ("demo", "--batch 16384"),
        ("demo dcn", "--model dcn --batch 4096"),
        ("kaggle, 100 000 rows", "--preset kaggle --rows-cap 100000 --batch 2048"),
        ("mlperf, 20 000 rows", "--preset mlperf --rows-cap 20000 --batch 512"),
        ("mlperf dcn, 20 000 rows", "--preset mlperf --model dcn --rows-cap 20000 --batch 4096"),
    ];
    let dataflows = [
        ("flat", ""),
        ("sptt", "--dataflow sptt"),
        ("towers", "--dataflow sptt --towers strided:2 --tower-module MODULE"),
    ];
    let mut off = Vec::new();
    println!("| ranks | model | batch | dataflow | stated MB | measured MB | measured / stated |");
    println!("|---:|---|---:|---|---:|---:|---:|");
    for (hosts, ranks) in [(1, 1), (2, 2), (4, 4), (16, 4), (64, 4), (256, 4)] {
        for (model, flags) in models {
            for (dataflow, how) in dataflows {
                // A tower group of its own needs a host of its own.
                if hosts == 1 && dataflow != "flat" {
                    continue;
                }
                let module = if model.contains("dcn") { "dcn:d=16" } else { "dlrm:c=1,p=0,d=16" };
                let args = format!(
                    "--hosts {hosts} --ranks-per-host {ranks} --steps 3 --eval-samples 2048 {flags} {}",
                    how.replace("MODULE", module)
                );
                let described = described(&args);
                if described > MOST {
                    continue;
                }
                let began = Instant::now();
                let measured = measure(&args);
                assert_eq!(measured.stated, described, "{args}");
                let (stated, peak) = (measured.stated as f64 / 1e6, measured.peak as f64 / 1e6);
                let batch = flags.split("--batch ").nth(1).unwrap();
                println!(
                    "| {} | {model} | {batch} | {dataflow} | {stated:.0} | {peak:.0} | {:.2} |",
                    hosts * ranks,
                    measured.ratio()
                );
                eprintln!("{:.0} s: {args}", began.elapsed().as_secs_f64());
                if !measured.holds() {
                    off.push(format!("{:.2}: {args}", measured.ratio()));
                }
            }
        }
    }
    assert!(off.is_empty(), "measured / stated is not within {WITHIN} of 1:\n{}", off.join("\n"));
}

#[test]
fn too_much_is_refused_at_once_with_what_takes_it() {
    for (args, parts) in [
        // More than 100 TB of tables.
        ("--preset terabyte --dim 65536", ["tables", "model.rows_cap"]),
        ("--hosts 256 --ranks-per-host 4 --batch 60000000", ["activations", "train.batch"]),
        (
            "--hosts 256 --ranks-per-host 4 --preset mlperf --rows-cap 100000",
            ["dense layers", "topology.hosts"],
        ),
    ] {
        let words: Vec<&str> = args.split_whitespace().collect();
        let mut child = start(&[&["train", "--json", "--steps", "3"], &words[..]].concat());
        let peak = watch(&mut child);
        let ended = Ended::of(child.wait_with_output().unwrap());
        ended.refused(&["GB are free", parts[0], parts[1]]);
        assert!(peak < 200_000_000, "{args}: {peak} bytes before it was refused");
    }
}
