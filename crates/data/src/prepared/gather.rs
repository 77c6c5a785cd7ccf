//! Reads shuffled batches: samples from all over a window.
//!
//! The samples of a batch are read in the order of the log and written at their places in the batch, part by part and block by
//! block: reads move forward through one section at a time, and writes stay inside the batch, which is small.

use super::reader::{Blocks, View};
use super::{BoundLog, PreparedLog};
use crate::shuffle::{MAX_WINDOW, WindowOrder};
use crate::{Batch, DataError, Shuffle};
use std::ops::Range;

/// Memory that a reader reuses from one shuffled batch to the next.
#[derive(Debug, Default)]
pub(super) struct Gather {
    order: WindowOrder,
    /// Samples of the batch, in the order of the log.
    picks: Vec<Pick>,
    /// Offset of the bag of each sample among the values of its block.
    starts: Vec<u32>,
    /// Offset of the bag of each sample among the values of the batch.
    targets: Vec<usize>,
}

/// A sample of the batch.
#[derive(Clone, Copy, Debug)]
struct Pick {
    block: u64,
    /// Index of the sample in its block.
    sample: u32,
    /// Index of the sample in the batch.
    target: u32,
}

impl BoundLog {
    /// Replaces the contents of `batch` by the samples at some positions of a shuffled epoch. After an error the contents are
    /// undefined.
    pub fn fill_shuffled(
        &mut self,
        positions: Range<u64>,
        order: &Shuffle,
        batch: &mut Batch,
    ) -> Result<(), DataError> {
        self.begin(&positions, batch)?;
        self.gather.pick(&self.log, &self.part, &mut self.blocks, positions, order)?;
        let Self { log, blocks, gather, tables, .. } = self;
        let (columns, count, weighted) = (log.shape().dense, log.shape().labels, log.shape().weighted);
        batch.labels.resize(batch.samples * count, 0.0);
        batch.sample_weights.resize(if weighted { batch.samples } else { 0 }, 0.0);
        batch.dense.resize(batch.samples * columns, 0.0);
        for (block, picks) in runs(&gather.picks, blocks, log) {
            let (labels, dense) = (block.labels(), block.dense());
            for pick in picks {
                let (from, to) = (pick.sample as usize, pick.target as usize);
                batch.labels[to * count..][..count].copy_from_slice(&labels[from * count..][..count]);
                let row = &dense[from * columns..][..columns];
                batch.dense[to * columns..][..columns].copy_from_slice(row);
            }
        }
        if weighted {
            for (block, picks) in runs(&gather.picks, blocks, log) {
                let weights = block.sample_weights();
                for pick in picks {
                    batch.sample_weights[pick.target as usize] = weights[pick.sample as usize];
                }
            }
        }
        for feature in 0..tables.len() {
            if self.tables[feature].many {
                self.gather_bags(feature, batch)?;
            } else {
                self.gather_ids(feature, batch);
            }
            self.end_feature(feature, batch)?;
        }
        Ok(())
    }

    /// Appends a feature with one id per sample.
    fn gather_ids(&mut self, feature: usize, batch: &mut Batch) {
        let table = &self.tables[feature];
        let ids = batch.values.len()..batch.values.len() + batch.samples;
        batch.lengths.resize(batch.lengths.len() + batch.samples, 1);
        batch.values.resize(ids.end, 0);
        let values = &mut batch.values[ids.clone()];
        for (block, picks) in runs(&self.gather.picks, &self.blocks, &self.log) {
            let stored = block.values(feature);
            for pick in picks {
                values[pick.target as usize] = table.row(stored[pick.sample as usize]);
            }
        }
        if self.weighted {
            batch.weights.resize(ids.end, 1.0);
        }
        if table.weighted {
            let weights = &mut batch.weights[ids];
            for (block, picks) in runs(&self.gather.picks, &self.blocks, &self.log) {
                let stored = block.weights(feature);
                for pick in picks {
                    weights[pick.target as usize] = stored[pick.sample as usize];
                }
            }
        }
    }

