//! A rank that dies or stops ends the job on all ranks, is named, and costs no work that was saved.

use crate::command::{PROGRAM, cluster, digest, has_clusters, has_mpirun, mpirun, refusal, train};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const RUN: &[&str] =
    &["--batch", "512", "--rows-cap", "2000", "--samples", "51200000", "--eval-samples", "512"];
const SAVED: &[&str] = &["--checkpoint-every", "20", "--json"];
pub const CLUSTER: &[&str] = &["--hosts", "2", "--ranks-per-host", "2"];
pub const OVER_MPI: &[&str] = &["--transport", "mpi", "--assume-hosts"];

/// A job that would go on for long; returns once it has saved a checkpoint.
pub fn start(mut launcher: Command, out: &Path, more: &[&str]) -> Child {
    launcher.arg(PROGRAM).arg("train").args(RUN).args(SAVED).args(CLUSTER).args(more).arg("--out").arg(out);
    let mut job = launcher.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
pub fn process_of(rank: usize, out: &Path) -> String {
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

pub fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().unwrap().success());
}

/// Whether a line says that a rank died, and where.
fn dies(said: &str, rank: usize) -> bool {
    let named = format!("rank {rank} on host {} (", rank / 2);
    said.lines().any(|line| line.contains(&named) && line.contains(" died in phase `"))
}

/// Whether a line says where a rank is that does not answer: its collective, and the number of that.
fn silent(said: &str, rank: usize) -> bool {
    let named = format!("rank {rank} on host {}", rank / 2);
    said.lines().any(|line| line.contains(&named) && line.contains(" #") && line.contains("does not answer"))
}

/// How a job ends that must end by itself, and how long that took.
pub fn end(job: Child) -> (Output, Duration) {
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
        let job = start(mpirun(4), &out, OVER_MPI);
        signal("-KILL", &process_of(rank, &out));
        let (output, took) = end(job);
        let said = refusal(&output);
        assert!(took < Duration::from_secs(10), "it took {took:?}\n{said}");
        assert!(dies(&said, rank), "{said}");
        // Twice as far as it was: a run keeps its rate for half of its steps, so that those done are those of the shorter run.
        let steps = (2 * saved_step(&out)).max(400).to_string();
        let path = out.to_str().unwrap();
        let resumed =
            train(Some(mpirun(4)), &[&["--resume", path, "--json"], OVER_MPI, &["--steps", &steps]]);
        let whole = train(None, &[RUN, CLUSTER, &["--steps", &steps, "--json"]]);
        assert_eq!(digest(&resumed), digest(&whole), "rank {rank}");
    }
}

/// The step of the last complete checkpoint in a run's folder.
fn saved_step(run: &Path) -> u64 {
    let entries = fs::read_dir(run.join("checkpoints")).unwrap().flatten();
    let step = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok();
    entries.filter_map(step).max().unwrap()
}

/// A config with little patience.
fn impatient(folder: &Path) -> String {
    let config = folder.join("config.toml");
    fs::write(&config, "[train]\nwait_limit_s = 2.0\n").unwrap();
    config.to_str().unwrap().to_owned()
}

/// Ranks on hosts of their own, which `mpirun` reaches over the network.
#[test]
fn killed_rank_on_another_host_is_named() {
    if !has_mpirun() || !has_clusters() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let job = start(cluster("2", "2"), &out, &["--transport", "mpi"]);
    signal("-KILL", &process_of(3, &out));
    let (output, took) = end(job);
    let said = refusal(&output);
    assert!(took < Duration::from_secs(10), "it took {took:?}\n{said}");
    assert!(dies(&said, 3) && said.contains("(host1, pid "), "{said}");
}

#[test]
fn ranks_behind_a_link_that_is_cut_are_named_after_the_limit() {
    if !has_mpirun() || !has_clusters() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (out, config) = (folder.path().join("run"), impatient(folder.path()));
    let job = start(cluster("2", "2"), &out, &["--transport", "mpi", &config]);
    let host = format!("camp{}-h1", job.id());
    let cut = Command::new("ip").args(["netns", "exec", &host, "ip", "link", "set", "eth0", "down"]).status();
    assert!(cut.unwrap().success());
    let (output, took) = end(job);
    let said = refusal(&output);
    assert!(took < Duration::from_secs(20), "it took {took:?}\n{said}");
    assert!(said.contains("missing: ranks ["), "{said}");
    // Either side may be the first to give up; it has not heard from the other.
    assert!((silent(&said, 2) && silent(&said, 3)) || (silent(&said, 0) && silent(&said, 1)), "{said}");
}

#[test]
fn stopped_rank_is_named_after_the_limit() {
    if !has_mpirun() {
        return;
    }
    // Rank 0, which else reports for all, and another.
    for stopped in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let (out, config) = (folder.path().join("run"), impatient(folder.path()));
        let job = start(mpirun(4), &out, &[OVER_MPI, &[&config]].concat());
        signal("-STOP", &process_of(stopped, &out));
        let (output, took) = end(job);
        let said = refusal(&output);
        assert!(took < Duration::from_secs(20), "it took {took:?}\n{said}");
        // Who waits for whom depends on where the others were; who does not answer is the one.
        assert!(said.contains("missing: ranks ["), "{said}");
        assert!(silent(&said, stopped), "{said}");
        for rank in (0..4).filter(|&rank| rank != stopped) {
            assert!(said.contains(&format!("rank {rank} on host {}, phase `", rank / 2)), "{said}");
        }
    }
}
