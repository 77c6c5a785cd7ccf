use super::*;

#[test]
fn the_widest_slices_are_those_that_a_search_finds() {
    for features in [1, 3, 4, 26] {
        for dim in 1..40usize {
            for towers in features + 1..features * 40 {
                let pieces = |width: usize| features * dim.div_ceil(width);
                let searched = (1..=dim).rev().find(|&width| pieces(width) >= towers);
                assert_eq!(
                    Pieces::widest(&vec![dim; features], towers),
                    searched,
                    "{features} × {dim} for {towers}"
                );
            }
            assert_eq!(Pieces::most(&vec![dim; features]), features * dim);
        }
    }
    assert_eq!(Pieces::widest(&[usize::MAX; 4], 9), Some((usize::MAX - 1) / 2));
    assert_eq!(Pieces::widest(&[2000; 4], 5000), None);
    assert_eq!(Pieces::most(&[2000; 4]), 4000);
    assert_eq!(Pieces::most(&[8; 5000]), 5000);
}

#[test]
fn tables_of_several_widths_are_sliced_by_their_own() {
    let names = ["a", "b", "c"].map(String::from).to_vec();
    let affinity = Affinity::new(names, vec![vec![1.0; 3]; 3]).unwrap();
    let pieces = Pieces::sliced(&affinity, &[4, 9, 16], 6).unwrap();
    let expected = ["a", "b[0..5]", "b[5..9]", "c[0..6]", "c[6..11]", "c[11..16]"];
    assert_eq!(pieces.affinity.features(), expected);
    assert_eq!(pieces.shared(&[1.0, 9.0, 16.0]), [1.0, 5.0, 4.0, 6.0, 5.0, 5.0]);
    for towers in 4..=29 {
        let searched = (1..=16).rev().find(|&width| Pieces::count(&[4, 9, 16], width) >= towers);
        assert_eq!(Pieces::widest(&[4, 9, 16], towers), searched);
    }
    assert_eq!((Pieces::widest(&[4, 9, 16], 30), Pieces::most(&[4, 9, 16])), (None, 29));
}
