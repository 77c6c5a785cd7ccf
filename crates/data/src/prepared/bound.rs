//! A prepared log that is bound to the features of a model.

use super::gather::Gather;
use super::reader::{Blocks, View};
use super::{PreparedLog, Values};
use crate::{Batch, DataError};
use spec::feature::Feature;
use std::ops::Range;
use std::sync::Arc;

/// Reader of a prepared log for one rank and the features of a model.
///
/// The reader keeps the offsets in recent blocks, and the permutation of one window. After warm-up it allocates only for
/// batches, blocks or windows that are larger than any before.
#[derive(Debug)]
pub struct BoundLog {
    pub(super) log: Arc<PreparedLog>,
    /// Samples of the log that are read; sample 0 of the reader is the first of them.
    pub(super) part: Range<u64>,
    pub(super) tables: Vec<Table>,
    pub(super) weighted: bool,
    pub(super) blocks: Blocks,
    pub(super) gather: Gather,
}

/// Conversion of the stored values of a feature to rows of its table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    hashed: bool,
    rows: u64,
    pub(super) many: bool,
    pub(super) weighted: bool,
}

impl BoundLog {
    /// Another reader of the same samples.
    pub fn another(&self) -> Self {
        Self {
            log: self.log.clone(),
            part: self.part.clone(),
            tables: self.tables.clone(),
            weighted: self.weighted,
            blocks: Blocks::default(),
            gather: Gather::default(),
        }
    }

    /// Reader of `log` for `features`, which must be those of the log.
    pub(super) fn new(log: Arc<PreparedLog>, features: &[Feature]) -> Self {
        let ours = log.manifest().features.iter();
        let tables: Vec<Table> = ours
            .zip(features)
            .map(|(ours, theirs)| Table {
                name: ours.name.clone(),
                hashed: ours.values == Values::Hashed,
                rows: theirs.rows as u64,
                many: ours.many,
                weighted: ours.weighted,
            })
            .collect();
        let weighted = tables.iter().any(|table| table.weighted);
        let part = 0..log.manifest().samples;
        Self { log, part, tables, weighted, blocks: Blocks::default(), gather: Gather::default() }
    }

    /// Restricts the reader to these samples, as if there were no others. Samples that the log does not have are left out.
    pub fn part(mut self, samples: Range<u64>) -> Self {
        let end = samples.end.min(self.part.end);
        self.part = samples.start.min(end)..end;
        self
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.part.end - self.part.start
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The prepared log.
    pub fn log(&self) -> &Arc<PreparedLog> {
        &self.log
    }

    /// Replaces the contents of `batch` by `samples`. After an error the contents are undefined.
    pub fn fill(&mut self, samples: Range<u64>, batch: &mut Batch) -> Result<(), DataError> {
        self.begin(&samples, batch)?;
        let samples = self.part.start + samples.start..self.part.start + samples.end;
        let size = u64::from(self.log.manifest().block_samples);
        let pieces = || pieces(samples.clone(), size);
        self.blocks.hold(pieces().count());
        for (block, _) in pieces() {
            self.blocks.enter(&self.log, block)?;
        }
        let view = |block| self.blocks.view(&self.log, block);
        let (columns, labels) = (self.log.shape().dense, self.log.shape().labels);
        for (block, samples) in pieces() {
            let of_block = samples.start * labels..samples.end * labels;
            batch.labels.extend_from_slice(&view(block).labels()[of_block]);
            if self.log.shape().weighted {
                batch.sample_weights.extend_from_slice(&view(block).sample_weights()[samples.clone()]);
            }
            let dense = samples.start * columns..samples.end * columns;
            batch.dense.extend_from_slice(&view(block).dense()[dense]);
        }
        for feature in 0..self.tables.len() {
            for (block, samples) in pieces() {
                self.append(feature, view(block), &samples, batch)?;
            }
            self.end_feature(feature, batch)?;
        }
        Ok(())
    }

    /// Empties the batch for `samples`, which must be in the log.
    pub(super) fn begin(&self, samples: &Range<u64>, batch: &mut Batch) -> Result<(), DataError> {
        let len = self.len();
        if samples.start > samples.end || samples.end > len {
            let problem = format!(
                "has {len} samples, but {}..{} were requested; please report this",
                samples.start, samples.end
            );
            return Err(DataError::file(self.log.folder(), problem));
        }
        batch.clear();
        batch.samples = (samples.end - samples.start) as usize;
        batch.feature_starts.push(0);
        Ok(())
    }

    /// Appends one feature of some samples of a block.
    fn append(
        &self,
        feature: usize,
        block: View<'_>,
        samples: &Range<usize>,
        batch: &mut Batch,
    ) -> Result<(), DataError> {
        let table = &self.tables[feature];
        let ids = if table.many { block.bags(feature, samples) } else { Some(samples.clone()) };
        let Some(ids) = ids else {
            return Err(self.log.changed(&table.name));
        };
        let values = &block.values(feature)[ids.clone()];
        match table.hashed {
            true => batch.values.extend(values.iter().map(|&value| table.row(value))),
            false => batch.values.extend_from_slice(values),
        }
        if table.many {
            batch.lengths.extend_from_slice(&block.lengths(feature)[samples.clone()]);
        } else {
            batch.lengths.resize(batch.lengths.len() + samples.len(), 1);
        }
        if table.weighted {
            batch.weights.extend_from_slice(&block.weights(feature)[ids]);
        } else if self.weighted {
            batch.weights.resize(batch.values.len(), 1.0);
        }
        Ok(())
    }

    /// Ends a feature and checks that its rows are in its table. Blocks were checked for that when they were first read, but
    /// kernels rely on it, and a file may change.
    pub(super) fn end_feature(&self, feature: usize, batch: &mut Batch) -> Result<(), DataError> {
        batch.feature_starts.push(batch.values.len());
        let table = &self.tables[feature];
        if !table.hashed
            && let Some(&row) = batch.values(feature).iter().max()
            && u64::from(row) >= table.rows
        {
            return Err(self.log.changed(&table.name));
        }
        Ok(())
    }
}

impl Table {
    /// Row of a stored value.
    #[inline]
    pub(super) fn row(&self, value: u32) -> u32 {
        if self.hashed { ((u64::from(value) * self.rows) >> 32) as u32 } else { value }
    }
}

/// Blocks that hold `samples`, with the range of samples in each.
fn pieces(samples: Range<u64>, size: u64) -> impl Iterator<Item = (usize, Range<usize>)> {
    let blocks = samples.start / size..samples.end.div_ceil(size);
    blocks.map(move |block| {
        let first = block * size;
        let start = samples.start.max(first) - first;
        let end = samples.end.min(first.saturating_add(size)) - first;
        (block as usize, start as usize..end as usize)
    })
}
