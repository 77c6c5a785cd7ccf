//! Synthetic click logs with planted structure. Samples are drawn by counter, so that any rank can read any of them without a
//! file.
//!
//! ```text
//! logit(sample) = bias + Σ_parts scale·part        click with probability 1 / (1 + e^−logit)
//! within = Σ_groups Σ_{f<f′} ⟨u_f, u_f′⟩ = ½ Σ_groups (‖Σ_f u_f‖² − Σ_f ‖u_f‖²)
//! across = Σ_bridges ⟨u_f, u_f′⟩                   main = Σ_f effect_f        dense = Σ_j a_j·x_j + b_j·(x_j² − 1)
//! ```
//!
//! `u_f` and `effect_f` belong to the ids of the sample and are pooled as the feature is. The settings are documented in
//! [`spec::synthetic`]. Scales and bias are measured on [`SCALING_SAMPLES`] samples that no split contains.
//!
//! ```
//! use spec::{feature::Feature, synthetic::Synthetic};
//! use data::{Batch, Split, SyntheticLog};
//! let features: Vec<Feature> = (1..=16)
//!     .map(|f| Feature { name: format!("C{f}"), rows: 10 * f, pooling: Default::default(), hotness: Default::default(), weighted: false, dim: None, format: None, cache: None, tt_rank: None })
//!     .collect();
//! let log = SyntheticLog::new(&Synthetic::default(), &features, 13, Split::Train)?;
//! let mut batch = Batch::default();
//! log.fill(1000..1064, &mut batch);
//! batch.check(&features, 13)?;
//! assert!((0.0..1.0).contains(&log.probability(1000)));
//! # Ok::<(), data::DataError>(())
//! ```

mod column;
mod zipf;

use super::{Batch, DataError};
use column::{Column, LATENT, check};
use spec::feature::Feature;
use spec::random::RandomSequence;
use spec::synthetic::{MAX_GROUPS, Synthetic};
use std::ops::Range;

/// Number of samples on which scales and bias are measured.
pub const SCALING_SAMPLES: u64 = 16_384;

/// Part of a log that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Samples to train on.
    Train,
    /// Samples to choose hyperparameters and towers by: the same truth, but other samples; as many as for evaluation.
    Validation,
    /// Samples to evaluate on: the same truth, but other samples.
    Eval,
}

/// One split of a synthetic log, which can be read at any sample. Clones share their tables, so that many ranks hold them once.
#[derive(Clone, Debug)]
pub struct SyntheticLog {
    samples: u64,
    columns: Vec<Column>,
    groups: Vec<Vec<usize>>,
    /// Every feature once, with the feature that it is bridged to.
    bridges: Vec<(usize, Option<usize>)>,
    /// Coefficients `a` and `b` of each dense feature.
    slopes: Vec<(f32, f32)>,
    dense: RandomSequence,
    labels: RandomSequence,
    scales: [f64; 4],
    bias: f64,
}

