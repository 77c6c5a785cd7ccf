use super::*;
use proptest::prelude::*;
use spec::random::RandomSequence;

/// Keys that are hashes, and keys that are small numbers, near and far beyond the exact count. Five standard errors.
#[test]
fn distinct_counts_are_near_the_truth() {
    let stream = RandomSequence::new(3, "keys");
    let bound = 5.0 * 1.04 / f64::from(1u32 << INDEX_BITS).sqrt();
    for n in [5_000u64, 20_000, 40_000, 80_000, 300_000, 1_000_000] {
        for hashed in [false, true] {
            let mut distinct = Distinct::default();
            for i in 0..n {
                let key = if hashed { stream.bits(i) } else { i };
                distinct.add(key);
                if i % 3 == 0 {
                    distinct.add(key);
                }
            }
            let off = distinct.count() as f64 / n as f64 - 1.0;
            assert!(!distinct.is_exact() && off.abs() < bound, "{n} keys, hashed {hashed}: off by {off}");
        }
    }
}

/// Over many streams the estimate is neither too large nor too small, and strays as much as theory says.
#[test]
fn estimates_have_no_bias() {
    let error = 1.04 / f64::from(1u32 << INDEX_BITS).sqrt();
    for n in [1_000u64, 10_000, 45_000, 200_000] {
        const STREAMS: u64 = 60;
        let offs: Vec<f64> = (0..STREAMS)
            .map(|seed| {
                let (stream, mut distinct) = (RandomSequence::new(seed, "keys"), Distinct::default());
                // Half of the streams as a prepared log has them: without the lower half of their keys.
                let half = if seed % 2 == 0 { 0 } else { u64::from(u32::MAX) };
                (0..n).for_each(|i| distinct.add(stream.bits(i) & !half));
                distinct.estimate() / n as f64 - 1.0
            })
            .collect();
        let mean = offs.iter().sum::<f64>() / STREAMS as f64;
        let deviation = (offs.iter().map(|off| off * off).sum::<f64>() / STREAMS as f64).sqrt();
        assert!(mean.abs() < 4.0 * error / (STREAMS as f64).sqrt(), "{n}: mean {mean}");
        assert!(deviation < 1.4 * error, "{n}: deviation {deviation}");
    }
}

#[test]
fn registers_have_their_extremes() {
    let mut distinct = Distinct::default();
    distinct.add(0); // Hashes to 0: fifty zeros.
    assert_eq!(distinct.registers[0] as usize, VALUE_BITS + 1);
    assert!(distinct.estimate().is_finite());
    assert_eq!(Distinct::default().count(), 0);
    assert_eq!(Distinct::default().estimate(), 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn counts_are_bounded_on_both_sides(
        keys in prop::collection::vec(prop_oneof![0..5u64, 0..200u64], 0..2000),
        most in 1..40usize,
    ) {
        let mut hottest = Hottest::new(most);
        let mut truth = HashMap::new();
        for &key in &keys {
            hottest.add(key);
            *truth.entry(key).or_insert(0u64) += 1;
        }
        let top = hottest.top(most);
        prop_assert_eq!(top.len(), most.min(truth.len()));
        prop_assert!(top.is_sorted_by_key(|counter| std::cmp::Reverse(counter.count)));
        prop_assert_eq!(top.iter().map(|counter| counter.count).sum::<u64>(), keys.len() as u64);
        for counter in &top {
            let true_count = truth[&counter.key];
            prop_assert!(counter.count >= true_count && counter.count - counter.error <= true_count);
            prop_assert!(counter.error <= keys.len() as u64 / most as u64);
        }
        // Whoever comes more often than the bound has a counter.
        for (key, count) in truth {
            if count > keys.len() as u64 / most as u64 {
                prop_assert!(top.iter().any(|counter| counter.key == key));
            }
        }
    }
}

#[test]
fn with_counters_for_all_counts_are_exact() {
    let mut hottest = Hottest::new(100);
    (0..100u64).for_each(|key| (0..=key).for_each(|_| hottest.add(key)));
    let expected: Vec<(u64, u64)> = (0..100).rev().map(|key| (key, key + 1)).collect();
    let got: Vec<(u64, u64)> = hottest.top(100).iter().map(|counter| (counter.key, counter.count)).collect();
    assert_eq!(got, expected);
}
