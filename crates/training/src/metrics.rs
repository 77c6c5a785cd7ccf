//! Metrics of predictions, given probabilities `p` and labels `y`.
//!
//! ```text
//! AUC         = P(p⁺ > p⁻) + ½·P(p⁺ = p⁻), over pairs of a positive and a negative sample
//! PR-AUC      = Σ (recall − recall before)·precision, over distinct p from the largest: average precision
//! logloss     = −mean(y·ln p + (1 − y)·ln(1 − p))
//! NE          = logloss / entropy of the mean label: below 1, the model knows more than the click rate
//! calibration = Σp / Σy
//! ```
//!
//! ```
//! use training::metrics::Evaluation;
//! let evaluation = Evaluation::of(&[0.1, 0.4, 0.35, 0.8], &[0.0, 0.0, 1.0, 1.0])?;
//! assert_eq!(evaluation.auc, Some(0.75));
//! assert_eq!(evaluation.accuracy, 0.75);
//! # Ok::<(), training::metrics::MetricError>(())
//! ```

pub mod breakdown;
mod weighted;

pub use weighted::weighted_bins;

use serde::Serialize;

/// Probabilities are kept this far from 0 and 1 where their logarithm is taken.
const CLAMP: f64 = 1e-7;

/// Metrics of predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Number of samples.
    pub samples: usize,
    /// Area under the ROC curve, ties counted half; `None` when all labels are the same.
    pub auc: Option<f64>,
    /// Area under the curve of precision and recall, as average precision; `None` without clicks.
    pub pr_auc: Option<f64>,
    /// Mean cross-entropy, in nats.
    pub logloss: f64,
    /// Normalised entropy; `None` when all labels are the same.
    pub ne: Option<f64>,
    /// Share of samples on the right side of ½.
    pub accuracy: f64,
    /// Predicted clicks per click; `None` without clicks.
    pub calibration: Option<f64>,
    /// Mean probability.
    pub mean_prediction: f64,
    /// Mean label.
    pub click_rate: f64,
}

/// Whether a larger value of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Larger values are better.
    Higher,
    /// Smaller values are better.
    Lower,
    /// Neither: a value in the middle is right.
    Neither,
}

/// A metric of an [`Evaluation`], described once: summaries, JSON, `metrics.jsonl`, TensorBoard, reports and comparisons iterate
/// over [`METRICS`].
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Field of JSON results and of `metrics.jsonl`, and the tag of TensorBoard after `eval/`.
    pub field: &'static str,
    /// Short name in texts and tables.
    pub label: &'static str,
    /// Name on the page of a run; `None` where the page and comparisons do not show the metric.
    pub title: Option<&'static str>,
    /// Sentence below the number on the page of a run; empty where the page says how many samples were evaluated.
    pub note: &'static str,
    /// Whether a larger value is better.
    pub better: Better,
    /// Value in an evaluation; `None` where the labels leave the metric undefined.
    pub of: fn(&Evaluation) -> Option<f64>,
}

impl Metric {
    /// A value of a metric as text, with four digits; a dash where the metric is undefined.
    pub fn show(value: Option<f64>) -> String {
        value.map_or("–".into(), |value| format!("{value:.4}"))
    }
}

/// All metrics, in the order in which they are shown and recorded. A new one is a row here and a field of [`Evaluation`].
pub static METRICS: [Metric; 6] = [
    Metric {
        field: "auc",
        label: "AUC",
        title: Some("AUC"),
        note: "",
        better: Better::Higher,
        of: |evaluation| evaluation.auc,
    },
    Metric {
        field: "pr_auc",
        label: "PR-AUC",
        title: Some("PR-AUC"),
        note: "average precision; a random order has the click rate",
        better: Better::Higher,
        of: |evaluation| evaluation.pr_auc,
    },
    Metric {
        field: "logloss",
        label: "logloss",
        title: Some("Logloss"),
        note: "",
        better: Better::Lower,
        of: |evaluation| Some(evaluation.logloss),
    },
    Metric {
        field: "ne",
        label: "NE",
        title: Some("Normalised entropy"),
        note: "below 1: better than the click rate",
        better: Better::Lower,
        of: |evaluation| evaluation.ne,
    },
    Metric {
        field: "accuracy",
        label: "accuracy",
        title: None,
        note: "",
        better: Better::Higher,
        of: |evaluation| Some(evaluation.accuracy),
    },
    Metric {
        field: "calibration",
        label: "calibration",
        title: Some("Calibration"),
        note: "predicted per actual click; 1 is right",
        better: Better::Neither,
        of: |evaluation| evaluation.calibration,
    },
];

impl Evaluation {
    /// Values of all [`METRICS`] by their fields, in the same order.
    pub fn metrics(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        METRICS.iter().map(|metric| (metric.field, (metric.of)(self)))
    }