impl SyntheticLog {
    /// Sets up a split of the log that `settings` describe, for a model with these inputs.
    pub fn new(
        settings: &Synthetic,
        features: &[Feature],
        dense_features: usize,
        split: Split,
    ) -> Result<Self, DataError> {
        settings.check(features.len(), dense_features)?;
        check(features)?;
        let seed = settings.seed;
        let order = shuffle(features.len(), RandomSequence::new(seed, "synthetic.groups"));
        let sizes = settings.group_sizes(features.len());
        let mut groups: Vec<Vec<usize>> = vec![vec![]; settings.groups];
        // One feature to each group in turn, as long as it has room.
        let mut turns = (0..settings.groups).cycle();
        for &feature in &order {
            let next = turns.by_ref().find(|&group| groups[group].len() < sizes[group]);
            groups[next.unwrap_or_default()].push(feature);
        }
        groups.iter_mut().for_each(|group| group.sort_unstable());
        let group_of = |feature| groups.iter().position(|group| group.contains(&feature)).unwrap_or(0);
        let columns: Vec<Column> = features
            .iter()
            .enumerate()
            .map(|(f, feature)| Column::new(settings, feature, group_of(f)))
            .collect();
        let slopes = RandomSequence::new(seed, "synthetic.slopes");
        let slopes = (0..dense_features as u64)
            .map(|j| (slopes.symmetric(2 * j, 1.0), slopes.symmetric(2 * j + 1, 0.25)))
            .collect();
        let order = shuffle(features.len(), RandomSequence::new(seed, "synthetic.bridges"));
        let bridges = bridge(&columns, &order, settings.groups);
        let none = RandomSequence::new(seed, "");
        let samples = if split == Split::Train { settings.samples } else { settings.eval_samples };
        let mut log = Self {
            samples,
            columns,
            groups,
            bridges,
            slopes,
            dense: none,
            labels: none,
            scales: [0.0; 4],
            bias: 0.0,
        };
        log.draw_from(seed, features, "calibration");
        log.fit_scales(settings)?;
        let drawn = match split {
            Split::Train => "train",
            Split::Validation => "validation",
            Split::Eval => "eval",
        };
        log.draw_from(seed, features, drawn);
        Ok(log)
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Planted groups of features, each in ascending order.
    pub fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// True click probability of `sample`, which no model can predict better.
    pub fn probability(&self, sample: u64) -> f64 {
        self.click(self.parts(sample, |_, _, _| (), |_| ()))
    }

    /// Replaces the contents of `batch` by `samples`. Allocates only to grow the batch.
    ///
    /// # Panics
    /// If `samples` reaches beyond [`len`](Self::len).
    pub fn fill(&self, samples: Range<u64>, batch: &mut Batch) {
        assert!(samples.end <= self.samples, "samples {samples:?} of a log of {}", self.samples);
        batch.clear();
        batch.samples = samples.clone().count();
        let mut values = 0;
        for column in &self.columns {
            batch.feature_starts.push(values);
            for sample in samples.clone() {
                let length = column.length(sample);
                batch.lengths.push(length as u32);
                values += length as usize;
            }
        }
        batch.values.resize(values, 0);
        let weighted = self.columns.iter().any(|column| column.weighted);
        batch.weights.resize(if weighted { values } else { 0 }, 1.0);
        // While bags are written, feature_starts holds the offset of the next bag: in the end, the start of the next feature.
        for sample in samples {
            let place = |feature: usize, id, weight| {
                let at = batch.feature_starts[feature];
                batch.feature_starts[feature] = at + 1;
                batch.values[at] = id;
                if weighted {
                    batch.weights[at] = weight;
                }
            };
            let chance = self.click(self.parts(sample, place, |x| batch.dense.push(x)));
            batch.labels.push(if self.labels.unit_f64(sample) < chance { 1.0 } else { 0.0 });
        }
        batch.feature_starts.insert(0, 0);
    }

    /// Computes the parts main, dense, within and across, unscaled. Calls the callbacks with the inputs of the sample.
    #[inline]
    fn parts(
        &self,
        sample: u64,
        mut id: impl FnMut(usize, u32, f32),
        mut dense: impl FnMut(f32),
    ) -> [f64; 4] {
        let mut sums = [[0.0; LATENT]; MAX_GROUPS];
        let (mut main, mut squares, mut across) = (0.0, 0.0, 0.0);
        let mut visit = |feature: usize| {
            let column = &self.columns[feature];
            let bag = column.bag(sample, |row, weight| id(feature, row, weight));
            let sum = &mut sums[column.group];
            (0..LATENT).for_each(|d| sum[d] += bag.latent[d]);
            squares += dot(&bag.latent, &bag.latent);
            main += bag.effect;
            bag.latent
        };
        for &(first, second) in &self.bridges {
            let latent = visit(first);
            if let Some(second) = second {
                across += dot(&latent, &visit(second));
            }
        }
        let mut curve = 0.0;
        let start = sample.wrapping_mul(self.slopes.len() as u64);
        for (j, &(a, b)) in self.slopes.iter().enumerate() {
            // Variance 1.
            let x = self.dense.symmetric(start.wrapping_add(j as u64), 1.732_050_8);
            dense(x);
            curve += a * x + b * (x * x - 1.0);
        }
        let within = 0.5 * (sums[..self.groups.len()].iter().map(|sum| dot(sum, sum)).sum::<f32>() - squares);
        [main, curve, within, across].map(f64::from)
    }

    fn click(&self, parts: [f64; 4]) -> f64 {
        let logit = self.bias + parts.iter().zip(&self.scales).map(|(part, scale)| part * scale).sum::<f64>();
        sigmoid(logit)
    }

    fn draw_from(&mut self, seed: u64, features: &[Feature], split: &str) {
        let stream = |what: &str| RandomSequence::new(seed, &format!("synthetic.{split}.{what}"));
        (self.dense, self.labels) = (stream("dense"), stream("label"));
        for (column, Feature { name, .. }) in self.columns.iter_mut().zip(features) {
            let [ids, lengths, weights] =
                ["id", "length", "weight"].map(|what| stream(&format!("{what}.{name}")));
            column.draw_from(ids, lengths, weights);
        }
    }

    fn fit_scales(&mut self, settings: &Synthetic) -> Result<(), DataError> {
        let parts: Vec<[f64; 4]> =
            (0..SCALING_SAMPLES).map(|sample| self.parts(sample, |_, _, _| (), |_| ())).collect();
        let asked = [
            ("main", settings.main),
            ("dense", settings.dense),
            ("within", settings.within),
            ("across", settings.across),
        ];
        for (p, (part, asked)) in asked.into_iter().enumerate() {
            let mean = parts.iter().map(|parts| parts[p]).sum::<f64>() / SCALING_SAMPLES as f64;
            let variance =
                parts.iter().map(|parts| (parts[p] - mean).powi(2)).sum::<f64>() / SCALING_SAMPLES as f64;
            if asked > 0.0 && variance < 1e-9 {
                return Err(DataError::Constant { part, asked });
            }
            self.scales[p] = if asked > 0.0 { asked / variance.sqrt() } else { 0.0 };
        }
        // The mean click probability grows with the bias, so bisecting an interval that holds the root finds it.
        let logits: Vec<f64> = parts
            .iter()
            .map(|p| p.iter().zip(&self.scales).map(|(part, scale)| part * scale).sum())
            .collect();
        let reach = 40.0 + logits.iter().fold(0.0, |reach: f64, logit| reach.max(logit.abs()));
        let (mut low, mut high) = (-reach, reach);
        for _ in 0..48 {
            self.bias = 0.5 * (low + high);
            let clicks: f64 = logits.iter().map(|logit| sigmoid(self.bias + logit)).sum();
            if clicks < settings.click_rate * SCALING_SAMPLES as f64 {
                low = self.bias
            } else {
                high = self.bias
            }
        }
        Ok(())
    }
}

/// Pairs features of different groups in the given order: each feature at most once, `count` pairs at most.
fn bridge(columns: &[Column], order: &[usize], count: usize) -> Vec<(usize, Option<usize>)> {
    let mut left = order.to_vec();
    let (mut bridges, mut paired) = (vec![], 0);
    while let Some(first) = left.pop() {
        let elsewhere = |&other: &usize| paired < count && columns[other].group != columns[first].group;
        let second = left.iter().rposition(elsewhere);
        paired += usize::from(second.is_some());
        bridges.push((first, second.map(|at| left.remove(at))));
    }
    bridges
}

/// Fisher and Yates's permutation of `0..count`.
fn shuffle(count: usize, stream: RandomSequence) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (stream.bits(last as u64) % (last as u64 + 1)) as usize);
    }
    order
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[inline]
fn dot(a: &[f32; LATENT], b: &[f32; LATENT]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests;
