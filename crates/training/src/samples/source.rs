//! Source of a rank's samples.
//!
//! Positions count on over epochs: position `p` is sample `p mod len` of epoch `p / len`, so that a position alone says
//! where a run is, shuffling included. No range spans two epochs.

mod prefetch;

pub use prefetch::Prefetch;

use data::prepared::BoundLog;
use data::shuffle::Shuffle;
use data::{Batch, DataError, SyntheticLog};
use spec::model::Model;
use std::ops::Range;
use std::sync::Arc;

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
    /// The first few batches of another source, again and again.
    Repeated(Repeated),
    /// Batches in memory, used over and over: sample `i` is sample `i % batch` of batch `(i / batch) % batches`. Only
    /// whole shares of a batch can be read; for tests and benchmarks.
    Resident(Arc<[Batch]>),
}

/// The first few batches of a source, again and again.
#[derive(Debug)]
pub struct Repeated {
    source: Box<Source>,
    kept: Vec<Batch>,
    next: usize,
}

/// Batches that [`Repeated`] keeps: enough for buffers to change places.
const KEPT: usize = 2;

impl Repeated {
    /// The positions only say how many samples are wanted: a batch of another size than the first is read truly.
    fn fill(&mut self, positions: Range<u64>, batch: &mut Batch) -> Result<(), DataError> {
        let samples = (positions.end - positions.start) as usize;
        let other_size = self.kept.first().is_some_and(|first| first.samples != samples);
        if other_size || self.kept.len() < KEPT {
            self.source.fill(positions, batch)?;
            if !other_size {
                self.kept.push(batch.clone());
            }
            return Ok(());
        }
        batch.copy_range(&self.kept[self.next % KEPT], 0..samples);
        self.next += 1;
        Ok(())
    }
}

impl Source {
    /// Batches in memory, used over and over.
    pub fn resident(batches: Vec<Batch>) -> Source {
        Source::Resident(batches.into())
    }

    /// A source without samples, where one must stand in for another.
    pub fn none() -> Source {
        Source::resident(Vec::new())
    }

    /// Another reader of the same samples; `None` for a source that only one can read.
    fn another(&self) -> Option<Source> {
        match self {
            Source::Synthetic(log) => Some(Source::Synthetic(log.clone())),
            Source::Prepared { log, shuffle } => {
                Some(Source::Prepared { log: log.another(), shuffle: *shuffle })
            }
            Source::Resident(batches) => Some(Source::Resident(batches.clone())),
            Source::Ahead(_) | Source::Repeated(_) => None,
        }
    }

    /// The first two batches of `source`, again and again.
    pub fn repeated(source: Source) -> Source {
        Source::Repeated(Repeated { source: Box::new(source), kept: Vec::with_capacity(KEPT), next: 0 })
    }

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
            Source::Repeated(repeated) => repeated.fill(positions, batch),
            Source::Resident(batches) => {
                let size = batches[0].samples as u64;
                let from = &batches[(positions.start / size) as usize % batches.len()];
                let first = (positions.start % size) as usize;
                batch.copy_range(from, first..first + (positions.end - positions.start) as usize);
                Ok(())
            }
        }
    }

    /// Replaces the contents of `batch` as [`fill`](Self::fill) does, and refuses a batch that does not fit the model.
    pub fn read(&mut self, positions: Range<u64>, model: &Model, batch: &mut Batch) -> Result<(), DataError> {
        self.fill(positions, batch)?;
        match self {
            // Checked by the thread that read it.
            Source::Ahead(_) => Ok(()),
            _ => batch.check_labelled(model.features(), model.dense_features(), model.outputs()),
        }
    }
}

/// The epoch of `positions`, and the samples they are in it.
fn of_epoch(positions: Range<u64>, len: u64) -> (u64, Range<u64>) {
    let epoch = positions.start / len.max(1);
    (epoch, positions.start - epoch * len..positions.end - epoch * len)
}
