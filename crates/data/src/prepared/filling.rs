//! A block that is being filled.

use super::block::{BlockLayout, Column, Shape};
use super::manifest::{PreparedFeature, Values};
use crate::{Bags, Samples};
use bytemuck::cast_slice;
use std::ops::Range;

/// Samples of the block that is being filled, and counts over all blocks.
#[derive(Debug)]
pub(super) struct Filling {
    shape: Shape,
    labels: Vec<f32>,
    sample_weights: Vec<f32>,
    dense: Vec<f32>,
    sparse: Vec<FillingColumn>,
    /// Keys of each kept column.
    kept: Vec<Vec<u64>>,
    layout: BlockLayout,
    words: Vec<u32>,
}

/// One feature of the block that is being filled.
#[derive(Debug)]
struct FillingColumn {
    name: String,
    values: Values,
    column: Column,
    lengths: Vec<u32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    /// Number of ids in all blocks.
    total: u64,
    max: u32,
}

impl Filling {
    pub(super) fn new(shape: Shape, features: &[PreparedFeature]) -> Self {
        let column = |(feature, column): (&PreparedFeature, &Column)| FillingColumn {
            name: feature.name.clone(),
            values: feature.values,
            column: *column,
            lengths: vec![],
            ids: vec![],
            weights: vec![],
            total: 0,
            max: 0,
        };
        Self {
            sparse: features.iter().zip(&shape.sparse).map(column).collect(),
            kept: vec![vec![]; shape.kept],
            shape,
            labels: vec![],
            sample_weights: vec![],
            dense: vec![],
            layout: BlockLayout::default(),
            words: vec![],
        }
    }

    /// Number of samples in the block.
    pub(super) fn len(&self) -> usize {
        self.labels.len() / self.shape.labels
    }

    /// Checks that `samples` can be appended. The error says why they cannot.
    pub(super) fn check(&self, samples: &Samples) -> Result<(), String> {
        self.check_extras(samples)?;
        let dense = self.shape.dense;
        if samples.dense.len() != samples.len() * dense {
            return Err(format!(
                "{} dense values for {} samples × {dense}",
                samples.dense.len(),
                samples.len()
            ));
        }
        if samples.bags.len() != self.sparse.len() {
            return Err(format!("{} sparse columns, expected {}", samples.bags.len(), self.sparse.len()));
        }
        if let Some(at) = samples.labels.iter().position(|&label| label != 0.0 && label != 1.0) {
            let sample = at / self.shape.labels;
            return Err(format!("sample {sample} has label {}, neither 0 nor 1", samples.labels[at]));
        }
        if let Some(at) = samples.dense.iter().position(|value| !value.is_finite()) {
            let value = samples.dense[at];
            return Err(format!("sample {} has dense column {} = {value}", at / dense, at % dense));
        }
        self.sparse.iter().zip(&samples.bags).try_for_each(|(column, bags)| column.check(bags, samples.len()))
    }

    /// Checks labels, sample weights and kept columns.
    fn check_extras(&self, samples: &Samples) -> Result<(), String> {
        let Shape { labels, weighted, kept, .. } = self.shape;
        if samples.label_count() != labels || !samples.labels.len().is_multiple_of(labels) {
            return Err(format!("{} labels for samples of {labels}", samples.labels.len()));
        }
        let weights = if weighted { samples.len() } else { 0 };
        if samples.weights.len() != weights {
            return Err(format!("{} sample weights, expected {weights}", samples.weights.len()));
        }
        let fits = |weight: &f32| weight.is_finite() && *weight >= 0.0;
        if let Some(sample) = samples.weights.iter().position(|weight| !fits(weight)) {
            return Err(format!("sample {sample} has weight {}", samples.weights[sample]));
        }
        if samples.kept.len() != kept || samples.kept.iter().any(|column| column.keys.len() != samples.len())
        {
            return Err(format!("expected {kept} kept columns with a value for each sample"));
        }
        Ok(())
    }

    /// Appends the samples of `range`, whose ids begin at `ids` in each column, and advances `ids`.
    pub(super) fn append(&mut self, samples: &Samples, range: Range<usize>, ids: &mut [usize]) {
        let labels = self.shape.labels;
        self.labels.extend_from_slice(&samples.labels[range.start * labels..range.end * labels]);
        if self.shape.weighted {
            self.sample_weights.extend_from_slice(&samples.weights[range.clone()]);
        }
        for (keys, from) in self.kept.iter_mut().zip(&samples.kept) {
            keys.extend_from_slice(&from.keys[range.clone()]);
        }
        let dense = self.shape.dense;
        self.dense.extend_from_slice(&samples.dense[range.start * dense..range.end * dense]);
        for ((column, bags), at) in self.sparse.iter_mut().zip(&samples.bags).zip(ids) {
            *at = column.append(bags, range.clone(), *at);
        }
    }

