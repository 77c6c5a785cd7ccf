//! A rank that dies or stops ends the job on all ranks, is named, and costs no work that was saved.

use crate::command::{PROGRAM, digest, has_mpirun, mpirun, refusal, train};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const RUN: &[&str] =
    &["--batch", "512", "--rows-cap", "2000", "--samples", "51200000", "--eval-samples", "512"];
const SAVED: &[&str] = &["--checkpoint-every", "20", "--json"];
const CLUSTER: &[&str] = &["--hosts", "2", "--ranks-per-host", "2"];
const OVER_MPI: &[&str] = &["--transport", "mpi", "--assume-hosts"];

/// A job that would go on for long; returns once it has saved a checkpoint.
fn start(out: &Path, more: &[&str]) -> Child {
    let mut job = mpirun(4);
    job.arg(PROGRAM).arg("train").args(RUN).args(SAVED).args(CLUSTER).args(OVER_MPI).args(more);
    let mut job = job.arg("--out").arg(out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let checkpoints =
        || fs::read_dir(out.join("checkpoints")).map_or(0, |all| all.flatten().filter(complete).count());
    while checkpoints() == 0 {
        let running = job.try_wait().unwrap().is_none() && Instant::now() < until;
        assert!(running, "no checkpoint:\n{}", refusal(&job.wait_with_output().unwrap()));
        std::thread::sleep(Duration::from_millis(20));
    }
    job
}

fn complete(entry: &fs::DirEntry) -> bool {
    entry.path().join("manifest.json").is_file()
}

/// The process of a rank of the job that writes to `out`.
fn process_of(rank: usize, out: &Path) -> String {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let of = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let is_rank = of("environ").split('\0').any(|one| one == format!("OMPI_COMM_WORLD_RANK={rank}"));
        let command = of("cmdline");
        let mut words = command.split('\0');
        if is_rank && words.next() == Some(PROGRAM) && words.any(|word| Path::new(word) == out) {
            return entry.file_name().into_string().unwrap();
        }
    }
    panic!("rank {rank} of the job in {} is not running", out.display());
}

fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().unwrap().success());
}

/// How a job ends that must end by itself, and how long that took.
fn end(job: Child) -> (Output, Duration) {
    let began = Instant::now();
    (job.wait_with_output().unwrap(), began.elapsed())
}

#[test]
fn killed_rank_is_named_and_the_run_goes_on_bit_for_bit() {
    if !has_mpirun() {
        return;
    }
    for rank in [0, 3] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let job = start(&out, &[]);
        signal("-KILL", &process_of(rank, &out));
        let (output, took) = end(job);
        let said = refusal(&output);
        assert!(took < Duration::from_secs(10), "it took {took:?}\n{said}");
        let named = format!("rank {rank} on host {}", rank / 2);
        assert!(said.contains(&named) && said.contains("in phase `"), "{said}");
        // To the next multiple of twenty steps and some, from wherever it was.
        let path = out.to_str().unwrap();
        let resumed = train(Some(mpirun(4)), &[&["--resume", path, "--json"], OVER_MPI, &["--steps", "400"]]);
        let whole = train(None, &[RUN, CLUSTER, &["--steps", "400", "--json"]]);
        assert_eq!(digest(&resumed), digest(&whole), "rank {rank}");
    }
}

#[test]
fn stopped_rank_is_named_after_the_limit() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (out, config) = (folder.path().join("run"), folder.path().join("config.toml"));
    fs::write(&config, "[train]\nwait_limit_s = 2.0\n").unwrap();
    let job = start(&out, &[config.to_str().unwrap()]);
    signal("-STOP", &process_of(2, &out));
    let (output, took) = end(job);
    let said = refusal(&output);
    assert!(took < Duration::from_secs(20), "it took {took:?}\n{said}");
    assert!(said.contains("rank 2 on host 1"), "{said}");
    for rank in [0, 1, 3] {
        assert!(said.contains(&format!("rank {rank} on host {}, phase `", rank / 2)), "{said}");
    }
}
