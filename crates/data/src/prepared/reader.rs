//! Blocks that a reader has loaded.

use super::block::{BlockLayout, Starts};
use super::{PreparedLog, Values};
use crate::samples::Kept;
use crate::{Bags, DataError, Samples};
use std::ops::Range;

/// Loaded blocks: checked, with their offsets. Block `b` is stored at index `b` modulo the capacity, so that any consecutive
/// blocks up to the capacity are held at once.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    places: Vec<Entered>,
}

#[derive(Debug, Default)]
struct Entered {
    number: Option<usize>,
    layout: BlockLayout,
    starts: Starts,
}

/// A block to read from.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    words: &'a [u32],
    layout: &'a BlockLayout,
    starts: &'a Starts,
}

impl Blocks {
    /// Sets the capacity to at least `count` consecutive blocks.
    pub(super) fn hold(&mut self, count: usize) {
        if self.places.len() < count {
            self.places.resize_with(count, Entered::default);
        }
    }

    /// Loads block `number`, unless it is loaded.
    pub(super) fn enter(&mut self, log: &PreparedLog, number: usize) -> Result<(), DataError> {
        let places = self.places.len();
        let place = &mut self.places[number % places];
        if place.number != Some(number) {
            place.number = None;
            log.enter(number, &mut place.layout, &mut place.starts)?;
            place.number = Some(number);
        }
        Ok(())
    }

    /// Block `number`, which must be loaded.
    pub(super) fn view<'a>(&'a self, log: &'a PreparedLog, number: usize) -> View<'a> {
        let place = &self.places[number % self.places.len()];
        debug_assert_eq!(place.number, Some(number));
        View { words: log.words(number), layout: &place.layout, starts: &place.starts }
    }
}

impl<'a> View<'a> {
    /// Labels: samples × labels.
    pub(super) fn labels(&self) -> &'a [f32] {
        bytemuck::cast_slice(&self.words[self.layout.labels..self.layout.sample_weights])
    }

    /// Sample weights, one per sample; none for logs without weights.
    pub(super) fn sample_weights(&self) -> &'a [f32] {
        bytemuck::cast_slice(&self.words[self.layout.sample_weights..self.layout.dense])
    }

    /// Keys of a kept column, one per sample.
    pub(super) fn kept(&self, column: usize) -> impl Iterator<Item = u64> + use<'a> {
        let samples = self.layout.samples;
        let (pairs, _) =
            self.words[self.layout.kept + 2 * column * samples..][..2 * samples].as_chunks::<2>();
        pairs.iter().map(|&[low, high]| u64::from(low) | u64::from(high) << 32)
    }

    /// Dense inputs: samples × dense columns.
    pub(super) fn dense(&self) -> &'a [f32] {
        bytemuck::cast_slice(&self.words[self.layout.dense..self.layout.dense_end])
    }

    /// Lengths of the bags of a feature with many ids.
    pub(super) fn lengths(&self, feature: usize) -> &'a [u32] {
        &self.words[self.layout.sparse[feature].lengths..][..self.layout.samples]
    }

    /// Range of the ids of some samples among those of a feature with many ids; `None` if the block has changed since it was
    /// loaded.
    #[inline]
    pub(super) fn bags(&self, feature: usize, samples: &Range<usize>) -> Option<Range<usize>> {
        let start = |sample| self.layout.bag_start(self.starts, self.words, feature, sample);
        let bags = start(samples.start)..start(samples.end);
        (bags.start <= bags.end && bags.end <= self.layout.sparse[feature].count).then_some(bags)
    }

    /// The ids of a feature, as they are stored.
    pub(super) fn values(&self, feature: usize) -> &'a [u32] {
        let sections = &self.layout.sparse[feature];
        &self.words[sections.values..][..sections.count]
    }

    /// Weights, one for each id of a weighted feature.
    pub(super) fn weights(&self, feature: usize) -> &'a [f32] {
        let sections = &self.layout.sparse[feature];
        bytemuck::cast_slice(&self.words[sections.weights..][..sections.count])
    }
}

impl PreparedLog {
    /// Replaces `samples` by those of a block. Keys of hashed ids keep their upper half; the lower half is zero. Texts of
    /// kept columns are in the manifest only.
    pub fn read_block(&self, number: u64, samples: &mut Samples) -> Result<(), DataError> {
        let blocks = self.manifest().blocks();
        if number >= blocks {
            let problem =
                format!("has {blocks} blocks, but block {number} was requested; please report this");
            return Err(DataError::file(self.folder(), problem));
        }
        let mut blocks = Blocks::default();
        blocks.hold(1);
        blocks.enter(self, number as usize)?;
        let view = blocks.view(self, number as usize);
        samples.clear();
        samples.extra_labels = self.manifest().schema.label_count() - 1;
        samples.labels.extend_from_slice(view.labels());
        samples.weights.extend_from_slice(view.sample_weights());
        samples.kept.resize(self.manifest().kept.len(), Kept::default());
        for (column, kept) in samples.kept.iter_mut().enumerate() {
            kept.keys.extend(view.kept(column));
        }
        samples.dense.extend_from_slice(view.dense());
        samples.bags.resize(self.manifest().features.len(), Bags::default());
        for (f, (feature, bags)) in self.manifest().features.iter().zip(&mut samples.bags).enumerate() {
            let shift = if feature.values == Values::Hashed { 32 } else { 0 };
            bags.ids.extend(view.values(f).iter().map(|&value| u64::from(value) << shift));
            if feature.many {
                bags.lengths.extend_from_slice(view.lengths(f));
            }
            if feature.weighted {
                bags.weights.extend_from_slice(view.weights(f));
            }
        }
        Ok(())
    }
}
