//! Where a rank's samples come from.

use data::{Batch, DataError, SyntheticLog};
use std::ops::Range;

/// Samples by number. Any rank may read any of them.
#[derive(Debug)]
pub enum Source {
    /// Generated as they are read.
    Synthetic(SyntheticLog),
    /// Batches in memory, used over and over: sample `i` is sample `i % batch` of batch `(i / batch) % batches`. Only
    /// whole shares of a batch can be read; for tests and benchmarks.
    Resident(Vec<Batch>),
}

impl Source {
    /// Replaces the contents of `batch` by `samples`.
    pub fn fill(&self, samples: Range<u64>, batch: &mut Batch) -> Result<(), DataError> {
        match self {
            Source::Synthetic(log) => log.fill(samples, batch),
            Source::Resident(batches) => {
                let size = batches[0].samples as u64;
                let from = &batches[(samples.start / size) as usize % batches.len()];
                let first = (samples.start % size) as usize;
                batch.copy_range(from, first..first + (samples.end - samples.start) as usize);
            }
        }
        Ok(())
    }
}
