use super::*;
use crate::metrics::weighted_bins;

/// Samples of a small generator: scores on a grid, labels, weights in steps of ¼ (some 0), and a group each.
struct Samples {
    scores: Vec<f32>,
    labels: Vec<f32>,
    weights: Vec<f32>,
    groups: Vec<u64>,
}

/// ```text
/// x = 12345
/// for _ in range(n):
///     x = (x * 1103515245 + 12345) % 2**31; p = (x >> 8) % (grid + 1)
///     …                                     u = (x >> 8) % grid
///     …                                     v = (x >> 8) % 9
///     …                                     g = (x >> 8) % (n // 10)
///     scores.append(p / grid); labels.append(int(u < p)); weights.append(v / 4); groups.append(g)
/// ```
fn generated(n: u64, grid: u64) -> Samples {
    let mut state = 12345u64;
    let mut draw = || {
        state = (state * 1_103_515_245 + 12345) % (1 << 31);
        state >> 8
    };
    let mut samples = Samples { scores: vec![], labels: vec![], weights: vec![], groups: vec![] };
    for _ in 0..n {
        let (p, u, v, g) = (draw() % (grid + 1), draw() % grid, draw() % 9, draw() % (n / 10));
        samples.scores.push(p as f32 / grid as f32);
        samples.labels.push(f32::from(u8::from(u < p)));
        samples.weights.push(v as f32 / 4.0);
        samples.groups.push(g);
    }
    samples
}

fn close(got: f64, expected: f64, what: &str) {
    assert!((got - expected).abs() < 1e-9, "{what}: {got}, expected {expected}");
}

/// Numbers of scikit-learn 1.9.1 with `sample_weight`: the weight of a sample, times 3 where its label is 1.
/// `roc_auc_score`, `average_precision_score`, and `log_loss` of probabilities kept 1e-7 from 0 and 1.
#[test]
fn weighted_metrics_are_those_of_scikit_learn() {
    for (n, grid, auc, pr_auc, logloss) in [
        (50, 8, 0.810_039_952_648_712_6, 0.896_819_929_951_813_8, 0.515_461_878_130_895_2),
        (1000, 64, 0.874_281_218_807_064_3, 0.948_219_971_425_718_1, 0.442_193_752_766_115_5),
        (5000, 4096, 0.816_797_382_124_981_3, 0.926_247_821_397_715_4, 0.517_698_633_073_950_7),
    ] {
        let Samples { scores, labels, weights, .. } = generated(n, grid);
        let of_class = weights.iter().zip(&labels).map(|(w, y)| if *y == 1.0 { 3.0 * w } else { *w });
        let weights: Vec<f32> = of_class.collect();
        let evaluation = Evaluation::weighted(&scores, &labels, &weights).unwrap();
        close(evaluation.auc.unwrap(), auc, "AUC");
        close(evaluation.pr_auc.unwrap(), pr_auc, "PR-AUC");
        close(evaluation.logloss, logloss, "logloss");
        let sum = |of: &dyn Fn(usize) -> f32| (0..n as usize).map(|i| f64::from(of(i))).sum::<f64>();
        let clicks = sum(&|i| weights[i] * labels[i]);
        close(evaluation.calibration.unwrap(), sum(&|i| weights[i] * scores[i]) / clicks, "calibration");
        let rate = clicks / sum(&|i| weights[i]);
        close(evaluation.click_rate, rate, "click rate");
        let entropy = -(rate * rate.ln() + (1.0 - rate) * (1.0 - rate).ln());
        close(evaluation.ne.unwrap(), logloss / entropy, "NE");
        // One bin has everything.
        let bins = weighted_bins(&scores, &labels, &weights, 1).unwrap();
        close(bins[0].click_rate, rate, "click rate of a bin");
        close(bins[0].mean_prediction, evaluation.mean_prediction, "prediction of a bin");
    }
}

