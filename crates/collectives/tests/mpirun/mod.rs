//! A test binary that is both things: what `cargo test` starts, which starts `mpirun`, and the rank that `mpirun` starts.

use collectives::{MpiJob, watch_if_asked};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A test, and what it is called. Those whose names begin with `long_` run only when asked for, as ignored ones do.
pub type Test = (&'static str, fn());

/// How a job ended.
pub struct Ended {
    pub success: bool,
    pub took: Duration,
    /// Standard output and standard error of all ranks.
    pub said: String,
}

/// Runs `rank` with the arguments if `mpirun` has started this process, as a part of the job, which is watched; and else the
/// tests that the arguments choose.
pub fn main(rank: fn(&[String], MpiJob) -> ExitCode, tests: &[Test]) -> ExitCode {
    let watch = watch_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os("OMPI_COMM_WORLD_RANK").is_some() {
        return rank(&arguments, MpiJob::join(Some(&watch)).expect("an MPI job"));
    }
    let is_long = |name: &str| name.starts_with("long_");
    let ignored = arguments.iter().any(|argument| argument == "--ignored");
    if arguments.iter().any(|argument| argument == "--list") {
        tests
            .iter()
            .filter(|(name, _)| !ignored || is_long(name))
            .for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let trial = Command::new("mpirun").args(["--allow-run-as-root", "-np", "1", "true"]).output();
    if !trial.is_ok_and(|trial| trial.status.success()) {
        let demanded = std::env::var("CAMPANILE_NO_SKIPS").unwrap_or_default();
        let why = "no mpirun on this machine can start processes, so nothing was tested here";
        assert!(!demanded.split(' ').any(|name| name == "mpi"), "CAMPANILE_NO_SKIPS names mpi, but {why}");
        println!("SKIPPED: {why}");
        return ExitCode::SUCCESS;
    }
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let matches = |name: &str| {
        let fits = |wanted: &&String| if exact { name == *wanted } else { name.contains(wanted.as_str()) };
        is_long(name) == ignored && (wanted.is_empty() || wanted.iter().any(fits))
    };
    let mut failed = 0;
    for (name, test) in tests.iter().filter(|(name, _)| matches(name)) {
        let start = Instant::now();
        let ok = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {} ({:.1?})", if ok { "ok" } else { "FAILED" }, start.elapsed());
        failed += u32::from(!ok);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs this binary as so many ranks.
pub fn mpirun(ranks: usize, arguments: &[&str]) -> Ended {
    let mut job = Command::new("mpirun");
    job.args(["--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]);
    job.args(["--mca", "mpi_yield_when_idle", "1", "--timeout", "120", "-np", &ranks.to_string()]);
    job.arg(std::env::current_exe().expect("this is a file")).args(arguments);
    job.env("RUST_BACKTRACE", "0");
    // Jobs of several tests at once fail now and then where they make and remove one folder for all.
    let scratch = tempfile::tempdir().expect("a folder can be made");
    job.env("OMPI_MCA_orte_tmpdir_base", scratch.path());
    let start = Instant::now();
    let ended = job.output().expect("mpirun can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = format!("{}{}", text(&ended.stdout), text(&ended.stderr));
    Ended { success: ended.status.success(), took: start.elapsed(), said }
}
