//! One rank's samples of one step, in the combined format of Neo (§7.1): for every feature the lengths of all bags,
//! then the ids of all bags, so that one feature's input is contiguous and can be sent as it lies.
//!
//! ```text
//! features A, B over samples 0, 1:   A₀ = [3], A₁ = [5], B₀ = [], B₁ = [2, 9]
//! lengths = 1 1 | 0 2      values = 3 5 | 2 9      feature_starts = 0 2 4
//! ```
//!
//! ```
//! use data::Batch;
//! let batch = Batch {
//!     samples: 2,
//!     labels: vec![0.0, 1.0],
//!     lengths: vec![1, 1, 0, 2],
//!     values: vec![3, 5, 2, 9],
//!     feature_starts: vec![0, 2, 4],
//!     ..Batch::default()
//! };
//! assert_eq!(batch.features(), 2);
//! assert_eq!(batch.lengths(1), [0, 2]);
//! assert_eq!(batch.values(1), [2, 9]);
//! ```

use super::DataError;
use spec::feature::{Feature, Hotness};
use std::ops::Range;

/// Batch of one rank: its samples of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Number of samples.
    pub samples: usize,
    /// Labels: samples × labels, row-major; 1 for a click, 0 for none.
    pub labels: Vec<f32>,
    /// Weight of each sample, finite and at least 0; empty for logs without weights.
    pub sample_weights: Vec<f32>,
    /// Dense inputs: samples × dense features, row-major.
    pub dense: Vec<f32>,
    /// Number of ids in each bag: features × samples, feature-major.
    pub lengths: Vec<u32>,
    /// Ids of all bags, as rows of their tables: feature-major, then by sample.
    pub values: Vec<u32>,
    /// Weight of each id, 1 for ids of unweighted features; empty if no feature is weighted.
    pub weights: Vec<f32>,
    /// Offsets of the features in `values`, and the end of the last one: features + 1 numbers.
    pub feature_starts: Vec<usize>,
}

