use super::*;

/// Every element is changed once, by its own gradient, for lengths around all blocks.
#[test]
fn every_element_is_changed_once() {
    for len in (0..140).chain([200, 511, 512]) {
        let (mut w, mut h) = (vec![0.0; len + 1], vec![0.0; len + 1]);
        let g: Vec<f32> = (0..len).map(|i| i as f32).collect();
        change([&mut w[..len], &mut h[..len]], &g, |[w, h], g| [w + g + 1.0, h - g]);
        let expected: Vec<f32> = (0..len).map(|i| i as f32 + 1.0).chain([0.0]).collect();
        assert_eq!(w, expected, "{len} elements");
        let expected: Vec<f32> = (0..len).map(|i| 0.0 - i as f32).chain([0.0]).collect();
        assert_eq!(h, expected, "{len} elements");
    }
}
