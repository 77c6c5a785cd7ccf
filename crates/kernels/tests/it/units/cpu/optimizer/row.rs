use kernels::internals::cpu::optimizer::change;

/// Every element is changed once, by its own inputs, for lengths around all blocks.
#[test]
fn every_element_is_changed_once() {
    for len in (0..140).chain([200, 511, 512]) {
        let mut x = vec![0.25; len + 1];
        let (y, z): (Vec<f32>, Vec<f32>) = (0..len).map(|i| (i as f32, (i * i) as f32)).unzip();
        change(&mut x[..len], [&y, &z], |x, [y, z]| x + y - z);
        let each = |i| 0.25 + i as f32 - (i * i) as f32;
        let expected: Vec<f32> = (0..len).map(each).chain([0.25]).collect();
        assert_eq!(x, expected, "{len} elements");
    }
}
