//! Whether rectangles cover a matrix exactly once.
//!
//! Disjoint rectangles inside the matrix whose areas add up to its area tile it. A line sweeps down the rows and keeps
//! the column ranges that it crosses: a new one may overlap only its two neighbours.

use super::CheckpointError;
use super::entries::TensorEntry;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// A tensor as a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first dimension; 1 for a scalar.
    pub rows: usize,
    /// The product of the other dimensions.
    pub columns: usize,
}

impl Extent {
    /// The matrix of a tensor of this shape. `None` if it is empty, or larger than memory can be.
    pub fn of(shape: &[usize]) -> Option<Self> {
        let (rows, rest) = shape.split_first().unwrap_or((&1, &[]));
        let columns = rest.iter().try_fold(1usize, |product, &n| product.checked_mul(n))?;
        let bytes = rows.checked_mul(columns)?.checked_mul(size_of::<f32>())?;
        (1..=isize::MAX as usize).contains(&bytes).then_some(Self { rows: *rows, columns })
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.rows * self.columns
    }

    /// Whether a rectangle is not empty and lies inside.
    pub fn contains(&self, rows: &Range<usize>, columns: &Range<usize>) -> bool {
        !rows.is_empty() && !columns.is_empty() && rows.end <= self.rows && columns.end <= self.columns
    }
}

/// Checks the pieces of one tensor, all of which have its name. `path` is the manifest's, for errors.
pub(super) fn check(path: &Path, pieces: &[&TensorEntry]) -> Result<(), CheckpointError> {
    let Some(first) = pieces.first() else { return Ok(()) };
    let refuse = |piece: &TensorEntry, problem: String| CheckpointError::Piece {
        path: path.to_owned(),
        tensor: piece.name.clone(),
        rows: piece.rows.clone(),
        columns: piece.columns.clone(),
        problem,
    };
    let extent = Extent::of(&first.shape)
        .ok_or_else(|| refuse(first, format!("no tensor can have the shape {:?}", first.shape)))?;
    for piece in pieces {
        if piece.shape != first.shape {
            let problem =
                format!("its shape is {:?} here and {:?} in {}", piece.shape, first.shape, first.file);
            return Err(refuse(piece, problem));
        }
        if !extent.contains(&piece.rows, &piece.columns) {
            return Err(refuse(piece, format!("empty, or outside of the tensor's shape {:?}", piece.shape)));
        }
    }

    // Where a piece ends and another begins at one row, the end comes first.
    let mut events: Vec<(usize, bool, &TensorEntry)> = Vec::with_capacity(2 * pieces.len());
    for piece in pieces {
        events.push((piece.rows.start, true, piece));
        events.push((piece.rows.end, false, piece));
    }
    events.sort_by_key(|&(row, begins, piece)| (row, begins, piece.columns.start));
    let mut crossed: BTreeMap<usize, &TensorEntry> = BTreeMap::new();
    for (_, begins, piece) in events {
        let columns = &piece.columns;
        if !begins {
            crossed.remove(&columns.start);
            continue;
        }
        let left = crossed.range(..=columns.start).next_back().filter(|(_, l)| l.columns.end > columns.start);
        let right = crossed.range(columns.start..).next().filter(|(start, _)| **start < columns.end);
        if let Some((_, other)) = left.or(right) {
            let problem = format!(
                "in {}, overlaps rows {:?}, columns {:?} in {}",
                piece.file, other.rows, other.columns, other.file
            );
            return Err(refuse(piece, problem));
        }
        crossed.insert(columns.start, piece);
    }

    // Disjoint and inside, so the sum cannot overflow.
    let covered = pieces.iter().map(|piece| piece.rows.len() * piece.columns.len()).sum();
    let elements = extent.elements();
    if covered != elements {
        let tensor = first.name.clone();
        return Err(CheckpointError::Gap { path: path.to_owned(), tensor, covered, elements });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
        }
    }

    fn tiles(pieces: &[TensorEntry]) -> Result<(), CheckpointError> {
        check(Path::new("manifest.json"), &pieces.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_pinwheel_tiles_although_no_line_cuts_it() {
        let mut pieces = vec![
            piece(0..1, 0..2),
            piece(0..3, 2..3),
            piece(3..4, 1..3),
            piece(1..4, 0..1),
            piece(1..3, 1..2),
        ];
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
}
