use super::*;
use proptest::prelude::*;

fn piece(rows: Range<usize>, columns: Range<usize>) -> TensorEntry {
    TensorEntry {
        name: "t".into(),
        file: "rank-0000.safetensors".into(),
        shape: vec![4, 3],
        rows,
        columns,
        key: "t".into(),
        listed: None,
    }
}

fn tiles(pieces: &[TensorEntry]) -> Result<(), CheckpointError> {
    check(Path::new("manifest.json"), &pieces.iter().collect::<Vec<_>>())
}

#[test]
fn a_pinwheel_tiles_although_no_line_cuts_it() {
    let mut pieces =
        vec![piece(0..1, 0..2), piece(0..3, 2..3), piece(3..4, 1..3), piece(1..4, 0..1), piece(1..3, 1..2)];
    tiles(&pieces).unwrap();
    let middle = pieces.pop().unwrap();
    assert!(matches!(tiles(&pieces), Err(CheckpointError::Gap { covered: 10, elements: 12, .. })));
    pieces.extend([middle.clone(), middle]);
    assert!(tiles(&pieces).unwrap_err().to_string().contains("overlaps rows 1..3, columns 1..2"));
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    for shape in [vec![0], vec![3, 0], vec![usize::MAX, 2], vec![usize::MAX / 4], vec![2; 70]] {
        assert_eq!(Extent::of(&shape), None, "{shape:?}");
    }
    assert_eq!(Extent::of(&[]), Some(Extent { rows: 1, columns: 1 }));
    assert_eq!(Extent::of(&[5]), Some(Extent { rows: 5, columns: 1 }));
    assert_eq!(Extent::of(&[5, 2, 3]), Some(Extent { rows: 5, columns: 6 }));
}

proptest! {
    #[test]
    fn agrees_with_counting_every_element(
        rectangles in prop::collection::vec((0usize..5, 0usize..6, 0usize..4, 0usize..5), 1..6)
    ) {
        let pieces: Vec<_> =
            rectangles.into_iter().map(|(top, bottom, left, right)| piece(top..bottom, left..right)).collect();
        let mut count = [[0; 3]; 4];
        let mut inside = true;
        for piece in &pieces {
            inside &= !piece.rows.is_empty() && !piece.columns.is_empty();
            for row in piece.rows.clone() {
                for column in piece.columns.clone() {
                    match count.get_mut(row).and_then(|row| row.get_mut(column)) {
                        Some(count) => *count += 1,
                        None => inside = false,
                    }
                }
            }
        }
        let once = count.iter().flatten().all(|&count| count == 1);
        prop_assert_eq!(tiles(&pieces).is_ok(), inside && once);
    }
}
