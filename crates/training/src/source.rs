//! Where a rank's samples come from.
//!
//! Positions count on over epochs: position `p` is sample `p mod len` of epoch `p / len`, so that a position alone says
//! where a run is, shuffling included. No range spans two epochs.

use crate::prefetch::Prefetch;
use data::prepared::BoundLog;
use data::shuffle::Shuffle;
use data::{Batch, DataError, SyntheticLog};
use spec::model::Model;
use std::ops::Range;

/// Samples by position. Any rank may read any of them.
#[derive(Debug)]
pub enum Source {
    /// Generated as they are read.
    Synthetic(SyntheticLog),
    /// A prepared log.
    Prepared {
        /// The log, bound to the model's features.
        log: BoundLog,
        /// Shuffles every epoch within windows of so many samples, by this seed.
        shuffle: Option<(u64, u64)>,
    },
    /// Another source, read ahead of time.
    Ahead(Prefetch),
    /// Batches in memory, used over and over: sample `i` is sample `i % batch` of batch `(i / batch) % batches`. Only
    /// whole shares of a batch can be read; for tests and benchmarks.
    Resident(Vec<Batch>),
}

impl Source {
    /// Replaces the contents of `batch` by the samples at `positions`.
    pub fn fill(&mut self, positions: Range<u64>, batch: &mut Batch) -> Result<(), DataError> {
        match self {
            Source::Synthetic(log) => {
                let (_, samples) = of_epoch(positions, log.len());
                log.fill(samples, batch);
                Ok(())
            }
            Source::Prepared { log, shuffle } => {
                let (epoch, samples) = of_epoch(positions, log.len());
                match *shuffle {
                    None => log.fill(samples, batch),
                    Some((window, seed)) => {
                        log.fill_shuffled(samples, &Shuffle { seed, epoch, window }, batch)
                    }
                }
            }
            Source::Ahead(prefetch) => prefetch.take(positions, batch),
            Source::Resident(batches) => {
                let size = batches[0].samples as u64;
                let from = &batches[(positions.start / size) as usize % batches.len()];
                let first = (positions.start % size) as usize;
                batch.copy_range(from, first..first + (positions.end - positions.start) as usize);
                Ok(())
            }
        }
    }

    /// As [`fill`](Self::fill), and refuses a batch that does not fit the model.
    pub fn read(&mut self, positions: Range<u64>, model: &Model, batch: &mut Batch) -> Result<(), DataError> {
        self.fill(positions, batch)?;
        match self {
            // Checked by the thread that read it.
            Source::Ahead(_) => Ok(()),
            _ => batch.check(model.features(), model.dense_features()),
        }
    }
}

/// The epoch of `positions`, and the samples they are in it.
fn of_epoch(positions: Range<u64>, len: u64) -> (u64, Range<u64>) {
    let epoch = positions.start / len.max(1);
    (epoch, positions.start - epoch * len..positions.end - epoch * len)
}
