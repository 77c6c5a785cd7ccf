//! Metrics by the values of a column: the AUC averaged over groups such as users, and metrics of slices.
//!
//! ```text
//! GAUC = Σ n_g·AUC_g / Σ n_g, over groups g with both labels; n_g: samples of the group, or the sum of their weights
//! ```
//!
//! ```
//! use training::metrics::breakdown::{Predicted, group_scores};
//! // Users 7 and 8; in the order of all samples user 8's click would rank last.
//! let predicted = Predicted { scores: &[0.8, 0.9, 0.1, 0.2], labels: &[0.0, 1.0, 0.0, 1.0], weights: &[] };
//! let scores = group_scores("user", &[7, 7, 8, 8], &predicted);
//! assert_eq!((scores.auc, scores.groups, scores.of_groups), (Some(1.0), 2, 2));
//! ```

use super::weighted::WeightedRanks;
use super::{Evaluation, MetricError, Ranked};
use serde::{Deserialize, Serialize};

/// Number of slices that are told one by one; the others are told together.
pub const SLICES: usize = 50;

/// Predictions of some samples for one label.
#[derive(Clone, Copy, Debug)]
pub struct Predicted<'a> {
    /// Probability of each sample.
    pub scores: &'a [f32],
    /// Label of each sample.
    pub labels: &'a [f32],
    /// Weight of each sample; empty where all weigh 1.
    pub weights: &'a [f32],
}

/// AUC averaged over the groups of a column, such as users (GAUC).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupScores {
    /// Column of the groups.
    pub column: String,
    /// Mean of the AUCs of groups with both labels, each weighted by its samples; `None` without such groups.
    pub auc: Option<f64>,
    /// Number of groups with both labels, which count.
    pub groups: u64,
    /// Number of all groups.
    pub of_groups: u64,
    /// Number of samples of the groups that count.
    pub samples: u64,
}

/// Metrics of the samples with one value of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Value of the column, as the log writes it.
    pub value: String,
    /// Number of samples.
    pub samples: u64,
    /// Area under the ROC curve; `None` when all labels are the same.
    pub auc: Option<f64>,
    /// Mean cross-entropy, in nats; `None` when no sample has a weight.
    pub logloss: Option<f64>,
    /// Predicted clicks per click; `None` without clicks.
    pub calibration: Option<f64>,
    /// Mean label; `None` when no sample has a weight.
    pub click_rate: Option<f64>,
}

/// Metrics by the values of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceScores {
    /// Column of the values.
    pub column: String,
    /// Number of distinct values.
    pub values: u64,
    /// Slices with the most samples, the largest first.
    pub slices: Vec<Slice>,
    /// All other samples together; `None` where there are none.
    pub other: Option<Slice>,
}

impl Predicted<'_> {
    /// Some samples of these, in this order.
    fn of(&self, samples: &[u32]) -> Owned {
        let pick = |from: &[f32]| match from.is_empty() {
            true => Vec::new(),
            false => samples.iter().map(|&i| from[i as usize]).collect(),
        };
        Owned { scores: pick(self.scores), labels: pick(self.labels), weights: pick(self.weights) }
    }
}

/// Predictions of some samples, copied.
struct Owned {
    scores: Vec<f32>,
    labels: Vec<f32>,
    weights: Vec<f32>,
}

impl Owned {
    fn auc(&self) -> Option<f64> {
        match self.weights.is_empty() {
            true => Ranked::new(&self.scores, &self.labels).auc(),
            false => WeightedRanks::new(&self.scores, &self.labels, &self.weights).auc(),
        }
    }

    fn slice(&self, value: String) -> Result<Slice, MetricError> {
        let samples = self.scores.len() as u64;
        let evaluation = match Evaluation::weighted(&self.scores, &self.labels, &self.weights) {
            Err(MetricError::NoWeight) => None,
            evaluation => Some(evaluation?),
        };
        Ok(Slice {
            value,
            samples,
            auc: evaluation.and_then(|e| e.auc),
            logloss: evaluation.map(|e| e.logloss),
            calibration: evaluation.and_then(|e| e.calibration),
            click_rate: evaluation.map(|e| e.click_rate),
        })
    }
}

/// Samples in the order of their keys, those of equal keys in the order of the log.
fn by_key(keys: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|&i| keys[i as usize]);
    order
}

/// Mean of the AUCs of groups with both labels. `keys` gives the group of each sample.
///
/// # Panics
/// If there is not one key for each sample.
pub fn group_scores(column: &str, keys: &[u64], predicted: &Predicted) -> GroupScores {
    assert_eq!(keys.len(), predicted.scores.len(), "a group for every sample");
    let order = by_key(keys);
    let mut found = GroupScores { column: column.into(), auc: None, groups: 0, of_groups: 0, samples: 0 };
    let (mut sum, mut total) = (0.0, 0.0);
    for group in order.chunk_by(|&a, &b| keys[a as usize] == keys[b as usize]) {
        found.of_groups += 1;
        let group = predicted.of(group);
        let Some(auc) = group.auc() else { continue };
        let size = match group.weights.is_empty() {
            true => group.scores.len() as f64,
            false => group.weights.iter().map(|&weight| f64::from(weight)).sum(),
        };
        sum += size * auc;
        total += size;
        found.groups += 1;
        found.samples += group.scores.len() as u64;
    }
    found.auc = (total > 0.0).then(|| sum / total);
    found
}

/// Metrics for every value of a column. `keys` gives the value of each sample, and `name` the text of a key.
///
/// # Panics
/// If there is not one key for each sample.
pub fn slice_scores(
    column: &str,
    keys: &[u64],
    name: impl Fn(u64) -> String,
    predicted: &Predicted,
) -> Result<SliceScores, MetricError> {
    assert_eq!(keys.len(), predicted.scores.len(), "a value for every sample");
    let order = by_key(keys);
    let mut groups: Vec<&[u32]> = order.chunk_by(|&a, &b| keys[a as usize] == keys[b as usize]).collect();
    // The largest first; of equal ones, that which the log shows first.
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), group.first().copied()));
    let (told, rest) = groups.split_at(groups.len().min(SLICES));
    let slices = told.iter().map(|group| predicted.of(group).slice(name(keys[group[0] as usize])));
    let slices = slices.collect::<Result<_, _>>()?;
    let mut others: Vec<u32> = rest.concat();
    others.sort_unstable();
    let other = match others.is_empty() {
        true => None,
        false => Some(predicted.of(&others).slice("other".into())?),
    };
    Ok(SliceScores { column: column.into(), values: groups.len() as u64, slices, other })
}

#[cfg(test)]
mod tests;
