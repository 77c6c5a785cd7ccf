use super::*;

fn pairs(n: usize, count: usize, ratio: f64) -> Vec<(usize, usize)> {
    bounds(n, count, ratio).into_iter().map(|sizes| (sizes.least, sizes.most)).collect()
}

#[test]
fn sizes_keep_the_ratio() {
    assert_eq!(pairs(32, 8, 1.0), [(4, 4)]);
    assert_eq!(pairs(26, 8, 1.0), [(3, 4)]);
    assert_eq!(pairs(26, 8, 1.2), [(3, 4)]);
    assert_eq!(pairs(32, 8, 3.0), [(2, 6), (3, 9), (4, 12)]);
    assert_eq!(pairs(90, 2, 1.4).last(), Some(&(45, 63)));
    assert_eq!(pairs(8, 8, 1e300), [(1, 8)]);
    assert_eq!(thinned(bounds(1000, 2, 2.0)).count(), TRIED);
}
