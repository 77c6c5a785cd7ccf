use super::*;

fn affinity() -> Affinity {
    let names = ["A", "B", "C", "D"].map(String::from).to_vec();
    let near = |i: usize, j: usize| match (i, j) {
        (0, 1) | (1, 0) => 0.4,
        (2, 3) | (3, 2) => 0.2,
        _ if i == j => 1.0,
        _ => 0.1,
    };
    Affinity::new(names, (0..4).map(|i| (0..4).map(|j| near(i, j)).collect()).collect()).unwrap()
}

#[test]
fn distances_span_what_tells_towers_apart() {
    // Two of the six pairs share a tower: .4 and .2, so near is .3; far is .1.
    let near = |matrix: &Matrix, i: usize, j: usize, expected: f64| {
        assert!((matrix.at(i, j) - expected).abs() < 1e-12, "{} for {expected}", matrix.at(i, j));
    };
    let coherent = Distance::Stretched.between(&affinity(), 2, true);
    near(&coherent, 0, 1, 0.1 * 6.0 / 7.0);
    near(&coherent, 2, 3, 1.0 - 0.45);
    near(&coherent, 0, 2, 1.0);
    near(&coherent, 0, 0, 0.0);
    let plain = Distance::Plain.between(&affinity(), 2, true);
    near(&plain, 0, 1, 0.6);
    near(&plain, 0, 2, 0.9);
    // The two pairs with the least affinity have .1, the median too, so nothing is stretched.
    near(&Distance::Stretched.between(&affinity(), 2, false), 0, 1, 0.4);
}

#[test]
fn the_order_is_kept() {
    let values: Vec<f64> = (0..=100).map(|i| stretched(f64::from(i) / 100.0, 0.15, 0.3)).collect();
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
    assert!((values[0] + 0.1).abs() < 1e-12 && (values[100] - 1.0).abs() < 1e-12);
}

#[test]
fn equal_affinities_are_left_as_they_are() {
    let names = ["A", "B", "C"].map(String::from).to_vec();
    let rows = (0..3).map(|i| (0..3).map(|j| if i == j { 1.0 } else { 0.25 }).collect()).collect();
    let equal = Affinity::new(names, rows).unwrap();
    assert_eq!(Distance::Stretched.between(&equal, 2, true).at(0, 1), 0.75);
}
