use super::*;
use spec::schema::{DenseColumn, Schema, Transform};

#[test]
fn only_finite_numbers_pass() {
    for (text, expected) in
        [("0", 0.0), ("-17", -17.0), ("+4", 4.0), ("3.25", 3.25), (".5", 0.5), ("1e-3", 1e-3)]
    {
        assert_eq!(finite(text.as_bytes()), Some(expected), "{text}");
    }
    for text in ["", "-", "nan", "inf", "-infinity", "1e999", "0x1f", " 1", "1 ", "1,5", "--1", "ä"] {
        assert_eq!(finite(text.as_bytes()), None, "{text}");
    }
    assert_eq!(finite(b"123456789012345678901234567890"), Some(123456789012345678901234567890.0));
}

#[test]
fn the_table_of_logarithms_agrees_with_the_formula() {
    let numbers = Numbers::new();
    let input = |transform| {
        let column = DenseColumn { column: "x".into(), transform, missing: 0.5 };
        Input::of(&Schema { dense: vec![column], ..Schema::criteo() }, None).remove(0)
    };
    let (log, none) = (input(Transform::Log), input(Transform::None));
    for count in [-5i64, 0, 1, 2, 100, 4095, 4096, 1 << 40] {
        let expected = (1.0 + f64::from(count.max(0) as f32)).ln() as f32;
        let got = numbers.parse(count.to_string().as_bytes(), &log).unwrap();
        assert!((got - expected).abs() < 1e-6, "{count}: {got}, expected {expected}");
        let decimal = numbers.parse(format!("{count}.0").as_bytes(), &log).unwrap();
        assert_eq!(got.to_bits(), decimal.to_bits());
    }
    assert_eq!(numbers.parse(b"1e300", &none), None);
    assert!(numbers.parse(b"1e300", &log).is_some());
    assert_eq!((none.number(f64::NAN), log.number(f64::NAN), none.missing()), (None, None, 0.5));
    // Before values are learnt, and after, the same numbers are refused.
    let standardise = input(Transform::Standardise);
    assert_eq!((standardise.number(1e39), standardise.number(7.0)), (None, Some(7.0)));
    assert!(input(Transform::List(vec![Transform::Log, Transform::Standardise])).number(1e39).is_some());
    assert_eq!(input(Transform::Clip([-1.0, 2.5])).number(1e300), Some(2.5));
}

#[test]
fn keys_have_the_order_of_numbers() {
    let ascending = [f64::MIN, -2.5, -1.0, -f64::MIN_POSITIVE, 0.0, 5e-324, 0.1, 1.0, 1e300, f64::MAX];
    let keys = ascending.map(ordered_key);
    assert!(keys.is_sorted_by(|one, other| one < other));
    assert_eq!(keys.map(of_ordered_key), ascending.map(Some));
    assert_eq!(of_ordered_key(MISSING_KEY), None);
    assert_eq!(ordered_key(-0.0), ordered_key(0.0));
    assert!(keys[9] < MISSING_KEY);
}
