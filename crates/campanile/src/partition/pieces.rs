//! Tables in slices, so that there can be more towers than features.

use super::DivisionError;
use spec::affinity::Affinity;
use spec::model::Member;
use spec::placement::share;

/// Features, or slices of their tables.
pub struct Pieces {
    /// Affinity between pieces; 1 for pieces of one feature.
    pub affinity: Affinity,
    /// The feature of each piece, and its share of the feature's columns.
    of: Vec<(usize, f64)>,
}

/// The most pieces: the work grows with their square, and their affinity is a matrix in memory.
const MOST: usize = 4096;

impl Pieces {
    /// The most pieces that tables of `dim` columns can be sliced into.
    pub fn most(features: usize, dim: usize) -> usize {
        let slices = (MOST / features).clamp(1, dim.max(1));
        // Slices are as wide as makes that many of them, or fewer.
        features * dim.div_ceil(dim.div_ceil(slices).max(1)).max(1)
    }

    /// The widest slices that make at least `towers` pieces, of more towers than features.
    pub fn widest(features: usize, dim: usize, towers: usize) -> Option<usize> {
        // ⌈dim / width⌉ ≥ slices just where width·(slices − 1) < dim.
        let slices = towers.div_ceil(features).max(2);
        let width = dim.saturating_sub(1) / (slices - 1);
        (width > 0 && features.saturating_mul(dim.div_ceil(width)) <= MOST).then_some(width)
    }

    /// Every feature as one piece.
    pub fn whole(affinity: &Affinity) -> Self {
        let of = (0..affinity.features().len()).map(|feature| (feature, 1.0)).collect();
        Self { affinity: affinity.clone(), of }
    }

    /// Tables of `dim` columns in slices of at most `width`, equal up to one.
    pub fn sliced(affinity: &Affinity, dim: usize, width: usize) -> Result<Self, DivisionError> {
        if width == 0 {
            return Err(DivisionError::EmptySlices);
        }
        if dim == 0 {
            return Err(DivisionError::EmptyTables);
        }
        let (count, slices) = (affinity.features().len(), dim.div_ceil(width));
        let pieces = count.checked_mul(slices).filter(|&pieces| pieces <= MOST);
        let pieces = pieces.ok_or_else(|| {
            let least = dim.div_ceil((MOST / count).max(1));
            DivisionError::TooManyPieces { width, dim, features: count, most: MOST, least }
        })?;
        let member = |at: usize| Member { feature: at / slices, columns: share(dim, slices, at % slices) };
        let name = |at: usize| member(at).name_of(&affinity.features()[at / slices], dim);
        let of: Vec<(usize, f64)> =
            (0..pieces).map(|at| (at / slices, member(at).columns.len() as f64 / dim as f64)).collect();
        let between = |a: usize, b: usize| if a == b { 1.0 } else { affinity.between(a, b) };
        let rows = of.iter().map(|a| of.iter().map(|b| between(a.0, b.0)).collect()).collect();
        Ok(Self { affinity: Affinity::new((0..pieces).map(name).collect(), rows)?, of })
    }

    /// Values of features, repeated for each of their pieces.
    pub fn of_features<T: Copy>(&self, features: &[T]) -> Vec<T> {
        self.of.iter().map(|&(feature, _)| features[feature]).collect()
    }

    /// Loads of features, shared among their pieces.
    pub fn shared(&self, loads: &[f64]) -> Vec<f64> {
        self.of.iter().map(|&(feature, share)| loads[feature] * share).collect()
    }
}

#[cfg(test)]
mod tests;