    /// Appends a feature with any number of ids per sample.
    fn gather_bags(&mut self, feature: usize, batch: &mut Batch) -> Result<(), DataError> {
        let table = &self.tables[feature];
        let Gather { picks, starts, targets, .. } = &mut self.gather;
        let samples = batch.lengths.len()..batch.lengths.len() + batch.samples;
        batch.lengths.resize(samples.end, 0);
        let lengths = &mut batch.lengths[samples];
        starts.clear();
        for (block, picks) in runs(picks, &self.blocks, &self.log) {
            for pick in picks {
                let sample = pick.sample as usize;
                let bag = block
                    .bags(feature, &(sample..sample + 1))
                    .ok_or_else(|| self.log.changed(&table.name))?;
                starts.push(bag.start as u32);
                lengths[pick.target as usize] = bag.len() as u32;
            }
        }
        targets.clear();
        let mut end = batch.values.len();
        for &length in &*lengths {
            targets.push(end);
            end += length as usize;
        }
        batch.values.resize(end, 0);
        if self.weighted {
            batch.weights.resize(end, 1.0);
        }
        let mut starts = starts.iter();
        for (block, picks) in runs(picks, &self.blocks, &self.log) {
            let stored = block.values(feature);
            let stored_weights = if table.weighted { block.weights(feature) } else { &[] };
            for (pick, &start) in picks.iter().zip(&mut starts) {
                let target = pick.target as usize;
                let from = start as usize..start as usize + lengths[target] as usize;
                let to = targets[target]..targets[target] + from.len();
                for (row, &value) in batch.values[to.clone()].iter_mut().zip(&stored[from.clone()]) {
                    *row = table.row(value);
                }
                if table.weighted {
                    batch.weights[to].copy_from_slice(&stored_weights[from]);
                }
            }
        }
        Ok(())
    }
}

impl Gather {
    /// Finds the samples at some positions, and loads their blocks.
    fn pick(
        &mut self,
        log: &PreparedLog,
        part: &Range<u64>,
        blocks: &mut Blocks,
        positions: Range<u64>,
        order: &Shuffle,
    ) -> Result<(), DataError> {
        let (window, len) = (order.window, part.end - part.start);
        if !(1..=MAX_WINDOW).contains(&window) {
            let problem = format!("cannot be shuffled in windows of {window} samples (1 to {MAX_WINDOW})");
            return Err(DataError::file(log.folder(), problem));
        }
        self.picks.clear();
        if positions.is_empty() {
            return Ok(());
        }
        // Capacity for all blocks of the windows, so that none is loaded twice.
        let size = u64::from(log.manifest().block_samples);
        let first = positions.start / window * window;
        let end = ((positions.end - 1) / window * window).saturating_add(window).min(len);
        blocks.hold(((part.start + end).div_ceil(size) - (part.start + first) / size) as usize);
        for (target, position) in positions.enumerate() {
            let sample = part.start + self.order.sample(order, position, len);
            let pick = Pick { block: sample / size, sample: (sample % size) as u32, target: target as u32 };
            self.picks.push(pick);
        }
        self.picks.sort_unstable_by_key(|pick| (pick.block, pick.sample));
        for picks in self.picks.chunk_by(|a, b| a.block == b.block) {
            blocks.enter(log, picks[0].block as usize)?;
        }
        Ok(())
    }
}

/// Samples of each block, with the block.
fn runs<'a>(
    picks: &'a [Pick],
    blocks: &'a Blocks,
    log: &'a PreparedLog,
) -> impl Iterator<Item = (View<'a>, &'a [Pick])> {
    let same_block = |a: &Pick, b: &Pick| a.block == b.block;
    picks.chunk_by(same_block).map(|picks| (blocks.view(log, picks[0].block as usize), picks))
}
