//! Starting jobs, and reading what they say.

use crate::skipped::skipped;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A small run: some steps, tables on all ranks, a short evaluation.
pub const SMALL: &[&str] =
    &["--samples", "20480", "--eval-samples", "512", "--batch", "510", "--rows-cap", "2000", "--steps", "12"];

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_campanile");

/// Whether there is an `mpirun` that can start processes; says so if not.
pub fn has_mpirun() -> bool {
    let has = mpirun(1).arg("true").output().is_ok_and(|output| output.status.success());
    if !has {
        skipped("mpi", "there is no mpirun on this machine, or it cannot start processes");
    }
    has
}

/// The script that makes hosts of network namespaces.
fn cluster_script() -> Command {
    Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cluster"))
}

/// Hosts with links between them, and a launcher for their ranks.
pub fn cluster(hosts: &str, ranks: &str) -> Command {
    let mut command = cluster_script();
    command.args(["--hosts", hosts, "--ranks-per-host", ranks, "--rate", "400mbit", "--"]);
    command
}

/// Whether this machine lets us make hosts; says so if not.
pub fn has_clusters() -> bool {
    let check = cluster_script().arg("--check").output().expect("bash runs scripts");
    if !check.status.success() {
        skipped("hosts", String::from_utf8_lossy(&check.stderr).trim());
    }
    check.status.success()
}

/// `mpirun` as these tests use it: more ranks than cores, maybe as root.
pub fn mpirun(ranks: usize) -> Command {
    mpirun_within("120", ranks)
}

/// As [`mpirun`], for a job that may take so many seconds.
pub fn mpirun_within(seconds: &str, ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]);
    command.args(["--timeout", seconds, "-np", &ranks.to_string()]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    // Jobs of several tests at once fail now and then where they make and remove one folder for all.
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("the folder can be made");
    command.env("OMPI_MCA_orte_tmpdir_base", scratch);
    command
}

/// Trains in this process, or in the processes that `launcher` starts.
pub fn train(launcher: Option<Command>, arguments: &[&[&str]]) -> Output {
    campanile(launcher, "train", arguments)
}

/// Runs a command in this process, or in the processes that `launcher` starts.
pub fn campanile(launcher: Option<Command>, name: &str, arguments: &[&[&str]]) -> Output {
    let mut command = match launcher {
        None => Command::new(PROGRAM),
        Some(mut launcher) => {
            launcher.arg(PROGRAM);
            launcher
        }
    };
    command.arg(name).args(arguments.concat()).output().expect("it can be started")
}

/// The JSON of a run that must end well.
pub fn result(output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let mut objects = out.lines().filter(|line| line.starts_with('{'));
    let object = objects.next().unwrap_or_else(|| panic!("no JSON in {out}{err}"));
    assert_eq!(objects.next(), None, "one rank alone reports");
    serde_json::from_str(object).expect("it is JSON")
}

/// What a run says that must fail.
pub fn refusal(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success(), "it should have failed:\n{said}");
    said
}

/// The digest of the parameters at the end.
pub fn digest(output: &Output) -> String {
    result(output)["parameters_sha256"].as_str().expect("a digest").to_owned()
}
