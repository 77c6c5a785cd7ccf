use super::*;

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
    for count in [-5i64, 0, 1, 2, 100, 4095, 4096, 1 << 40] {
        let expected = (1.0 + f64::from(count.max(0) as f32)).ln() as f32;
        let got = numbers.parse(count.to_string().as_bytes(), Transform::Log).unwrap();
        assert!((got - expected).abs() < 1e-6, "{count}: {got}, expected {expected}");
        let decimal = numbers.parse(format!("{count}.0").as_bytes(), Transform::Log).unwrap();
        assert_eq!(got.to_bits(), decimal.to_bits());
    }
    assert_eq!(numbers.parse(b"1e300", Transform::None), None);
    assert!(numbers.parse(b"1e300", Transform::Log).is_some());
}
