//! The blocks a reader is in.

use super::PreparedLog;
use super::block::{Layout, Starts};
use crate::DataError;
use std::ops::Range;

/// Blocks that have been entered: checked, and their parts found. Block `b` has its place at `b` modulo the number of
/// places, so that any run of blocks that is not longer than that is held at once.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    places: Vec<Entered>,
}

#[derive(Debug, Default)]
struct Entered {
    number: Option<usize>,
    layout: Layout,
    starts: Starts,
}

/// A block to read from.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    words: &'a [u32],
    layout: &'a Layout,
    starts: &'a Starts,
}

impl Blocks {
    /// Makes room for a run of `count` blocks.
    pub(super) fn hold(&mut self, count: usize) {
        if self.places.len() < count {
            self.places.resize_with(count, Entered::default);
        }
    }

    /// The place of block `number`.
    #[inline]
    pub(super) fn place(&self, number: usize) -> usize {
        number % self.places.len()
    }

    /// Enters block `number`, unless it has been. Returns its place.
    #[inline]
    pub(super) fn enter(&mut self, log: &PreparedLog, number: usize) -> Result<usize, DataError> {
        let at = self.place(number);
        let place = &mut self.places[at];
        if place.number != Some(number) {
            place.number = None;
            log.enter(number, &mut place.layout, &mut place.starts)?;
            place.number = Some(number);
        }
        Ok(at)
    }

    /// The block at a place that `enter` returned.
    #[inline]
    pub(super) fn view<'a>(&'a self, log: &'a PreparedLog, place: usize) -> View<'a> {
        let place = &self.places[place];
        let words = place.number.map_or(&[][..], |number| log.words(number));
        View { words, layout: &place.layout, starts: &place.starts }
    }
}

impl<'a> View<'a> {
    /// Labels of some samples.
    pub(super) fn labels(&self, samples: &Range<usize>) -> &'a [f32] {
        bytemuck::cast_slice(&self.words[self.layout.labels..][samples.clone()])
    }

    /// Dense values of some samples, which have `columns` each.
    pub(super) fn dense(&self, samples: &Range<usize>, columns: usize) -> &'a [f32] {
        let range = samples.start * columns..samples.end * columns;
        bytemuck::cast_slice(&self.words[self.layout.dense..][range])
    }

    /// Lengths of the bags of some samples, of a feature with many ids.
    pub(super) fn lengths(&self, feature: usize, samples: &Range<usize>) -> &'a [u32] {
        &self.words[self.layout.sparse[feature].lengths..][samples.clone()]
    }

    /// Where the ids of some samples lie among those of a feature with many; nothing if the block has changed since it
    /// was entered.
    pub(super) fn bags(&self, feature: usize, samples: &Range<usize>) -> Option<Range<usize>> {
        let start = |sample| self.layout.bag_start(self.starts, self.words, feature, sample);
        let bags = start(samples.start)..start(samples.end);
        (bags.start <= bags.end && bags.end <= self.layout.sparse[feature].count).then_some(bags)
    }

    /// Some ids of a feature, as they are stored.
    pub(super) fn values(&self, feature: usize, ids: Range<usize>) -> &'a [u32] {
        &self.words[self.layout.sparse[feature].values..][ids]
    }

    /// The only id of a sample.
    #[inline]
    pub(super) fn value(&self, feature: usize, sample: usize) -> u32 {
        self.words[self.layout.sparse[feature].values + sample]
    }

    /// Weights of some ids of a weighted feature.
    pub(super) fn weights(&self, feature: usize, ids: Range<usize>) -> &'a [f32] {
        bytemuck::cast_slice(&self.words[self.layout.sparse[feature].weights..][ids])
    }
}
