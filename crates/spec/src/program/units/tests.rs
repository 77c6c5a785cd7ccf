use super::*;

const LONGEST: usize = Codec::LONGEST_ROW;

/// Rows of units, one by one.
fn listed(units: &Units, range: Range<usize>, at: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let repeats = units.rows(range, at, &mut rows);
    let shift = |k: usize, row: &Row| Row {
        at: row.at + k * repeats.floats,
        byte: row.byte + k * repeats.bytes,
        width: row.width,
    };
    (0..repeats.count).flat_map(|k| rows.iter().map(move |row| shift(k, row))).collect()
}

#[test]
fn tensors_are_cut_into_rows_and_padding_is_in_none() {
    let tensors = [0..300, 304..304, 304..305, 320..320 + LONGEST];
    let units = Units::of_tensors(Codec::U4, 460, &tensors);
    let rows = listed(&units, 0..units.count(), 0);
    let expected = [(0, 0, 128), (128, 72, 128), (256, 144, 44), (304, 174, 1), (320, 183, 128)];
    assert_eq!(rows, expected.map(|(at, byte, width)| Row { at, byte, width }));
    assert_eq!((units.count(), units.byte(5)), (5, 255));
    assert_eq!((units.bytes(1..4), units.floats(1..4), units.extent(1..4)), (111, 173, 177));
    assert_eq!(listed(&units, 2..4, 10)[1], Row { at: 58, byte: 174, width: 1 });
    let none = Units::of_tensors(Codec::U4, 10, &[]);
    assert_eq!((none.count(), none.byte(0), none.extent(0..0)), (0, 0, 0));
    for (codec, size) in [(Codec::F32, 4), (Codec::F16, 2), (Codec::Bf16, 2)] {
        let units = Units::of_tensors(codec, 460, &tensors);
        assert_eq!((units.count(), units.byte(460), units.bytes(3..7)), (460, 460 * size, 4 * size));
        assert_eq!(listed(&units, 3..7, 3), [Row { at: 3, byte: 3 * size, width: 4 }]);
    }
}

#[test]
fn vectors_are_rows_that_repeat() {
    let mut units = Units::of_vectors(Codec::Fp8E4m3, &[3, 5], 4);
    assert_eq!((units.count(), units.byte(8), units.floats(1..4), units.extent(1..4)), (8, 64, 13, 13));
    let rows = listed(&units, 2..6, 0);
    let expected = [(0, 16, 3), (3, 23, 5), (8, 32, 3), (11, 39, 5)];
    assert_eq!(rows, expected.map(|(at, byte, width)| Row { at, byte, width }));
    // Whole repetitions are one pattern; others are listed one by one, and are the same rows.
    let mut pattern = Vec::new();
    assert_eq!(units.rows(2..6, 0, &mut pattern), Repeats { count: 2, floats: 8, bytes: 16 });
    assert_eq!(pattern.len(), 2);
    let all = listed(&units, 0..8, 0);
    assert_eq!(listed(&units, 1..4, 3), all[1..4]);
    units.set_vectors(Codec::F16, &[3, 5], 4);
    assert_eq!(units, Units::of_vectors(Codec::F16, &[3, 5], 4));
    assert_eq!((units.count(), units.byte(32), units.bytes(8..16)), (32, 64, 16));
    units.set_vectors(Codec::U2, &[], 4);
    assert_eq!((units.count(), units.byte(0)), (0, 0));
}
