use super::*;
use proptest::prelude::*;

/// Every pair, one by one.
fn brute_force(scores: &[f32], labels: &[f32]) -> Option<f64> {
    let (mut won, mut pairs) = (0.0, 0.0);
    for (i, &positive) in scores.iter().enumerate().filter(|(i, _)| labels[*i] == 1.0) {
        for (j, &negative) in scores.iter().enumerate().filter(|(j, _)| labels[*j] == 0.0) {
            assert_ne!(i, j);
            pairs += 1.0;
            won += if positive > negative {
                1.0
            } else if positive == negative {
                0.5
            } else {
                0.0
            };
        }
    }
    (pairs > 0.0).then(|| won / pairs)
}

/// Scores on a coarse grid, so that ties are common, and labels.
fn predictions() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
    let sample = (0u8..=20, any::<bool>()).prop_map(|(p, y)| (f32::from(p) / 20.0, f32::from(u8::from(y))));
    prop::collection::vec(sample, 1..80).prop_map(|samples| samples.into_iter().unzip())
}

proptest! {
    #[test]
    fn auc_is_the_share_of_pairs_in_order((scores, labels) in predictions()) {
        let auc = Evaluation::of(&scores, &labels).unwrap().auc;
        match (auc, brute_force(&scores, &labels)) {
            (Some(fast), Some(slow)) => prop_assert!((fast - slow).abs() < 1e-12, "{fast} {slow}"),
            (fast, slow) => prop_assert_eq!(fast, slow),
        }
    }

    #[test]
    fn histograms_add_up((scores, labels) in predictions(), cut in 0usize..80) {
        let cut = cut.min(scores.len());
        let (mut all, mut left, mut right) = (Histogram::default(), Histogram::default(), Histogram::default());
        all.add(&scores, &labels).unwrap();
        left.add(&scores[..cut], &labels[..cut]).unwrap();
        right.add(&scores[cut..], &labels[cut..]).unwrap();
        left.add_counts(&right.counts());
        prop_assert_eq!(&left, &all);
        prop_assert_eq!(all.samples(), scores.len() as u64);
        // On this grid no two different scores share a bin.
        prop_assert_eq!(all.auc(), Evaluation::of(&scores, &labels).unwrap().auc);
    }
}

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-6, "{got}, expected {expected}");
}

#[test]
fn values_worked_out_by_hand() {
    // The example of scikit-learn's roc_auc_score, and its log_loss([0, 0, 1, 1], …).
    let evaluation = Evaluation::of(&[0.1, 0.4, 0.35, 0.8], &[0.0, 0.0, 1.0, 1.0]).unwrap();
    assert_eq!((evaluation.samples, evaluation.auc), (4, Some(0.75)));
    close(evaluation.logloss, -(0.9f64.ln() + 0.6f64.ln() + 0.35f64.ln() + 0.8f64.ln()) / 4.0);
    close(evaluation.logloss, 0.472_287_9);
    close(evaluation.ne.unwrap(), 0.472_287_9 / 2f64.ln());
    close(evaluation.calibration.unwrap(), 1.65 / 2.0);
    close(evaluation.mean_prediction, 0.4125);
    assert_eq!((evaluation.accuracy, evaluation.click_rate), (0.75, 0.5));
    // Ties: of 2 × 2 pairs, one is won, two are tied, one is lost.
    let tied = Evaluation::of(&[0.5, 0.2, 0.5, 0.2], &[1.0, 1.0, 0.0, 0.0]).unwrap();
    assert_eq!(tied.auc, Some(0.5));
    assert_eq!(Evaluation::of(&[0.9, 0.1], &[1.0, 0.0]).unwrap().auc, Some(1.0));
    assert_eq!(Evaluation::of(&[0.0, -0.0], &[1.0, 0.0]).unwrap().auc, Some(0.5));
}

#[test]
fn predicting_the_click_rate_has_normalised_entropy_one() {
    let evaluation = Evaluation::of(&[0.25; 8], &[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]).unwrap();
    close(evaluation.ne.unwrap(), 1.0);
    close(evaluation.calibration.unwrap(), 1.0);
    assert_eq!(evaluation.auc, Some(0.5));
}

#[test]
fn one_class_has_no_auc() {
    let evaluation = Evaluation::of(&[0.0, 0.5], &[0.0, 0.0]).unwrap();
    assert_eq!((evaluation.auc, evaluation.ne, evaluation.calibration), (None, None, None));
    assert_eq!(Evaluation::of(&[1.0], &[1.0]).unwrap().calibration, Some(1.0));
    assert_eq!(Histogram::default().auc(), None);
}

#[test]
fn certainty_in_error_costs_a_finite_loss() {
    let evaluation = Evaluation::of(&[0.0, 1.0], &[1.0, 0.0]).unwrap();
    close(evaluation.logloss, -CLAMP.ln());
    assert_eq!(evaluation.auc, Some(0.0));
}

