//! Starts a command on the ranks of a cluster.

use crate::error::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Starts jobs on a cluster, by a command line in which `{hosts}`, `{ranks_per_host}`, `{ranks}`, `{rate}` and `{counters}` stand
/// for values of the job.
pub struct Launcher {
    /// Path of the `campanile` binary.
    pub program: PathBuf,
    /// Command line with placeholders.
    pub template: String,
    /// Rate of the links between hosts, for launchers that create them.
    pub rate: String,
    /// Folder for the counters of a job.
    pub folder: PathBuf,
}

/// Bytes that the interface of a host sent.
#[derive(Deserialize)]
struct Counter {
    sent: u64,
}

/// The result of a job, and the bytes that crossed its interfaces.
pub struct Ended {
    /// The last JSON object that the job printed.
    pub result: Value,
    /// Bytes that all hosts sent, where the launcher counts them.
    pub counted: Option<u64>,
}

impl Launcher {
    /// Runs the program with `arguments` on a cluster.
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
        let mut command = Command::new(words.next().ok_or(Error::NoLauncher)?);
        command.args(words).arg(&self.program).args(arguments);
        Ok(Ended { result: last_object(command)?, counted: read_counters(&counters)? })
    }
}

/// Runs `program` with `arguments` as one process, whose ranks are threads, and returns the last JSON object it printed.
pub fn run_here(program: &Path, arguments: &[String]) -> Result<Value> {
    let mut command = Command::new(program);
    command.args(arguments);
    last_object(command)
}

fn last_object(mut command: Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output();
    let name = format!("{command:?}");
    let output = output.map_err(|source| Error::Start { command: name.clone(), source })?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let printed = || format!("{out}{err}");
    if !output.status.success() {
        return Err(Error::Job { command: name, status: output.status.to_string(), output: printed() });
    }
    let object = out.lines().rev().find(|line| line.starts_with('{'));
    let Some(object) = object else { return Err(Error::NoResult { command: name, output: printed() }) };
    serde_json::from_str(object).map_err(Error::json("the result of a job"))
}

fn read_counters(path: &Path) -> Result<Option<u64>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let counters: Vec<Counter> =
        serde_json::from_str(&text).map_err(Error::json("the counters of the interfaces"))?;
    Ok(Some(counters.iter().map(|counter| counter.sent).sum()))
}

#[cfg(test)]
mod tests;