    /// Encodes the block, and returns it with its checksum. Fails if a feature has too many ids. Empties the block.
    pub(super) fn encode(&mut self) -> Result<(&[u32], u64), String> {
        let mut counts = Vec::with_capacity(self.sparse.len());
        for column in &self.sparse {
            let count = u32::try_from(column.ids.len()).map_err(|_| {
                format!("feature {} has over 2³² ids in a block; make blocks smaller", column.name)
            })?;
            counts.push(count);
        }
        self.layout.set(&self.shape, self.len(), &counts);
        let words = &mut self.words;
        words.clear();
        words.resize(self.layout.labels, 0);
        words.extend_from_slice(cast_slice(&self.labels));
        words.extend_from_slice(cast_slice(&self.sample_weights));
        words.extend_from_slice(cast_slice(&self.dense));
        self.labels.clear();
        self.sample_weights.clear();
        self.dense.clear();
        for column in &mut self.sparse {
            words.append(&mut column.lengths);
        }
        for column in &mut self.sparse {
            words.append(&mut column.ids);
        }
        for column in &mut self.sparse {
            words.extend_from_slice(cast_slice(&column.weights));
            column.weights.clear();
        }
        for keys in &mut self.kept {
            words.extend_from_slice(cast_slice(keys));
            keys.clear();
        }
        debug_assert_eq!(words.len(), self.layout.end);
        let checksum = self.layout.seal(&mut self.words);
        Ok((&self.words, checksum))
    }

    /// Stores the counts over `samples` samples in `features`.
    pub(super) fn count(&self, samples: u64, features: &mut [PreparedFeature]) {
        for (feature, column) in features.iter_mut().zip(&self.sparse) {
            feature.mean_ids = column.total as f64 / samples.max(1) as f64;
            feature.max_ids = column.max;
        }
    }
}

impl FillingColumn {
    fn check(&self, bags: &Bags, samples: usize) -> Result<(), String> {
        let refuse = |problem: String| Err(format!("column {}: {problem}", self.name));
        let ids = bags.ids.len();
        if bags.lengths.is_empty() {
            if ids != samples {
                return refuse(format!("{ids} ids for {samples} samples, one each"));
            }
        } else {
            let total: u64 = bags.lengths.iter().map(|&length| u64::from(length)).sum();
            if bags.lengths.len() != samples || total != ids as u64 {
                let lengths = bags.lengths.len();
                return refuse(format!(
                    "{lengths} lengths of {total} ids, for {samples} samples and {ids} ids"
                ));
            }
            if !self.column.many
                && let Some(length) = bags.lengths.iter().find(|&&length| length != 1)
            {
                return refuse(format!("a bag of {length} ids in a column with exactly one"));
            }
        }
        let weights = if self.column.weighted { ids } else { 0 };
        if bags.weights.len() != weights {
            return refuse(format!("{} weights, expected {weights}", bags.weights.len()));
        }
        if let Some(weight) = bags.weights.iter().find(|weight| !weight.is_finite()) {
            return refuse(format!("weight {weight} is not a finite number"));
        }
        if let Values::Rows(rows) = self.values
            && let Some(id) = bags.ids.iter().find(|&&id| id >= rows)
        {
            return refuse(format!("row {id} is outside the table's {rows} rows"));
        }
        Ok(())
    }

    /// Appends the bags of `range`, whose ids begin at `at`. Returns the end of their ids.
    fn append(&mut self, bags: &Bags, range: Range<usize>, at: usize) -> usize {
        let lengths = bags.lengths.get(range.clone()).unwrap_or_default();
        let count = match bags.lengths.is_empty() {
            true => range.len(),
            false => lengths.iter().map(|&length| length as usize).sum(),
        };
        if self.column.many {
            match bags.lengths.is_empty() {
                true => self.lengths.resize(self.lengths.len() + range.len(), 1),
                false => self.lengths.extend_from_slice(lengths),
            }
        }
        let max = if bags.lengths.is_empty() { 1 } else { lengths.iter().copied().max().unwrap_or(0) };
        self.max = self.max.max(max);
        self.total += count as u64;
        let ids = &bags.ids[at..at + count];
        match self.values {
            Values::Hashed => self.ids.extend(ids.iter().map(|&key| (key >> 32) as u32)),
            Values::Rows(_) => self.ids.extend(ids.iter().map(|&row| row as u32)),
        }
        if self.column.weighted {
            self.weights.extend_from_slice(&bags.weights[at..at + count]);
        }
        at + count
    }
}
