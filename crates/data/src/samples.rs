//! Decoded samples on their way from a reader to whoever keeps or counts them.

use crate::rows::Rows;

/// Some samples of a log, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// 0 or 1, one per sample.
    pub labels: Vec<f32>,
    /// Samples × dense columns, row-major, transformed.
    pub dense: Vec<f32>,
    /// The bags of each sparse column.
    pub bags: Vec<Bags>,
    /// The rows that were read for these samples, bad ones among them; empty where nobody asked for them.
    pub rows: Rows,
}

/// One sparse column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bags {
    /// Ids in each sample's bag; empty where every bag holds exactly one.
    pub lengths: Vec<u32>,
    /// Ids, sample after sample: the 64-bit key of the id's text, or the row for vocabularies and row numbers.
    pub ids: Vec<u64>,
    /// One per id; empty for columns without weights.
    pub weights: Vec<f32>,
}

impl Samples {
    /// None yet, of `columns` sparse columns.
    pub fn new(columns: usize) -> Self {
        Self { bags: vec![Bags::default(); columns], ..Self::default() }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Empties everything and keeps the memory.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.dense.clear();
        for bags in &mut self.bags {
            bags.lengths.clear();
            bags.ids.clear();
            bags.weights.clear();
        }
        self.rows.clear();
    }

    /// Appends the samples whose place in `held_out` is true to `held`, and the others to `kept`. Rows are not divided.
    ///
    /// # Panics
    /// If `held_out` has another length than the samples, or one of the two other columns.
    pub fn divide(&self, held_out: &[bool], kept: &mut Samples, held: &mut Samples) {
        assert_eq!(held_out.len(), self.len(), "a side for every sample");
        let dense = self.dense.len() / self.len().max(1);
        for (sample, &is_held) in held_out.iter().enumerate() {
            let to = if is_held { &mut *held } else { &mut *kept };
            to.labels.push(self.labels[sample]);
            to.dense.extend_from_slice(&self.dense[sample * dense..(sample + 1) * dense]);
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
