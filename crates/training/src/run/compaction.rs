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
    /// Checkpoint that was compacted last, whose replaced files somebody may still be reading.
    compacted: Option<u64>,
    /// Why increments could not be brought together, until it is told. The next checkpoint is full then.
    failure: Option<CheckpointError>,
    failed: bool,
}

#[derive(Debug)]
struct UnderWay {
    step: u64,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<bool, CheckpointError>>,
}

impl Compaction {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            increments: Vec::new(),
            identity: String::new(),
            under_way: None,
            compacted: None,
            failure: None,
            failed: false,
        }
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

    /// Whether the next checkpoint should hold everything: the chain has become twice as long as it should be, or cannot be brought together.
    /// Then nothing is under way any more, since what it reads may be deleted once that checkpoint is complete.
    pub fn is_behind(&mut self) -> bool {
        if self.under_way.as_ref().is_some_and(|under_way| under_way.thread.is_finished()) {
            self.finish();
        }
        let behind = self.failed || self.increments.len() >= 2 * self.most;
        if behind {
            self.stop();
        }
        behind
    }

    /// Why increments could not be brought together, once.
    pub fn failure(&mut self) -> Option<CheckpointError> {
        self.failure.take()
    }

    /// Takes in that the checkpoint of `step` is complete in `folder`. Brings increments together once there are enough of them.
    pub fn saved(&mut self, folder: &Folder, step: u64, increment: bool) -> Result<(), CheckpointError> {
        if let Some(compacted) = self.compacted.take() {
            folder.sweep(compacted)?;
        }
        if self.under_way.as_ref().is_some_and(|under_way| under_way.thread.is_finished()) {
            self.finish();
        }
        if increment {
            self.increments.push(step);
        } else {
            self.increments.clear();
            self.failed = false;
        }
        if self.increments.len() < self.most || self.under_way.is_some() || self.failed {
            return Ok(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, stopped) = (folder.clone(), stop.clone());
        let thread = std::thread::spawn(move || compact(&folder, step, &stopped));
        self.under_way = Some(UnderWay { step, stop, thread });
        Ok(())
    }

    /// Stops what is under way. The increments stay as they are.
    pub fn stop(&mut self) {
        if let Some(under_way) = &self.under_way {
            under_way.stop.store(true, Ordering::Relaxed);
        }
        self.finish();
    }

    /// Waits for what is under way.
    fn finish(&mut self) {
        let Some(UnderWay { step, thread, .. }) = self.under_way.take() else { return };
        let panicked =
            |_| Err(CheckpointError::Rows { problem: "a thread that joins checkpoints panicked".into() });
        match thread.join().unwrap_or_else(panicked) {
            Ok(true) => {
                self.increments.retain(|&increment| increment > step);
                self.compacted = Some(step);
            }
            Ok(false) => {}
            Err(error) => (self.failure, self.failed) = (Some(error), true),
        }
    }
}
