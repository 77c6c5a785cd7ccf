//! Brings an increment and all that it builds on together, so that it stands alone.
//!
//! ```text
//! step-000000000300/rank-0000.safetensors     rows that were updated since step 200
//!                   whole-0000.safetensors    all rows at step 300: written beside it
//!                   manifest.json             replaced at once; rank-0000.safetensors is deleted after the next checkpoint
//! ```
//!
//! Whoever is killed meanwhile leaves the increment as it was, or the whole checkpoint. Increments that build on this one find it by its
//! identity, which stays.

use super::folder::Folder;
use super::manifest::whole_name;
use super::whole::write_whole;
use super::{Checkpoint, CheckpointError};
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the checkpoint of `step` hold everything itself, unless `stop` is set meanwhile. Returns whether it does. What is damaged is refused,
/// and not sealed anew. A megabyte is in memory at a time, and the numbers of the rows of all increments.
pub fn compact(folder: &Folder, step: u64, stop: &AtomicBool) -> Result<bool, CheckpointError> {
    let checkpoint = Checkpoint::open(folder.of_step(step))?;
    if checkpoint.manifest().base.is_none() {
        return Ok(true);
    }
    folder.sweep(step)?;
    match write_whole(&checkpoint, checkpoint.path(), whole_name, stop) {
        Ok(written) => folder.replace_files(step, written).map(|()| true),
        Err(error) => {
            folder.sweep(step)?;
            if stop.load(Ordering::Relaxed) { Ok(false) } else { Err(error) }
        }
    }
}