    /// Judges `scores`, probabilities, by `labels`, each 0 or 1.
    pub fn of(scores: &[f32], labels: &[f32]) -> Result<Self, MetricError> {
        check(scores, labels)?;
        let n = scores.len() as f64;
        let (mut clicks, mut predicted, mut loss, mut right) = (0.0, 0.0, 0.0, 0usize);
        for (&p, &y) in scores.iter().zip(labels) {
            let (p, y) = (f64::from(p), f64::from(y));
            clicks += y;
            predicted += p;
            // ln_1p: a small p must not be lost in 1 − p.
            let kept = p.clamp(CLAMP, 1.0 - CLAMP);
            loss -= if y == 1.0 { kept.ln() } else { (-kept).ln_1p() };
            right += usize::from((p >= 0.5) == (y == 1.0));
        }
        let (logloss, click_rate) = (loss / n, clicks / n);
        let both = clicks > 0.0 && clicks < n;
        let ranked = (clicks > 0.0).then(|| Ranked::new(scores, labels));
        Ok(Self {
            samples: scores.len(),
            auc: ranked.as_ref().and_then(Ranked::auc),
            pr_auc: ranked.as_ref().map(Ranked::average_precision),
            logloss,
            ne: both.then(|| logloss / entropy(click_rate)),
            accuracy: right as f64 / n,
            calibration: (clicks > 0.0).then(|| predicted / clicks),
            mean_prediction: predicted / n,
            click_rate,
        })
    }
}

/// Samples whose predictions lie close together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// Samples in the bin.
    pub samples: u64,
    /// Mean predicted probability in the bin; 0 if the bin is empty.
    pub mean_prediction: f64,
    /// Mean label in the bin; 0 if the bin is empty.
    pub click_rate: f64,
}

/// A reliability diagram: `bins` intervals of equal width over `[0, 1]`, each with what was predicted and what happened.
pub fn calibration_bins(
    scores: &[f32],
    labels: &[f32],
    bins: usize,
) -> Result<Vec<CalibrationBin>, MetricError> {
    check(scores, labels)?;
    if bins == 0 {
        return Err(MetricError::NoBins);
    }
    let mut sums = vec![CalibrationBin::default(); bins];
    for (&p, &y) in scores.iter().zip(labels) {
        let bin = &mut sums[bin_of(p, bins)];
        bin.samples += 1;
        bin.mean_prediction += f64::from(p);
        bin.click_rate += f64::from(y);
    }
    for bin in &mut sums {
        let count = bin.samples.max(1) as f64;
        bin.mean_prediction /= count;
        bin.click_rate /= count;
    }
    Ok(sums)
}

/// Counts of predictions in [`Histogram::BINS`] bins of probability, for a running AUC: ranks add theirs up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    negatives: Vec<u64>,
    positives: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { negatives: vec![0; Self::BINS], positives: vec![0; Self::BINS] }
    }
}

impl Histogram {
    /// Bins over `[0, 1]`. A pair that shares a bin counts half, so few pairs should.
    pub const BINS: usize = 4096;

    /// Counts predictions. Nothing is counted when any of them is refused.
    pub fn add(&mut self, scores: &[f32], labels: &[f32]) -> Result<(), MetricError> {
        self.add_column(scores, labels, 1)
    }

    /// Counts the predictions for the first of `labels_of_sample` labels. Scores and labels are samples × labels.
    pub fn add_column(
        &mut self,
        scores: &[f32],
        labels: &[f32],
        labels_of_sample: usize,
    ) -> Result<(), MetricError> {
        if scores.is_empty() && labels.is_empty() {
            return Ok(());
        }
        check(scores, labels)?;
        for (&p, &y) in scores.iter().zip(labels).step_by(labels_of_sample) {
            let counts = if y == 1.0 { &mut self.positives } else { &mut self.negatives };
            counts[bin_of(p, Self::BINS)] += 1;
        }
        Ok(())
    }

    /// All counts, for another rank: [`Histogram::BINS`] of negatives, then as many of positives.
    pub fn counts(&self) -> Vec<u64> {
        [self.negatives.as_slice(), &self.positives].concat()
    }

    /// Adds [`Histogram::counts`] of another rank.
    pub fn add_counts(&mut self, counts: &[u64]) {
        let bins = self.negatives.iter_mut().chain(&mut self.positives);
        bins.zip(counts).for_each(|(to, from)| *to += from);
    }

    /// Samples counted.
    pub fn samples(&self) -> u64 {
        self.negatives.iter().chain(&self.positives).sum()
    }

    /// The AUC, as if all predictions in a bin were equal; `None` until both labels were seen.
    pub fn auc(&self) -> Option<f64> {
        let bins = self.negatives.iter().zip(&self.positives).map(|(&n, &p)| (n, p));
        area(bins)
    }
}

