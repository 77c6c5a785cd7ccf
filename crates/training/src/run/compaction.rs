//! The chain of increments of a run, kept short beside the training.

use crate::checkpoint::{Checkpoint, CheckpointError, Folder, compact};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The increments since the last checkpoint that holds everything, on the rank that commits, and the thread that brings them together.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// Number of increments from which on they are brought together.
    most: usize,
    /// Steps of the increments, which ascend.
    increments: Vec<u64>,
    /// Identity of the last checkpoint.
    identity: String,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    step: u64,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<bool, CheckpointError>>,
}

impl Compaction {
    pub fn new(most: usize) -> Self {
        Self { most, increments: Vec::new(), identity: String::new(), under_way: None }
    }

    /// Goes on with the chain of a checkpoint.
    pub fn resume(&mut self, checkpoint: &Checkpoint) {
        let manifest = checkpoint.manifest();
        self.set_identity(manifest.identity.as_deref());
        // The first holds everything.
        self.increments = checkpoint.builds_on().chain([manifest.step]).skip(1).collect();
    }

    /// Identity of the last checkpoint; empty before the first.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    pub fn set_identity(&mut self, identity: Option<&str>) {
        self.identity = identity.unwrap_or_default().to_owned();
    }

    /// Whether the chain has become twice as long as it should be, so that the next checkpoint should hold everything.
    pub fn is_behind(&self) -> bool {
        self.increments.len() >= 2 * self.most
    }

    /// Takes in that the checkpoint of `step` is complete in `folder`. Brings increments together once there are enough of them.
    pub fn saved(&mut self, folder: &Folder, step: u64, increment: bool) -> Result<(), CheckpointError> {
        if self.under_way.as_ref().is_some_and(|under_way| under_way.thread.is_finished()) {
            self.finish()?;
        }
        if increment {
            self.increments.push(step);
        } else {
            self.increments.clear();
        }
        if self.increments.len() < self.most || self.under_way.is_some() {
            return Ok(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, stopped) = (folder.clone(), stop.clone());
        let thread = std::thread::spawn(move || compact(&folder, step, &stopped));
        self.under_way = Some(UnderWay { step, stop, thread });
        Ok(())
    }

    /// Stops what is under way. The increments stay as they are.
    pub fn stop(&mut self) -> Result<(), CheckpointError> {
        if let Some(under_way) = &self.under_way {
            under_way.stop.store(true, Ordering::Relaxed);
        }
        self.finish()
    }

    /// Waits for what is under way.
    fn finish(&mut self) -> Result<(), CheckpointError> {
        let Some(UnderWay { step, thread, .. }) = self.under_way.take() else { return Ok(()) };
        let panicked =
            |_| Err(CheckpointError::Rows { problem: "a thread that joins checkpoints panicked".into() });
        if thread.join().unwrap_or_else(panicked)? {
            self.increments.retain(|&increment| increment > step);
        }
        Ok(())
    }
}
