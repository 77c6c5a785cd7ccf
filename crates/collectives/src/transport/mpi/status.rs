//! What each rank says about itself in a file, so that others can read it when the rank does not answer or is gone.
//!
//! The file is mapped into the rank's memory: saying something costs a few hundred bytes of stores, no call of the
//! system, and what was said survives the rank. Files of one job lie in one folder on each host.

mod file;
mod record;

pub(super) use file::{StatusFile, remove};
pub use record::ProcessStatus;

use crate::RankStatus;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// How names of folders begin.
const PREFIX: &str = "campanile-status-";

/// A name for a job: which process started it, where and when.
pub(super) fn job_id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", node_name(), std::process::id(), since.as_millis())
}

/// Where the ranks of a job keep their status files on this host.
fn folder(job: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{job}"))
}

/// Makes the status file of this process, one rank of a job. A run goes on without it, if it cannot be made.
pub(super) fn keep(job: &str, rank: usize, host: usize) -> Option<StatusFile> {
    let folder = folder(job);
    sweep(&folder);
    let missing =
        |error: &io::Error| eprintln!("rank {rank} has no status file in {}: {error}", folder.display());
    StatusFile::create(folder.clone(), rank, host, &node_name()).inspect_err(missing).ok()
}

/// Removes what jobs of this machine have left in the folder's parent that were killed to the last process.
fn sweep(folder: &Path) {
    let siblings = folder.parent().and_then(|parent| fs::read_dir(parent).ok());
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    for other in siblings.into_iter().flatten().flatten().map(|entry| entry.path()).filter(named) {
        let ranks = read_all(&other).unwrap_or_default();
        // Processes of other machines that share the folder cannot be seen here.
        let gone = |rank: &ProcessStatus| {
            rank.node == node_name() && !Path::new(&format!("/proc/{}", rank.pid)).exists()
        };
        if !ranks.is_empty() && ranks.iter().all(gone) {
            let _ = fs::remove_dir_all(&other);
        }
    }
}

/// What the system calls this machine.
pub(super) fn node_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    // It becomes part of a file's name.
    if name.is_empty() || name.contains('/') { "unknown".to_owned() } else { name.to_owned() }
}

/// What all ranks of a job have last said in their status files, in rank order. Files that hold no whole record, and
/// those that vanish meanwhile, are left out.
pub fn read_all(folder: &Path) -> io::Result<Vec<ProcessStatus>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        all.extend(file::read(&entry?.path()).ok());
    }
    all.sort_unstable_by_key(|process| process.status.rank);
    Ok(all)
}

/// What one process has last said in its status file.
pub(super) fn read(path: &Path) -> io::Result<ProcessStatus> {
    file::read(path)
}

/// What a rank that does not answer has last said in its status file, if that can be read here.
pub(super) fn of_silent(folder: &Path, rank: usize) -> Option<RankStatus> {
    let process = file::read(&file::path(folder, rank)).ok()?;
    (process.status.rank == rank).then_some(RankStatus { answers: false, ..process.status })
}

#[cfg(test)]
mod tests;