#[test]
fn weights_of_one_and_refusals() {
    let Samples { scores, labels, .. } = generated(1000, 64);
    let (plain, ones) = (Evaluation::of(&scores, &labels).unwrap(), vec![1.0; 1000]);
    assert_eq!(Evaluation::weighted(&scores, &labels, &[]).unwrap(), plain);
    let weighted = Evaluation::weighted(&scores, &labels, &ones).unwrap();
    for ((field, plain), (_, weighted)) in plain.metrics().zip(weighted.metrics()) {
        close(weighted.unwrap(), plain.unwrap(), field);
    }
    let refused = |weights: &[f32]| Evaluation::weighted(&[0.5, 0.5], &[0.0, 1.0], weights).unwrap_err();
    assert_eq!(refused(&[1.0]), MetricError::Weights { scores: 2, weights: 1 });
    assert_eq!(refused(&[1.0, -1.0]), MetricError::Weight { index: 1, weight: -1.0 });
    assert_eq!(refused(&[0.0, 0.0]), MetricError::NoWeight);
    // A label whose samples weigh nothing is as good as absent.
    let one_class = Evaluation::weighted(&[0.5, 0.5], &[0.0, 1.0], &[0.0, 1.0]).unwrap();
    assert_eq!((one_class.auc, one_class.ne, one_class.pr_auc), (None, None, Some(1.0)));
}

/// Means of scikit-learn's `roc_auc_score` over the groups with both labels, weighted by their samples.
#[test]
fn grouped_auc_is_the_mean_of_scikit_learns() {
    for (n, grid, auc, groups, of_groups, counted) in [
        (50, 8, 0.818_125_541_125_541_1, 5, 5, 50),
        (1000, 64, 0.865_129_398_154_245_8, 97, 100, 986),
        (5000, 4096, 0.819_773_114_710_111_2, 493, 500, 4960),
    ] {
        let samples = generated(n, grid);
        let predicted = Predicted { scores: &samples.scores, labels: &samples.labels, weights: &[] };
        let scores = group_scores("user", &samples.groups, &predicted);
        close(scores.auc.unwrap(), auc, "GAUC");
        assert_eq!((scores.groups, scores.of_groups, scores.samples), (groups, of_groups, counted));
        let ones = vec![1.0; n as usize];
        let weighted = group_scores("user", &samples.groups, &Predicted { weights: &ones, ..predicted });
        close(weighted.auc.unwrap(), auc, "GAUC of weights of 1");
    }
    let none = Predicted { scores: &[0.5, 0.4], labels: &[1.0, 1.0], weights: &[] };
    assert_eq!(group_scores("user", &[1, 2], &none).auc, None);
}

#[test]
fn slices_are_evaluations_of_their_samples() {
    let samples = generated(5000, 64);
    // Values 0 to 59; value v has about as many samples as any, and value 7 many more.
    let keys: Vec<u64> = samples.groups.iter().map(|g| if g % 3 == 0 { 7 } else { g % 60 }).collect();
    let predicted = Predicted { scores: &samples.scores, labels: &samples.labels, weights: &[] };
    let scores = slice_scores("city", &keys, |key| format!("city {key}"), &predicted).unwrap();
    let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
    assert_eq!((scores.values as usize, scores.slices.len()), (distinct, SLICES.min(distinct)));
    assert_eq!(scores.slices[0].value, "city 7");
    assert!(scores.slices.windows(2).all(|pair| pair[0].samples >= pair[1].samples));
    let told: u64 = scores.slices.iter().map(|slice| slice.samples).sum();
    assert_eq!(told + scores.other.as_ref().map_or(0, |other| other.samples), 5000);
    let of_seven = |from: &[f32]| {
        let both = from.iter().zip(&keys).filter(|(_, key)| **key == 7);
        both.map(|(value, _)| *value).collect::<Vec<f32>>()
    };
    let alone = Evaluation::of(&of_seven(&samples.scores), &of_seven(&samples.labels)).unwrap();
    let first = &scores.slices[0];
    assert_eq!(
        (first.auc, first.logloss, first.calibration),
        (alone.auc, Some(alone.logloss), alone.calibration)
    );
    // Samples without a weight are counted, and have no metrics.
    let weightless = Predicted { weights: &vec![0.0; 5000], ..predicted };
    let scores = slice_scores("city", &keys, |key| key.to_string(), &weightless).unwrap();
    assert_eq!((scores.slices[0].logloss, scores.slices[0].auc), (None, None));
}
