//! Names of the folders of checkpoints.

use std::path::{Path, PathBuf};

/// The checkpoint of `step` in the run or folder that the checkpoint `beside` lies in, complete or not there.
pub fn of_step(beside: &Path, step: u64) -> PathBuf {
    beside.with_file_name(folder_name(step))
}

/// Name of the folder of the checkpoint of a step.
pub(super) fn folder_name(step: u64) -> String {
    format!("step-{step:012}")
}

/// The step whose folder has exactly this name.
pub(super) fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (folder_name(step) == name).then_some(step)
}
