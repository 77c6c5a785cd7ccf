//! Files of runs, which no other command writes.

use crate::folder::{
    CHECKPOINTS, CONFIG, LOCK, METRICS, PREPARED, REPORT, SCHEDULE, SCHEDULE_JSON, SUMMARY, TENSORBOARD,
    VOCABULARIES,
};
use anyhow::{Result, bail};
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
pub fn refuse(path: &Path, file: &Path) -> Result<()> {
    let named = path.display();
    let Some(parent) = file.parent() else { return Ok(()) };
    if is_run(parent) && FILES.iter().any(|name| file.ends_with(name)) {
        bail!(
            "{named}: belongs to the run in {}, and is never replaced, not even with --force; give another name",
            parent.display()
        );
    }
    refuse_inside(path, parent)
}

/// Refuses `folder`, to which `path` leads or in which it leads somewhere, if it lies in a checkpoint or belongs to a run.
pub fn refuse_inside(path: &Path, folder: &Path) -> Result<()> {
    let named = path.display();
    for folder in folder.ancestors() {
        if is_checkpoint(folder) {
            bail!(
                "{named}: lies in a checkpoint, {}, into which nothing else is written, not even with --force; give another folder",
                folder.display()
            );
        }
        let above = folder.parent().filter(|above| is_run(above));
        if let Some(run) = above.filter(|_| FOLDERS.iter().any(|name| folder.ends_with(name))) {
            bail!(
                "{named}: lies in {} of the run in {}, into which nothing else is written, not even with --force; give another folder",
                folder.strip_prefix(run).unwrap_or(folder).display(),
                run.display()
            );
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