#[test]
fn bins_hold_what_was_predicted_and_what_happened() {
    let bins = calibration_bins(&[0.1, 0.3, 0.9, 1.0], &[0.0, 1.0, 1.0, 1.0], 2).unwrap();
    close(bins[0].mean_prediction, 0.2);
    close(bins[1].mean_prediction, 0.95);
    assert_eq!(
        bins.iter().map(|bin| (bin.samples, bin.click_rate)).collect::<Vec<_>>(),
        [(2, 0.5), (2, 1.0)]
    );
    assert_eq!(calibration_bins(&[0.9], &[1.0], 2).unwrap()[0], CalibrationBin::default());
    assert_eq!(calibration_bins(&[0.9], &[1.0], 0), Err(MetricError::NoBins));
}

#[test]
fn refusals_say_where() {
    let message = |scores: &[f32], labels: &[f32]| Evaluation::of(scores, labels).unwrap_err().to_string();
    assert_eq!(message(&[0.5, f32::NAN], &[0.0, 1.0]), "prediction 1 is NaN, which is not a probability");
    assert_eq!(message(&[1.5], &[0.0]), "prediction 0 is 1.5, which is not a probability");
    assert_eq!(message(&[0.5], &[0.5]), "label 0 is 0.5, neither 0 nor 1");
    assert_eq!(message(&[0.5], &[]), "there are 1 predictions but 0 labels; please report this");
    assert_eq!(message(&[], &[]), "no samples to evaluate");
    let mut histogram = Histogram::default();
    assert!(histogram.add(&[0.5, f32::NAN], &[0.0, 1.0]).is_err());
    assert_eq!(histogram.samples(), 0);
}

/// What reads metrics finds them by name.
#[test]
fn metrics_have_names_of_their_own() {
    for (i, metric) in METRICS.iter().enumerate() {
        assert!(METRICS[..i].iter().all(|other| other.field != metric.field && other.label != metric.label));
    }
    let evaluation = Evaluation::of(&[0.1, 0.4, 0.35, 0.8], &[0.0, 0.0, 1.0, 1.0]).unwrap();
    assert_eq!(evaluation.metrics().count(), METRICS.len());
    assert!(
        evaluation.metrics().all(|(field, value)| value.is_some_and(f64::is_finite) && !field.is_empty())
    );
}

/// Each positive by hand: its precision is that of all samples with a score at least as large.
#[test]
fn pr_auc_is_the_mean_precision_at_positives() {
    let pr_auc = |scores: &[f32], labels: &[f32]| Evaluation::of(scores, labels).unwrap().pr_auc;
    // In descending order the labels are 1 0 1 0, and both positives count half: 1/2·1 + 1/2·2/3.
    close(pr_auc(&[0.1, 0.4, 0.35, 0.8], &[0.0, 0.0, 1.0, 1.0]).unwrap(), 5.0 / 6.0);
    // Equal scores enter together: precision is the click rate, whatever the order of the samples.
    assert_eq!(pr_auc(&[0.5; 4], &[0.0, 1.0, 0.0, 1.0]), Some(0.5));
    assert_eq!(pr_auc(&[0.5; 4], &[1.0, 1.0, 0.0, 0.0]), Some(0.5));
    // 1/3·1 + 2/3·3/4.
    close(pr_auc(&[0.9, 0.5, 0.5, 0.5, 0.1], &[1.0, 1.0, 0.0, 1.0, 0.0]).unwrap(), 5.0 / 6.0);
    assert_eq!(pr_auc(&[0.0, -0.0], &[1.0, 0.0]), Some(0.5));
    assert_eq!(pr_auc(&[0.2, 0.9, 0.5], &[1.0, 1.0, 1.0]), Some(1.0));
    assert_eq!(pr_auc(&[0.2, 0.9], &[0.0, 0.0]), None);
}

/// Numbers of scikit-learn 1.9.1, `average_precision_score(labels, scores)`, for the same generated samples:
///
/// ```text
/// x = 12345
/// for _ in range(n):
///     x = (x * 1103515245 + 12345) % 2**31; p = (x >> 8) % (grid + 1)
///     x = (x * 1103515245 + 12345) % 2**31; u = (x >> 8) % grid
///     scores.append(p / grid); labels.append(int(u < p))
/// ```
#[test]
fn pr_auc_is_that_of_scikit_learn() {
    for (n, grid, clicks, expected) in [
        (50, 8, 30, 0.839_402_707_473_359_7),
        (1000, 64, 506, 0.848_258_480_180_515_3),
        (5000, 4096, 2521, 0.825_993_293_862_357_4),
    ] {
        let mut state = 12345u64;
        let mut draw = || {
            state = (state * 1_103_515_245 + 12345) % (1 << 31);
            state >> 8
        };
        let (mut scores, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let (p, u) = (draw() % (grid + 1), draw() % grid);
            scores.push(p as f32 / grid as f32);
            labels.push(f32::from(u8::from(u < p)));
        }
        assert_eq!(labels.iter().sum::<f32>() as u64, clicks, "the generator is that of the comment");
        let pr_auc = Evaluation::of(&scores, &labels).unwrap().pr_auc.unwrap();
        assert!((pr_auc - expected).abs() < 1e-12, "{n} samples: {pr_auc}, scikit-learn has {expected}");
    }
}
