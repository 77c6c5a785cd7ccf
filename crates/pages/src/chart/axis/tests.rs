use super::*;
use proptest::prelude::*;

fn labels(low: f64, high: f64) -> Vec<String> {
    let axis = Axis::over([low, high].into_iter(), 5);
    axis.marks().into_iter().map(|mark| axis.label(mark)).collect()
}

#[test]
fn marks_are_round_and_short() {
    assert_eq!(labels(0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(labels(0.443, 0.687), ["0.45", "0.50", "0.55", "0.60", "0.65"]);
    assert_eq!(labels(0.0, 409_600.0), ["0", "100 k", "200 k", "300 k", "400 k"]);
    assert_eq!(labels(0.0, 0.00002), ["0", "5e-6", "1.0e-5", "1.5e-5", "2.0e-5"]);
}

#[test]
fn axes_of_odd_values() {
    assert_eq!(labels(0.0, 0.0).len(), 6);
    assert!(labels(0.01, 0.01).len() >= 3);
    let none = Axis::over([f64::NAN, f64::INFINITY, 1e300].into_iter(), 5);
    assert_eq!((none.low, none.high), (0.0, 1.0));
}

proptest! {
    #[test]
    fn marks_lie_inside_and_are_multiples(
        low in prop_oneof![Just(0.0), -1.0..1.0f64, -1e30..1e30f64],
        exponent in -330..30i32,
        share in 0.0..1.0f64,
        count in 1..12usize,
    ) {
        let axis = Axis::over([low, low + share * 10f64.powi(exponent)].into_iter(), count);
        for axis in [axis, axis.rounded()] {
            let marks = axis.marks();
            prop_assert!(marks.len() <= 2 * count + 4, "{axis:?} {marks:?}");
            prop_assert!(marks.windows(2).all(|pair| pair[0] < pair[1]), "{axis:?} {marks:?}");
            let slack = axis.step * 1e-3;
            prop_assert!(marks.iter().all(|&m| m >= axis.low - slack && m <= axis.high + slack));
            let mantissa = axis.step / 10f64.powf(axis.step.log10().round());
            let digit = [0.5, 1.0, 2.0, 5.0].into_iter().any(|d| (mantissa / d - 1.0f64).abs() < 1e-6);
            prop_assert!(digit, "{axis:?}: {mantissa}");
            for mark in marks {
                prop_assert!(axis.label(mark).len() < 16, "{}", axis.label(mark));
            }
        }
        let rounded = axis.rounded();
        prop_assert!(rounded.low <= axis.low + axis.step * 1e-6 && rounded.high >= axis.high - axis.step * 1e-6);
    }
}
