//! Metrics of samples that count more or less: every sum over samples is a sum of their weights `w`.
//!
//! ```text
//! AUC         = Σ w⁺·w⁻·(1 where p⁺ > p⁻, ½ where p⁺ = p⁻) / (Σ w⁺ · Σ w⁻)
//! PR-AUC      = Σ (recall − recall before)·precision, of weights
//! logloss     = −Σ w·(y·ln p + (1 − y)·ln(1 − p)) / Σ w
//! calibration = Σ w·p / Σ w·y
//! ```
//!
//! ```
//! use training::metrics::Evaluation;
//! let (scores, labels) = ([0.1, 0.4, 0.35, 0.8], [0.0, 0.0, 1.0, 1.0]);
//! // A weight of 2 counts as two samples.
//! let weighted = Evaluation::weighted(&scores, &labels, &[1.0, 2.0, 1.0, 1.0])?;
//! let twice = Evaluation::of(&[0.1, 0.4, 0.4, 0.35, 0.8], &[0.0, 0.0, 0.0, 1.0, 1.0])?;
//! assert_eq!(weighted.auc, twice.auc);
//! # Ok::<(), training::metrics::MetricError>(())
//! ```

use super::{CLAMP, CalibrationBin, Evaluation, MetricError, bin_of, check, entropy};

impl Evaluation {
    /// Judges `scores` by `labels`, each sample with its weight; without weights as [`Evaluation::of`] does.
    pub fn weighted(scores: &[f32], labels: &[f32], weights: &[f32]) -> Result<Self, MetricError> {
        if weights.is_empty() {
            return Self::of(scores, labels);
        }
        check(scores, labels)?;
        check_weights(scores, weights)?;
        let (mut positive, mut negative) = (0.0, 0.0);
        let (mut predicted, mut loss, mut right) = (0.0, 0.0, 0.0);
        for ((&p, &y), &w) in scores.iter().zip(labels).zip(weights) {
            let (p, w) = (f64::from(p), f64::from(w));
            let kept = p.clamp(CLAMP, 1.0 - CLAMP);
            if y == 1.0 {
                positive += w;
                loss -= w * kept.ln();
            } else {
                negative += w;
                loss -= w * (-kept).ln_1p();
            }
            predicted += w * p;
            right += if (p >= 0.5) == (y == 1.0) { w } else { 0.0 };
        }
        let total = positive + negative;
        if total == 0.0 {
            return Err(MetricError::NoWeight);
        }
        let (logloss, click_rate) = (loss / total, positive / total);
        let both = positive > 0.0 && negative > 0.0;
        let ranked = (positive > 0.0).then(|| WeightedRanks::new(scores, labels, weights));
        Ok(Self {
            samples: scores.len(),
            auc: ranked.as_ref().and_then(WeightedRanks::auc),
            pr_auc: ranked.as_ref().map(WeightedRanks::average_precision),
            logloss,
            ne: both.then(|| logloss / entropy(click_rate)),
            accuracy: right / total,
            calibration: (positive > 0.0).then(|| predicted / positive),
            mean_prediction: predicted / total,
            click_rate,
        })
    }
}

/// A reliability diagram of weighted samples, as [`calibration_bins`](super::calibration_bins) makes it without weights. The
/// number of samples of a bin is not weighted.
pub fn weighted_bins(
    scores: &[f32],
    labels: &[f32],
    weights: &[f32],
    bins: usize,
) -> Result<Vec<CalibrationBin>, MetricError> {
    if weights.is_empty() {
        return super::calibration_bins(scores, labels, bins);
    }
    check(scores, labels)?;
    check_weights(scores, weights)?;
    if bins == 0 {
        return Err(MetricError::NoBins);
    }
    let mut sums = vec![(CalibrationBin::default(), 0.0); bins];
    for ((&p, &y), &w) in scores.iter().zip(labels).zip(weights) {
        let (bin, weight) = &mut sums[bin_of(p, bins)];
        bin.samples += 1;
        bin.mean_prediction += f64::from(w) * f64::from(p);
        bin.click_rate += f64::from(w) * f64::from(y);
        *weight += f64::from(w);
    }
    let mean = |sum: f64, weight: f64| if weight > 0.0 { sum / weight } else { 0.0 };
    let bins = sums.into_iter().map(|(bin, weight)| CalibrationBin {
        mean_prediction: mean(bin.mean_prediction, weight),
        click_rate: mean(bin.click_rate, weight),
        ..bin
    });
    Ok(bins.collect())
}

fn check_weights(scores: &[f32], weights: &[f32]) -> Result<(), MetricError> {
    if scores.len() != weights.len() {
        return Err(MetricError::Weights { scores: scores.len(), weights: weights.len() });
    }
    match weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        Some(index) => Err(MetricError::Weight { index, weight: weights[index] }),
        None => Ok(()),
    }
}

/// Predictions in ascending order, each with its label and weight.
pub(super) struct WeightedRanks {
    /// Bits of a score with the label in the lowest bit, and the weight.
    keys: Vec<(u64, f32)>,
}

impl WeightedRanks {
    pub(super) fn new(scores: &[f32], labels: &[f32], weights: &[f32]) -> Self {
        let samples = scores.iter().zip(labels).zip(weights);
        let mut keys: Vec<(u64, f32)> = samples.map(|((&p, &y), &w)| (super::rank_key(p, y), w)).collect();
        // Equal predictions keep the order of the samples, so that sums of weights have the same bits every time.
        keys.sort_by_key(|(key, _)| *key);
        Self { keys }
    }

    /// Weights of the negatives and positives of every distinct score, in ascending order of scores.
    fn runs(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> {
        self.keys.chunk_by(|(a, _), (b, _)| a >> 1 == b >> 1).map(|run| {
            run.iter().fold((0.0, 0.0), |(negative, positive), &(key, weight)| match key & 1 {
                0 => (negative + f64::from(weight), positive),
                _ => (negative, positive + f64::from(weight)),
            })
        })
    }

    /// Area under the ROC curve; `None` unless both labels have a weight.
    pub(super) fn auc(&self) -> Option<f64> {
        let (mut below, mut positives, mut won) = (0.0, 0.0, 0.0);
        for (negative, positive) in self.runs() {
            won += positive * (below + 0.5 * negative);
            below += negative;
            positives += positive;
        }
        (below > 0.0 && positives > 0.0).then(|| won / (below * positives))
    }

    /// Area under the curve of precision and recall.
    fn average_precision(&self) -> f64 {
        let (mut seen, mut clicks, mut sum) = (0.0, 0.0, 0.0);
        for (negative, positive) in self.runs().rev() {
            seen += negative + positive;
            clicks += positive;
            sum += if positive > 0.0 { positive * (clicks / seen) } else { 0.0 };
        }
        sum / clicks
    }
}