/// The AUC from runs of equal score in ascending order, each with its negatives and positives.
fn area(runs: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (mut below, mut positives, mut twice_won) = (0u64, 0u64, 0u128);
    for (negative, positive) in runs {
        twice_won += u128::from(positive) * u128::from(2 * below + negative);
        below += negative;
        positives += positive;
    }
    // Integers to the end: no rounding grows with the number of samples.
    (below > 0 && positives > 0).then(|| twice_won as f64 / 2.0 / (below as f64 * positives as f64))
}

/// Predictions in ascending order, each with its label.
struct Ranked {
    /// Bits of a score, and the label in the lowest bit.
    keys: Vec<u64>,
}

impl Ranked {
    fn new(scores: &[f32], labels: &[f32]) -> Self {
        let mut keys: Vec<u64> = scores.iter().zip(labels).map(|(&p, &y)| rank_key(p, y)).collect();
        keys.sort_unstable();
        Self { keys }
    }

    /// Negatives and positives of every distinct score, in ascending order of scores.
    fn runs(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.keys.chunk_by(|a, b| a >> 1 == b >> 1).map(|run| {
            let positive = run.iter().map(|key| key & 1).sum();
            (run.len() as u64 - positive, positive)
        })
    }

    /// Area under the ROC curve.
    fn auc(&self) -> Option<f64> {
        area(self.runs())
    }

    /// Area under the curve of precision and recall. Predictions of equal score enter together; nothing is interpolated.
    fn average_precision(&self) -> f64 {
        let (mut seen, mut clicks, mut sum) = (0u64, 0u64, 0.0);
        for (negative, positive) in self.runs().rev() {
            seen += negative + positive;
            clicks += positive;
            // The gain of recall times all clicks, times precision.
            sum += positive as f64 * (clicks as f64 / seen as f64);
        }
        sum / clicks as f64
    }
}

/// Bits of a score, and the label in the lowest bit. Non-negative floats order as their bits do; adding 0 makes −0 equal 0.
fn rank_key(p: f32, y: f32) -> u64 {
    u64::from((p + 0.0).to_bits()) << 1 | u64::from(y == 1.0)
}

fn bin_of(p: f32, bins: usize) -> usize {
    ((f64::from(p) * bins as f64) as usize).min(bins - 1)
}

fn entropy(rate: f64) -> f64 {
    -(rate * rate.ln() + (1.0 - rate) * (1.0 - rate).ln())
}

fn check(scores: &[f32], labels: &[f32]) -> Result<(), MetricError> {
    if scores.len() != labels.len() {
        return Err(MetricError::Sizes { scores: scores.len(), labels: labels.len() });
    }
    if scores.is_empty() {
        return Err(MetricError::Empty);
    }
    // NaN lies in no range.
    if let Some(index) = scores.iter().position(|score| !(0.0..=1.0).contains(score)) {
        return Err(MetricError::Score { index, score: scores[index] });
    }
    match labels.iter().position(|&label| label != 0.0 && label != 1.0) {
        Some(index) => Err(MetricError::Label { index, label: labels[index] }),
        None => Ok(()),
    }
}

/// Reason why predictions cannot be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// The number of labels differs from the number of scores.
    #[error("there are {scores} predictions but {labels} labels; please report this")]
    Sizes {
        /// Number of scores.
        scores: usize,
        /// Number of labels.
        labels: usize,
    },
    /// There are no samples.
    #[error("no samples to evaluate")]
    Empty,
    /// A score is NaN, or not a probability.
    #[error("prediction {index} is {score}, which is not a probability")]
    Score {
        /// Index of the score.
        index: usize,
        /// Value of the score.
        score: f32,
    },
    /// A label is neither 0 nor 1.
    #[error("label {index} is {label}, neither 0 nor 1")]
    Label {
        /// Index of the label.
        index: usize,
        /// Value of the label.
        label: f32,
    },
    /// The number of weights differs from the number of scores.
    #[error("there are {scores} predictions but {weights} sample weights; please report this")]
    Weights {
        /// Number of scores.
        scores: usize,
        /// Number of weights.
        weights: usize,
    },
    /// A weight is negative or not a finite number.
    #[error("sample weight {index} is {weight}; expected a finite number of at least 0")]
    Weight {
        /// Index of the weight.
        index: usize,
        /// Value of the weight.
        weight: f32,
    },
    /// All weights are 0.
    #[error("no sample to evaluate has a weight above 0; evaluate on rows that have")]
    NoWeight,
    /// A calibration diagram has no bins.
    #[error("a calibration diagram needs at least one bin")]
    NoBins,
}

#[cfg(test)]
mod tests;
