use super::*;

fn feature(hottest: Vec<HotShare>) -> FeatureStatistics {
    FeatureStatistics {
        name: "user".into(),
        rows: 500,
        mean_ids: 2.0,
        empty: 0.0,
        max_ids: 3,
        distinct_ids: 400,
        distinct_is_exact: true,
        hottest,
    }
}

/// Ids of a step are equally frequent, so that the sum over all ids can be taken one by one.
#[test]
fn different_ids_are_those_of_the_sum_over_all() {
    let statistics = feature(vec![HotShare { ids: 1, share: 0.2 }, HotShare { ids: 11, share: 0.5 }]);
    let shares: Vec<f64> = (0..400)
        .map(|id| match id {
            0 => 0.2,
            1..=10 => 0.03,
            _ => 0.5 / 389.0,
        })
        .collect();
    for lookups in [1.0, 64.0, 10_000.0] {
        let expected: f64 = shares.iter().map(|share| 1.0 - (1.0 - share).powf(lookups)).sum();
        let got = statistics.distinct_in(lookups);
        assert!((got - expected).abs() < 1e-9 * expected, "{got} for {expected}");
    }
    for ids in [0, 1, 6, 11, 200, 400, 500] {
        let expected: f64 = shares.iter().take(ids).sum();
        assert!((statistics.share_of_hottest(ids as u64) - expected).abs() < 1e-12, "{ids}");
    }
    // One id takes all lookups; no ids at all.
    let one = FeatureStatistics { distinct_ids: 1, ..feature(vec![HotShare { ids: 1, share: 1.0 }]) };
    assert_eq!(one.distinct_in(100.0), 1.0);
    let none = FeatureStatistics { distinct_ids: 0, ..feature(vec![]) };
    assert_eq!((none.distinct_in(0.0), none.share_of_hottest(3)), (0.0, 1.0));
}

#[test]
fn contradictions_are_refused_with_their_field() {
    let refused = |change: fn(&mut LogStatistics)| {
        let hottest = vec![HotShare { ids: 1, share: 0.2 }, HotShare { ids: 10, share: 0.5 }];
        let mut statistics = LogStatistics { samples: 9, features: vec![feature(hottest)] };
        let text = serde_json::to_string(&statistics).unwrap();
        assert_eq!(serde_json::from_str::<LogStatistics>(&text).unwrap(), statistics);
        change(&mut statistics);
        let text = serde_json::to_string(&statistics).unwrap();
        serde_json::from_str::<LogStatistics>(&text).unwrap_err().to_string()
    };
    type Case = (fn(&mut LogStatistics), &'static str);
    let cases: [Case; 5] = [
        (|s| s.features[0].mean_ids = -1.0, "feature user: mean_ids is -1;"),
        (|s| s.features[0].empty = 1.5, "feature user: empty is 1.5; it must be between 0 and 1"),
        (|s| s.features[0].hottest[1].ids = 1, "hottest.ids is 1; it must be above the number before it"),
        (|s| s.features[0].hottest[1].share = 0.1, "hottest.share is 0.1;"),
        (|s| s.features.push(s.features[0].clone()), "the feature user twice"),
    ];
    for (change, expected) in cases {
        let got = refused(change);
        assert!(got.contains(expected), "{got}");
    }
}
