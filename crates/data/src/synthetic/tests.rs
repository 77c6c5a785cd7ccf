use super::*;
use proptest::prelude::*;
use spec::Pooling;
use spec::feature::Hotness;
use std::collections::HashSet;

fn feature(name: &str, rows: usize) -> Feature {
    Feature {
        name: name.into(),
        rows,
        pooling: Pooling::Sum,
        hotness: Hotness::One,
        weighted: false,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    }
}

/// Single-hot, multi-hot, weighted, averaged, and a table too large for look-up tables.
fn mixed() -> Vec<Feature> {
    let many = Hotness::Many { mean: 3 };
    let mut features: Vec<Feature> = (0..8).map(|f| feature(&format!("C{f}"), 10 + 7 * f)).collect();
    features[1].hotness = many;
    features[2] = Feature { hotness: many, pooling: Pooling::Mean, ..feature("C2", 40) };
    features[3] = Feature { hotness: many, weighted: true, ..feature("C3", 40) };
    features[4].rows = 1_000_000;
    features
}

fn plain(count: usize) -> Vec<Feature> {
    (0..count).map(|f| feature(&format!("C{f}"), 20 + f)).collect()
}

fn settings() -> Synthetic {
    Synthetic { groups: 3, samples: 100_000, eval_samples: 5_000, ..Synthetic::default() }
}

fn log(features: &[Feature], split: Split) -> SyntheticLog {
    SyntheticLog::new(&settings(), features, 5, split).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// What makes it safe for every rank to read only its share.
    #[test]
    fn samples_do_not_depend_on_how_they_are_read(start in 0u64..99_000, sizes in prop::collection::vec(1u64..40, 1..5)) {
        let (features, log) = (mixed(), log(&mixed(), Split::Train));
        let end = start + sizes.iter().sum::<u64>();
        let (mut whole, mut part) = (Batch::default(), Batch::default());
        log.fill(start..end, &mut whole);
        whole.check(&features, 5).unwrap();
        let (mut at, mut labels, mut dense) = (start, vec![], vec![]);
        let mut values = vec![vec![]; features.len()];
        for size in sizes {
            log.fill(at..at + size, &mut part);
            part.check(&features, 5).unwrap();
            labels.extend_from_slice(&part.labels);
            dense.extend_from_slice(&part.dense);
            (0..features.len()).for_each(|f| values[f].extend_from_slice(part.values(f)));
            at += size;
        }
        prop_assert_eq!(labels, &whole.labels[..]);
        prop_assert_eq!(dense, &whole.dense[..]);
        prop_assert_eq!(values.concat(), &whole.values[..]);
    }
}

#[test]
fn parts_have_the_deviations_asked_for() {
    let log = log(&mixed(), Split::Train);
    let parts: Vec<[f64; 4]> = (0..40_000).map(|sample| log.parts(sample, |_, _, _| (), |_| ())).collect();
    let asked = [settings().main, settings().dense, settings().within, settings().across];
    for (p, asked) in asked.into_iter().enumerate() {
        let mean = parts.iter().map(|part| part[p]).sum::<f64>() / 40_000.0;
        let variance = parts.iter().map(|part| (part[p] - mean).powi(2)).sum::<f64>() / 40_000.0;
        let deviation = variance.sqrt() * log.scales[p];
        assert!((deviation / asked - 1.0).abs() < 0.05, "part {p}: {deviation}, asked for {asked}");
    }
}

#[test]
fn clicks_come_at_the_rate_asked_for() {
    for click_rate in [0.03, 0.25, 0.5] {
        let settings = Synthetic { click_rate, ..settings() };
        let log = SyntheticLog::new(&settings, &mixed(), 5, Split::Train).unwrap();
        let mut batch = Batch::default();
        log.fill(0..40_000, &mut batch);
        let rate = batch.labels.iter().sum::<f32>() / 40_000.0;
        assert!((f64::from(rate) - click_rate).abs() < 0.01, "{rate}, asked for {click_rate}");
        let chance = (0..40_000).map(|sample| log.probability(sample)).sum::<f64>() / 40_000.0;
        assert!((chance - f64::from(rate)).abs() < 0.01, "{chance}, seen {rate}");
    }
}

