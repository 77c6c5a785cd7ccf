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
    /// Number of pieces that slices of at most `width` make of tables with these columns.
    pub fn count(columns: &[usize], width: usize) -> usize {
        columns.iter().fold(0, |pieces, columns| pieces.saturating_add(columns.div_ceil(width).max(1)))
    }

    /// The widest slices that make at least `pieces` pieces; 0 if none do.
    fn widest_of(columns: &[usize], pieces: usize) -> usize {
        // Narrower slices make no fewer pieces.
        let (mut enough, mut few) = (0, columns.iter().copied().max().unwrap_or(0).saturating_add(1));
        while few - enough > 1 {
            let middle = enough + (few - enough) / 2;
            match Self::count(columns, middle) >= pieces {
                true => enough = middle,
                false => few = middle,
            }
        }
        enough
    }

    /// The narrowest slices that make at most [`MOST`] pieces.
    fn least(columns: &[usize]) -> usize {
        let widest = columns.iter().copied().max().unwrap_or(0).max(1);
        (Self::widest_of(columns, MOST + 1) + 1).min(widest)
    }

    /// The most pieces that tables with these columns can be sliced into.
    pub fn most(columns: &[usize]) -> usize {
        Self::count(columns, Self::least(columns))
    }

    /// The widest slices that make at least `towers` pieces, of more towers than tables.
    pub fn widest(columns: &[usize], towers: usize) -> Option<usize> {
        let width = Self::widest_of(columns, towers);
        (width > 0 && Self::count(columns, width) <= MOST).then_some(width)
    }

    /// Every feature as one piece.
    pub fn whole(affinity: &Affinity) -> Self {
        let of = (0..affinity.features().len()).map(|feature| (feature, 1.0)).collect();
        Self { affinity: affinity.clone(), of }
    }

    /// Tables with these columns in slices of at most `width`, those of a table equal up to one.
    pub fn sliced(affinity: &Affinity, columns: &[usize], width: usize) -> Result<Self, DivisionError> {
        if width == 0 {
            return Err(DivisionError::EmptySlices);
        }
        if columns.contains(&0) {
            return Err(DivisionError::EmptyTables);
        }
        if Self::count(columns, width) > MOST {
            let (dim, features) = (columns.iter().copied().max().unwrap_or(0), columns.len());
            let least = Self::least(columns);
            return Err(DivisionError::TooManyPieces { width, dim, features, most: MOST, least });
        }
        let slices = |feature: usize| {
            let (columns, slices) = (columns[feature], columns[feature].div_ceil(width));
            (0..slices).map(move |slice| Member { feature, columns: share(columns, slices, slice) })
        };
        let members: Vec<Member> = (0..columns.len()).flat_map(slices).collect();
        let name = |m: &Member| m.name_of(&affinity.features()[m.feature], columns[m.feature]);
        let part = |m: &Member| (m.feature, m.columns.len() as f64 / columns[m.feature] as f64);
        let of: Vec<(usize, f64)> = members.iter().map(part).collect();
        let between = |a: usize, b: usize| if a == b { 1.0 } else { affinity.between(a, b) };
        let rows = of.iter().map(|a| of.iter().map(|b| between(a.0, b.0)).collect()).collect();
        Ok(Self { affinity: Affinity::new(members.iter().map(name).collect(), rows)?, of })
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
