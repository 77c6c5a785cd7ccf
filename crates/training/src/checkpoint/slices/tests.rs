use super::Slices;

#[test]
fn names_say_how_columns_were_cut() {
    for suffix in ["", ".in_2_slices", ".in_3_slices", ".cut_at_3_12", ".cut_at_1"] {
        let slices = Slices::parse(suffix, 16).unwrap();
        assert_eq!(slices.suffix(), suffix);
        assert_eq!(slices.weights(&(0..16)).iter().sum::<f32>(), 1.0);
    }
    for wrong in [
        ".in_1_slices",
        ".in_17_slices",
        ".in_x_slices",
        ".cut_at_",
        ".cut_at_0",
        ".cut_at_8_8",
        ".cut_at_16",
        ".0",
    ] {
        assert_eq!(Slices::parse(wrong, 16), None, "{wrong}");
    }
}

#[test]
fn other_slices_take_the_mean_of_their_columns() {
    let slices = Slices::parse(".cut_at_4", 16).unwrap();
    assert_eq!(slices.weights(&(0..8)), [0.5, 0.5]);
    assert_eq!(slices.weights(&(8..16)), [0.0, 1.0]);
    assert_eq!(slices.position(&(4..16)), Some(1));
    assert_eq!(slices.position(&(0..8)), None);
}
