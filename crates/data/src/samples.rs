//! Decoded samples, as readers pass them to code that writes or counts them.

mod kept;
mod texts;

pub use kept::{Kept, MAX_TEXT_BYTES, MAX_TEXTS, Names};
pub use texts::Texts;

use crate::rows::Rows;
use spec::schema::Schema;

/// Consecutive samples of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Labels, 0 or 1: samples × labels, row-major.
    pub labels: Vec<f32>,
    /// Number of labels of a sample besides the first.
    pub extra_labels: usize,
    /// Weight of each sample, finite and at least 0; empty for logs without weights.
    pub weights: Vec<f32>,
    /// Columns that are kept besides the inputs.
    pub kept: Vec<Kept>,
    /// Dense inputs after the transform: samples × dense columns, row-major.
    pub dense: Vec<f32>,
    /// Numbers of the dense columns before the transform, NaN if missing: samples × dense columns, row-major; empty unless they
    /// were requested.
    pub numbers: Vec<f64>,
    /// Bags of each sparse column.
    pub bags: Vec<Bags>,
    /// Rows that were read for these samples, bad ones included; empty unless they were requested.
    pub rows: Rows,
}

/// Bags of one sparse column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bags {
    /// Number of ids in the bag of each sample; empty if every bag holds exactly one.
    pub lengths: Vec<u32>,
    /// Ids, sample after sample: the 64-bit key of the id's text, or its row for vocabularies and row numbers.
    pub ids: Vec<u64>,
    /// Weight of each id; empty for columns without weights.
    pub weights: Vec<f32>,
    /// Text of each id; `None` unless texts were requested.
    pub texts: Option<Texts>,
}

impl Samples {
    /// No samples, of `columns` sparse columns, with one label.
    pub fn new(columns: usize) -> Self {
        Self { bags: vec![Bags::default(); columns], ..Self::default() }
    }

    /// No samples, with the columns of `schema`.
    pub fn of(schema: &Schema) -> Self {
        Self {
            extra_labels: schema.label_count() - 1,
            kept: vec![Kept::default(); schema.keep.len()],
            ..Self::new(schema.sparse.len())
        }
    }

    /// Number of labels of a sample.
    pub fn label_count(&self) -> usize {
        1 + self.extra_labels
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len() / self.label_count()
    }

    /// First label of each sample.
    pub fn first_labels(&self) -> impl Iterator<Item = f32> {
        self.labels.iter().step_by(self.label_count()).copied()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Removes all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.weights.clear();
        self.kept.iter_mut().for_each(Kept::clear);
        self.dense.clear();
        self.numbers.clear();
        for bags in &mut self.bags {
            bags.texts.iter_mut().for_each(Texts::clear);
            bags.lengths.clear();
            bags.ids.clear();
            bags.weights.clear();
        }
        self.rows.clear();
    }

    /// Appends each sample to `held` if its flag in `held_out` is true, and to `kept` otherwise. Rows and texts of ids
    /// are not divided.
    ///
    /// # Panics
    /// If `held_out` does not have one flag per sample, or `kept` or `held` has other columns.
    pub fn divide(&self, held_out: &[bool], kept: &mut Samples, held: &mut Samples) {
        assert_eq!(held_out.len(), self.len(), "a side for every sample");
        let (dense, labels) = (self.dense.len() / self.len().max(1), self.label_count());
        for (sample, &is_held) in held_out.iter().enumerate() {
            let to = if is_held { &mut *held } else { &mut *kept };
            to.labels.extend_from_slice(&self.labels[sample * labels..(sample + 1) * labels]);
            to.weights.extend(self.weights.get(sample));
            for (to, from) in to.kept.iter_mut().zip(&self.kept) {
                to.push_from(from, sample);
            }
            to.dense.extend_from_slice(&self.dense[sample * dense..(sample + 1) * dense]);
            if !self.numbers.is_empty() {
                to.numbers.extend_from_slice(&self.numbers[sample * dense..(sample + 1) * dense]);
            }
        }
        for (column, bags) in self.bags.iter().enumerate() {
            let mut start = 0;
            for (sample, &is_held) in held_out.iter().enumerate() {
                let to = if is_held { &mut held.bags[column] } else { &mut kept.bags[column] };
                let length = bags.lengths.get(sample).copied();
                let end = start + length.unwrap_or(1) as usize;
                to.lengths.extend(length);
                to.ids.extend_from_slice(&bags.ids[start..end]);
                if !bags.weights.is_empty() {
                    to.weights.extend_from_slice(&bags.weights[start..end]);
                }
                start = end;
            }
        }
    }
}

#[cfg(test)]
mod tests;
