//! Files of runs, which no other command writes.

use super::OutputError;
use crate::folder::{
    CHECKPOINTS, CONFIG, LOCK, METRICS, PREPARED, REPORT, SCHEDULE, SCHEDULE_JSON, SUMMARY, TENSORBOARD,
    VOCABULARIES,
};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Files of a run, in its folder.
const FILES: [&str; 7] = [CONFIG, LOCK, METRICS, REPORT, SCHEDULE, SCHEDULE_JSON, SUMMARY];
/// Folders of a run, in its folder.
const FOLDERS: [&str; 4] = [CHECKPOINTS, PREPARED, TENSORBOARD, VOCABULARIES];
/// How the folder of a checkpoint is called begins with it.
const STEP: &str = "step-";

/// Refuses `file`, to which `path` leads, if it belongs to a run or lies in a checkpoint.
pub fn refuse(path: &Path, file: &Path) -> Result<(), OutputError> {
    let Some(parent) = file.parent() else { return Ok(()) };
    if is_run(parent) && FILES.iter().any(|name| file.ends_with(name)) {
        return Err(OutputError::OfRun { path: path.to_owned(), run: parent.to_owned() });
    }
    refuse_inside(path, parent)
}

/// Refuses `folder`, to which `path` leads or in which it leads somewhere, if it lies in a checkpoint or belongs to a run.
pub fn refuse_inside(path: &Path, folder: &Path) -> Result<(), OutputError> {
    for folder in folder.ancestors() {
        if is_checkpoint(folder) {
            return Err(OutputError::InCheckpoint { path: path.to_owned(), checkpoint: folder.to_owned() });
        }
        let above = folder.parent().filter(|above| is_run(above));
        if let Some(run) = above.filter(|_| FOLDERS.iter().any(|name| folder.ends_with(name))) {
            let part = folder.strip_prefix(run).unwrap_or(folder).to_owned();
            return Err(OutputError::InRun { path: path.to_owned(), part, run: run.to_owned() });
        }
    }
    Ok(())
}

/// Whether a run is kept in a folder.
fn is_run(folder: &Path) -> bool {
    folder.join(METRICS).is_file() && (folder.join(CONFIG).is_file() || folder.join(CHECKPOINTS).is_dir())
}

/// Whether a folder is a checkpoint, complete or not: by its name and place, or by what it holds.
fn is_checkpoint(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let of_step = [STEP, ".writing-step-", ".deleting-step-"].iter().any(|begin| name.starts_with(begin));
    if of_step && folder.parent().is_some_and(|above| above.ends_with(CHECKPOINTS)) {
        return true;
    }
    let Ok(text) = fs::read(folder.join("manifest.json")) else { return false };
    match serde_json::from_slice::<Value>(&text) {
        Ok(manifest) => manifest.get("tensors").is_some() && manifest.get("step").is_some(),
        // Damaged, and so all the more in need of care.
        Err(_) => folder.join("rank-0000.safetensors").exists(),
    }
}
