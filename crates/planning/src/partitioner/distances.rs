//! How far apart features shall lie, from their affinity `I`.
//!
//! ```text
//! plain       coherent 1 − I      diverse I
//! stretched   the same of S = (I − far) / (near − far), held between 0 and 1
//! ```
//!
//! Affinities of a trained model lie close together (.3 inside a group and .15 outside of it, say), so that plain distances
//! make all features about equally far from each other, and a plane cannot show the difference. DMT §3.3 asks only that the
//! order of distances be kept. For coherent towers `near` is the mean over the pairs that would share towers if those with the
//! most affinity did, and `far` the median over all pairs; for diverse ones `far` is the mean over those with the least affinity,
//! and `near` the median.

use super::matrix::Matrix;
use spec::affinity::Affinity;
use std::str::FromStr;

/// How distances follow from affinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// Over the range in which affinities tell towers apart.
    #[default]
    Stretched,
    /// Exactly 1 − I or I, as DMT §3.3 writes it.
    Plain,
}

impl FromStr for Distance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stretched" => Ok(Distance::Stretched),
            "plain" => Ok(Distance::Plain),
            _ => Err(format!("{text:?} is no distance; there are stretched and plain")),
        }
    }
}

impl Distance {
    /// Distances of all features; features that are alike lie near each other where `coherent`, else far apart.
    pub(super) fn between(self, affinity: &Affinity, towers: usize, coherent: bool) -> Matrix {
        let n = affinity.features().len();
        let (far, near) = match self {
            Distance::Plain => (0.0, 1.0),
            Distance::Stretched => range(affinity, towers, coherent),
        };
        let value = |at: usize| {
            let (i, j) = (at / n, at % n);
            let alike = ((affinity.between(i, j) - far) / (near - far)).clamp(0.0, 1.0);
            match (i == j, coherent) {
                (true, _) => 0.0,
                (_, true) => 1.0 - alike,
                (_, false) => alike,
            }
        };
        Matrix::new(n, n, (0..n * n).map(value).collect())
    }
}

/// The affinities that are far from each other and near; all of 0 to 1 where affinities do not differ.
fn range(affinity: &Affinity, towers: usize, coherent: bool) -> (f64, f64) {
    let n = affinity.features().len();
    let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| affinity.between(i, j));
    // Pieces of one table are one and the same: that says nothing about the others.
    let mut pairs: Vec<f64> = pairs.filter(|&affinity| affinity < 1.0).collect();
    pairs.sort_by(f64::total_cmp);
    let Some(&median) = pairs.get(pairs.len() / 2) else { return (0.0, 1.0) };
    // Towers of n/T features each have n/T − 1 of the n − 1 others of a feature.
    let share = (n as f64 / towers as f64 - 1.0) / (n as f64 - 1.0);
    let inside = ((share * pairs.len() as f64).round() as usize).clamp(1, pairs.len());
    let mean = |pairs: &[f64]| pairs.iter().sum::<f64>() / pairs.len() as f64;
    let (far, near) = match coherent {
        true => (median, mean(&pairs[pairs.len() - inside..])),
        false => (mean(&pairs[..inside]), median),
    };
    if near - far > 1e-9 { (far, near) } else { (0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affinity() -> Affinity {
        let names = ["A", "B", "C", "D"].map(String::from).to_vec();
        let near = |i: usize, j: usize| match (i, j) {
            (0, 1) | (1, 0) => 0.4,
            (2, 3) | (3, 2) => 0.2,
            _ if i == j => 1.0,
            _ => 0.1,
        };
        Affinity::new(names, (0..4).map(|i| (0..4).map(|j| near(i, j)).collect()).collect()).unwrap()
    }

    #[test]
    fn distances_span_what_tells_towers_apart() {
        // Two of the six pairs share a tower: .4 and .2, so near is .3; far is .1.
        let stretched = Distance::Stretched.between(&affinity(), 2, true);
        assert_eq!([stretched.at(0, 1), stretched.at(0, 2), stretched.at(0, 0)], [0.0, 1.0, 0.0]);
        assert!((stretched.at(2, 3) - 0.5).abs() < 1e-12);
        // The two pairs with the least affinity have .1, the median too, so nothing is stretched.
        let diverse = Distance::Stretched.between(&affinity(), 2, false);
        assert_eq!([diverse.at(0, 1), diverse.at(0, 2), diverse.at(0, 0)], [0.4, 0.1, 0.0]);
        let plain = Distance::Plain.between(&affinity(), 2, true);
        assert_eq!([plain.at(0, 1), plain.at(0, 2)], [0.6, 0.9]);
    }

    #[test]
    fn equal_affinities_are_left_as_they_are() {
        let names = ["A", "B", "C"].map(String::from).to_vec();
        let rows = (0..3).map(|i| (0..3).map(|j| if i == j { 1.0 } else { 0.25 }).collect()).collect();
        let equal = Affinity::new(names, rows).unwrap();
        assert_eq!(Distance::Stretched.between(&equal, 2, true).at(0, 1), 0.75);
    }
}
