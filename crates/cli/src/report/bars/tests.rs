use super::*;

#[test]
fn odd_bars_are_harmless() {
    let bar = |parts| Bar { name: "é".repeat(30), parts, text: "<i>".into() };
    let svg = bars("<x>", ["a", "b"], &[bar([1.0, f64::NAN]), bar([-1.0, f64::INFINITY])]);
    assert!(svg.contains("&lt;i&gt;") && !svg.contains("<i>") && !svg.contains("width=\"NaN"));
    assert!(bars("x", ["a", "b"], &[bar([0.0, 0.0])]).contains("Nothing was measured"));
}
