use super::*;

#[test]
fn the_widest_slices_are_those_that_a_search_finds() {
    for features in [1, 3, 4, 26] {
        for dim in 1..40usize {
            for towers in features + 1..features * 40 {
                let pieces = |width: usize| features * dim.div_ceil(width);
                let searched = (1..=dim).rev().find(|&width| pieces(width) >= towers);
                assert_eq!(
                    Pieces::widest(features, dim, towers),
                    searched,
                    "{features} × {dim} for {towers}"
                );
            }
            assert_eq!(Pieces::most(features, dim), features * dim);
        }
    }
    assert_eq!(Pieces::widest(4, usize::MAX, 9), Some((usize::MAX - 1) / 2));
    assert_eq!(Pieces::widest(4, 2000, 5000), None);
    assert_eq!(Pieces::most(4, 2000), 4000);
    assert_eq!(Pieces::most(5000, 8), 5000);
}
