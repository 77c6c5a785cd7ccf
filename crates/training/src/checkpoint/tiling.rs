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
mod tests;
