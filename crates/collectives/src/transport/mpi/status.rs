//! Status files: each rank writes what it is doing to a file, which others read when the rank does not answer or is gone.
//!
//! The file is mapped into the rank's memory: an update stores a few hundred bytes without a system call, and survives the
//! rank. The files of one job lie in one folder on each host.

mod entry;
mod file;

pub use entry::ProcessStatus;
pub(super) use file::{StatusFile, remove};

use crate::RankStatus;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Prefix of the names of folders with status files.
const PREFIX: &str = "campanile-status-";

/// Name of a job: the machine, the process that started it, and the time.
pub(super) fn job_id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", node_name(), std::process::id(), since.as_millis())
}

/// Folder in which the ranks of a job keep their status files on this host.
fn folder(job: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{job}"))
}

/// Creates the status file of this process, one rank of a job. A run goes on without the file if it cannot be created.
pub(super) fn keep(job: &str, rank: usize, host: usize) -> Option<StatusFile> {
    let folder = folder(job);
    sweep(&folder);
    let missing =
        |error: &io::Error| eprintln!("rank {rank} has no status file in {}: {error}", folder.display());
    StatusFile::create(folder.clone(), rank, host, &node_name()).inspect_err(missing).ok()
}

/// Removes the folders, beside `folder`, of jobs of this machine whose processes were all killed.
fn sweep(folder: &Path) {
    let siblings = folder.parent().and_then(|parent| fs::read_dir(parent).ok());
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    for other in siblings.into_iter().flatten().flatten().map(|entry| entry.path()).filter(named) {
        let ranks = read_all(&other).unwrap_or_default();
        // Processes of other machines that share the folder are not visible here.
        let gone = |rank: &ProcessStatus| {
            rank.node == node_name() && !Path::new(&format!("/proc/{}", rank.pid)).exists()
        };
        if !ranks.is_empty() && ranks.iter().all(gone) {
            let _ = fs::remove_dir_all(&other);
        }
    }
}

/// Name of this machine according to the operating system.
pub(super) fn node_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    // The name becomes part of a file name.
    if name.is_empty() || name.contains('/') { "unknown".to_owned() } else { name.to_owned() }
}

/// Reads the status files of all ranks of a job in `folder`, in rank order. Files without a whole entry, and files that
/// vanish meanwhile, are left out.
pub fn read_all(folder: &Path) -> io::Result<Vec<ProcessStatus>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        all.extend(file::read(&entry?.path()).ok());
    }
    all.sort_unstable_by_key(|process| process.status.rank);
    Ok(all)
}

/// Reads the status file of one process.
pub(super) fn read(path: &Path) -> io::Result<ProcessStatus> {
    file::read(path)
}

/// Reads the status file of a rank that does not answer; none if it cannot be read on this machine.
pub(super) fn of_silent(folder: &Path, rank: usize) -> Option<RankStatus> {
    let process = file::read(&file::path(folder, rank)).ok()?;
    (process.status.rank == rank).then_some(RankStatus { answers: false, ..process.status })
}

#[cfg(test)]
mod tests;
