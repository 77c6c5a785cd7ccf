//! Expected values are NumPy's: `x = [((i*37)%101)**1.5 - 20 for i in range(500) if i % 7 != 0]`, `x.mean()`, `x.std()`,
//! `np.quantile(x, …)`, `np.searchsorted(boundaries, …, side="left")`.

use super::*;
use Transform::{Bucketise, Clip, ClipQuantiles, List, Log, Standardise};

fn numbers() -> Vec<f64> {
    (0..500).filter(|i| i % 7 != 0).map(|i| f64::from((i * 37) % 101).powf(1.5) - 20.0).collect()
}

/// Counts numbers in `memory` bytes and learns a transform from them.
fn learnt(numbers: &[f64], transform: &Transform, memory: u64) -> Vec<LearntStep> {
    let folder = tempfile::tempdir().unwrap();
    let mut counter = Counter::new("x", folder.path(), memory);
    let keys: Vec<u64> = numbers.iter().map(|&x| ordered_key(x)).collect();
    counter.add(&keys).unwrap();
    counter.sort().unwrap();
    learnt_steps(transform, &counter).unwrap()
}

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() <= expected.abs() * 1e-12, "{got}, expected {expected}");
}

#[test]
fn values_are_those_of_numpy() {
    let x = numbers();
    let of = |transform: Transform| learnt(&x, &transform, 1 << 20);
    let standardised = |step: &LearntStep, expected: [f64; 2]| match step {
        LearntStep::Standardise { mean, deviation } => {
            close(*mean, expected[0]);
            close(*deviation, expected[1]);
        }
        other => panic!("{other:?}"),
    };
    standardised(&of(Standardise)[0], [381.1996360481487, 302.45362149646735]);
    standardised(&of(List(vec![Log, Standardise]))[1], [5.149377322126161, 1.8842453486019681]);
    let clipped = of(List(vec![ClipQuantiles([0.1, 0.9]), Standardise]));
    assert_eq!(clipped[0], LearntStep::Clip { low: 11.622776601683793, high: 833.8149682454624 });
    standardised(&clipped[1], [375.43834362167144, 286.429567668686]);
    let bounds = of(ClipQuantiles([0.01, 0.99]));
    assert_eq!(bounds, [LearntStep::Clip { low: -19.0, high: 965.0375627355537 }]);
    let buckets = of(Bucketise(5));
    let boundaries = vec![69.44271909999159, 232.98221281347034, 444.75800154489, 695.5417527999327];
    assert_eq!(buckets, [LearntStep::Bucketise { boundaries }]);
    let numbers = [-30.0, -20.0, 0.0, 100.0, 500.0, 2000.0];
    assert_eq!(numbers.map(|x| buckets[0].apply(x) * 4.0), [0.0, 0.0, 0.0, 1.0, 3.0, 4.0]);
    assert_eq!(of(Clip([0.0, 1.0])), [LearntStep::Clip { low: 0.0, high: 1.0 }]);
}

#[test]
fn spilled_and_reordered_numbers_give_the_same_bits() {
    let x = numbers();
    let transform = List(vec![ClipQuantiles([0.05, 0.95]), Log, Standardise, Bucketise(7)]);
    let expected = learnt(&x, &transform, 1 << 20);
    let backwards: Vec<f64> = x.iter().rev().copied().collect();
    for memory in [0, 64 * 8, 4096] {
        assert_eq!(learnt(&backwards, &transform, memory), expected);
    }
}

#[test]
fn ties_and_empty_columns_have_inputs() {
    let ties: Vec<f64> = [0.0; 90].into_iter().chain((1..=10).map(f64::from)).collect();
    // Ten buckets become three: the zeros, what lies up to 0.1, and the rest.
    let buckets = learnt(&ties, &Bucketise(10), 1 << 20);
    let [LearntStep::Bucketise { boundaries }] = &buckets[..] else { panic!("{buckets:?}") };
    assert_eq!(boundaries.len(), 2);
    assert_eq!([0.0, 1.0, 10.0].map(|x| buckets[0].apply(x)), [0.0, 1.0, 1.0]);
    // The largest number is repeated: no bucket lies above it.
    let ones: Vec<f64> = [0.0; 10].into_iter().chain([1.0; 90]).collect();
    let buckets = learnt(&ones, &Bucketise(2), 1 << 20);
    assert_eq!(buckets, [LearntStep::Bucketise { boundaries: vec![] }]);
    for numbers in [&[][..], &[7.25; 9]] {
        for transform in [Standardise, Bucketise(4), ClipQuantiles([0.0, 1.0])] {
            let steps = learnt(numbers, &transform, 1 << 20);
            let input = steps[0].apply(7.25);
            assert!(input.is_finite() && (numbers.is_empty() || input == 0.0 || input == 7.25), "{steps:?}");
        }
    }
    assert_eq!(learnt(&[7.25; 9], &Standardise, 1 << 20)[0].apply(8.25), 1.0);
}