impl Batch {
    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.samples = 0;
        self.labels.clear();
        self.sample_weights.clear();
        self.dense.clear();
        self.lengths.clear();
        self.values.clear();
        self.weights.clear();
        self.feature_starts.clear();
    }

    /// Number of sparse features.
    pub fn features(&self) -> usize {
        self.feature_starts.len().saturating_sub(1)
    }

    /// Number of ids in each bag of `feature`.
    pub fn lengths(&self, feature: usize) -> &[u32] {
        &self.lengths[feature * self.samples..][..self.samples]
    }

    /// Ids of `feature`, sample after sample.
    pub fn values(&self, feature: usize) -> &[u32] {
        &self.values[self.feature_starts[feature]..self.feature_starts[feature + 1]]
    }

    /// Weights of the ids of `feature`. Panics when no feature is weighted.
    pub fn weights(&self, feature: usize) -> &[f32] {
        &self.weights[self.feature_starts[feature]..self.feature_starts[feature + 1]]
    }

    /// Replaces the contents by some samples of another batch. Allocates only to grow.
    pub fn copy_range(&mut self, from: &Batch, samples: Range<usize>) {
        self.clear();
        self.samples = samples.len();
        let labels = from.labels.len() / from.samples.max(1);
        self.labels.extend_from_slice(&from.labels[samples.start * labels..samples.end * labels]);
        if !from.sample_weights.is_empty() {
            self.sample_weights.extend_from_slice(&from.sample_weights[samples.clone()]);
        }
        let dense = from.dense.len() / from.samples.max(1);
        self.dense.extend_from_slice(&from.dense[samples.start * dense..samples.end * dense]);
        self.feature_starts.push(0);
        for feature in 0..from.features() {
            let lengths = from.lengths(feature);
            let count = |lengths: &[u32]| lengths.iter().map(|&n| n as usize).sum::<usize>();
            let start = from.feature_starts[feature] + count(&lengths[..samples.start]);
            let end = start + count(&lengths[samples.clone()]);
            self.lengths.extend_from_slice(&lengths[samples.clone()]);
            self.values.extend_from_slice(&from.values[start..end]);
            if !from.weights.is_empty() {
                self.weights.extend_from_slice(&from.weights[start..end]);
            }
            self.feature_starts.push(self.values.len());
        }
    }

    /// Checks that the batch matches a model with these features, `dense` dense inputs and one label. Batches are checked
    /// once, here, so that no kernel need check an id again.
    pub fn check(&self, features: &[Feature], dense: usize) -> Result<(), DataError> {
        self.check_labelled(features, dense, 1)
    }

    /// Checks the batch as [`check`](Self::check) does, for a model with `labels` labels.
    pub fn check_labelled(&self, features: &[Feature], dense: usize, labels: usize) -> Result<(), DataError> {
        let sizes = [
            ("labels", self.labels.len(), self.samples * labels),
            ("dense values", self.dense.len(), self.samples * dense),
            ("lengths", self.lengths.len(), self.samples * features.len()),
            ("feature starts", self.feature_starts.len(), features.len() + 1),
        ];
        for (what, got, expected) in sizes {
            same(what, got, expected)?;
        }
        let weighted = features.iter().any(|feature| feature.weighted);
        same("weights", self.weights.len(), if weighted { self.values.len() } else { 0 })?;
        if let Some(at) = self.labels.iter().position(|&label| label != 0.0 && label != 1.0) {
            return Err(DataError::Label { sample: at / labels, label: self.labels[at] });
        }
        if !self.sample_weights.is_empty() {
            same("sample weights", self.sample_weights.len(), self.samples)?;
            let fits = |weight: &f32| weight.is_finite() && *weight >= 0.0;
            if let Some(sample) = self.sample_weights.iter().position(|weight| !fits(weight)) {
                return Err(DataError::SampleWeight { sample, weight: self.sample_weights[sample] });
            }
        }
        if let Some(at) = self.dense.iter().position(|value| !value.is_finite()) {
            return Err(DataError::Dense { sample: at / dense, column: at % dense, value: self.dense[at] });
        }
        let mut at = 0;
        for (f, feature) in features.iter().enumerate() {
            let name = || feature.name.clone();
            if self.feature_starts[f] != at {
                return Err(DataError::Start { feature: name(), got: self.feature_starts[f], expected: at });
            }
            if !weighted && self.is_one_hot(f, at, feature.rows) {
                at += self.samples;
                continue;
            }
            for (sample, &length) in self.lengths(f).iter().enumerate() {
                if feature.hotness == Hotness::One && length != 1 {
                    return Err(DataError::Length { feature: name(), sample, length });
                }
                let end = at + length as usize;
                let Some(bag) = self.values.get(at..end) else {
                    return Err(DataError::Size { what: "values", got: self.values.len(), expected: end });
                };
                if let Some(&id) = bag.iter().find(|&&id| id as usize >= feature.rows) {
                    return Err(DataError::Id { feature: name(), sample, id, rows: feature.rows });
                }
                if weighted {
                    let fits =
                        |weight: f32| if feature.weighted { weight.is_finite() } else { weight == 1.0 };
                    if let Some(&weight) = self.weights[at..end].iter().find(|&&weight| !fits(weight)) {
                        return Err(DataError::Weight { feature: name(), sample, weight });
                    }
                }
                at = end;
            }
        }
        same("values", self.values.len(), at)?;
        same("the last feature start", self.feature_starts[features.len()], at)
    }

    /// Whether every sample has one id of feature `f`, from value `at` on, and all are below `rows`: one pass that vector
    /// instructions make, since batches are read on the way to fast devices.
    fn is_one_hot(&self, f: usize, at: usize, rows: usize) -> bool {
        let ids = self.values.get(at..at + self.samples).unwrap_or_default();
        let most = ids.iter().fold(0, |most, &id| most.max(id));
        let ones = self.lengths(f).iter().fold(true, |ones, &length| ones & (length == 1));
        ones && ids.len() == self.samples && (ids.is_empty() || (most as usize) < rows)
    }
}

fn same(what: &'static str, got: usize, expected: usize) -> Result<(), DataError> {
    if got == expected { Ok(()) } else { Err(DataError::Size { what, got, expected }) }
}

#[cfg(test)]
mod tests;
