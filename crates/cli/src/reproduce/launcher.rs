//! Starts a command on the ranks of a cluster.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What starts jobs: a command line in which `{hosts}`, `{ranks_per_host}`, `{ranks}`, `{rate}` and `{counters}` stand
/// for those of the job.
pub struct Launcher {
    pub template: String,
    pub rate: String,
    /// Where files between the job and us go.
    pub folder: PathBuf,
}

/// What the interface of a host sent and received.
#[derive(Deserialize)]
struct Counter {
    sent: u64,
}

/// What a job printed, and what crossed its interfaces.
pub struct Ended {
    pub result: Value,
    /// Bytes that all hosts sent, where the launcher counts them.
    pub counted: Option<u64>,
}

impl Launcher {
    /// Runs this program with `arguments` on a cluster, and gives the last JSON object it printed.
    pub fn run(&self, hosts: usize, ranks_per_host: usize, arguments: &[String]) -> Result<Ended> {
        let counters = self.folder.join("counters.json");
        let _ = std::fs::remove_file(&counters);
        let fill = |word: &str| {
            word.replace("{hosts}", &hosts.to_string())
                .replace("{ranks_per_host}", &ranks_per_host.to_string())
                .replace("{ranks}", &(hosts * ranks_per_host).to_string())
                .replace("{rate}", &self.rate)
                .replace("{counters}", &counters.display().to_string())
        };
        let mut words = self.template.split_whitespace().map(fill);
        let mut command = Command::new(words.next().context("--launcher is empty")?);
        command.args(words).arg(this_program()?).args(arguments);
        Ok(Ended { result: last_object(command)?, counted: read_counters(&counters)? })
    }
}

/// Runs this program with `arguments`, in no cluster but its own threads, and gives the last JSON object it printed.
pub fn run_here(arguments: &[String]) -> Result<Value> {
    let mut command = Command::new(this_program()?);
    command.args(arguments);
    last_object(command)
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("the path of this program")
}

fn last_object(mut command: Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?}: cannot be started"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    let object = out.lines().rev().find(|line| line.starts_with('{'));
    let Some(object) = object else { bail!("{command:?} printed no result:\n{out}{err}") };
    serde_json::from_str(object).context("the result of a job")
}

fn read_counters(path: &Path) -> Result<Option<u64>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let counters: Vec<Counter> = serde_json::from_str(&text).context("the counters of the interfaces")?;
    Ok(Some(counters.iter().map(|counter| counter.sent).sum()))
}