#[test]
fn bags_have_the_mean_length_and_weights_of_their_feature() {
    let (log, mut batch) = (log(&mixed(), Split::Train), Batch::default());
    log.fill(0..20_000, &mut batch);
    let mean = batch.lengths(1).iter().sum::<u32>() as f64 / 20_000.0;
    assert!((mean - 3.0).abs() < 0.1, "{mean}");
    assert_eq!((batch.lengths(1).iter().min(), batch.lengths(1).iter().max()), (Some(&0), Some(&6)));
    let weights = &batch.weights[batch.feature_starts[3]..batch.feature_starts[4]];
    assert!(weights.iter().all(|&weight| weight > 0.0 && weight <= 1.0));
}

#[test]
fn splits_share_the_truth_and_no_samples() {
    let (train, eval) = (log(&mixed(), Split::Train), log(&mixed(), Split::Eval));
    assert_eq!((train.len(), eval.len()), (100_000, 5_000));
    assert_eq!((train.groups(), train.scales, train.bias), (eval.groups(), eval.scales, eval.bias));
    let (mut a, mut b) = (Batch::default(), Batch::default());
    train.fill(0..100, &mut a);
    eval.fill(0..100, &mut b);
    assert_ne!(a.dense, b.dense);
    assert_ne!(a.values, b.values);
    let validation = log(&mixed(), Split::Validation);
    assert_eq!((validation.len(), validation.bias), (eval.len(), eval.bias));
    let mut c = Batch::default();
    validation.fill(0..100, &mut c);
    assert!(c.dense != a.dense && c.dense != b.dense && c.values != a.values && c.values != b.values);
}

#[test]
fn groups_cover_all_features_and_are_neither_runs_nor_strides() {
    let settings = Synthetic { groups: 4, ..settings() };
    let log = SyntheticLog::new(&settings, &plain(26), 5, Split::Train).unwrap();
    let mut sizes: Vec<usize> = log.groups().iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [6, 6, 7, 7]);
    let mut all = log.groups().concat();
    all.sort_unstable();
    assert_eq!(all, (0..26).collect::<Vec<_>>());
    for group in log.groups() {
        let gaps: HashSet<usize> = group.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.len() > 1, "{group:?}");
    }
    let pairs: Vec<_> = log.bridges.iter().filter_map(|&(first, second)| Some((first, second?))).collect();
    assert_eq!(pairs.len(), 4);
    assert!(pairs.iter().all(|&(first, second)| log.columns[first].group != log.columns[second].group));
}

#[test]
fn filling_again_allocates_nothing() {
    let (log, mut batch) = (log(&plain(8), Split::Train), Batch::default());
    log.fill(0..64, &mut batch);
    let places =
        |batch: &Batch| (batch.values.as_ptr(), batch.lengths.as_ptr(), batch.feature_starts.as_ptr());
    let before = places(&batch);
    log.fill(64..128, &mut batch);
    assert_eq!(places(&batch), before);
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let message = |settings: &Synthetic, features: &[Feature]| {
        SyntheticLog::new(settings, features, 5, Split::Train).unwrap_err().to_string()
    };
    let few = message(&settings(), &plain(2));
    assert_eq!(few, "synthetic data: groups = 3: more groups than sparse features; lower it");
    let mut features = plain(8);
    features[5].rows = 0;
    assert_eq!(message(&settings(), &features), "feature C5: a table needs at least one row");
    features[5] = feature("C0", 9);
    assert_eq!(message(&settings(), &features), "feature C0: two features have this name");
    features[5] = Feature { hotness: Hotness::Many { mean: 0 }, ..feature("C5", 9) };
    assert_eq!(
        message(&settings(), &features),
        "feature C5: a mean of 0 ids leaves every bag empty; raise it"
    );
    let constant: Vec<Feature> = (0..8).map(|f| feature(&format!("C{f}"), 1)).collect();
    assert!(message(&settings(), &constant).starts_with("synthetic data: main = "));
}

#[test]
#[should_panic(expected = "samples 4990..5001 of a log of 5000")]
fn reading_beyond_the_end_is_refused() {
    log(&plain(8), Split::Eval).fill(4_990..5_001, &mut Batch::default());
}

#[test]
fn groups_are_as_large_as_the_ratio_says() {
    let settings = Synthetic { groups: 4, group_ratio: 3.0, ..settings() };
    let log = SyntheticLog::new(&settings, &plain(16), 5, Split::Train).unwrap();
    let sizes: Vec<usize> = log.groups().iter().map(Vec::len).collect();
    assert_eq!(sizes, [6, 5, 3, 2]);
    let mut all = log.groups().concat();
    all.sort_unstable();
    assert_eq!(all, (0..16).collect::<Vec<_>>());
}
