//! Target distances of features, from their affinity `I`.
//!
//! ```text
//! plain       coherent 1 − I          diverse I
//! stretched   coherent 1 − S(I)       diverse S(I) + .1        S: 0 → −.1,  far → 0,  near → .9,  1 → 1, straight between
//! ```
//!
//! Affinities of a trained model lie close together (.3 inside a group and .15 outside of it, say), so that plain distances
//! make all features about equally far from each other, and a plane cannot show the difference. DMT §3.3 asks that the order of
//! distances be kept, which `S` does. For coherent towers `near` is the mean over the pairs that would share towers if those with
//! the most affinity did, and `far` the median over all pairs; for diverse ones `far` is the mean over those with the least
//! affinity, and `near` the median.

use super::matrix::Matrix;
use spec::affinity::Affinity;
use std::str::FromStr;

/// Rule that turns affinities into distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// Affinities are stretched over the range that distinguishes towers.
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
            _ => Err(format!("unknown distance {text:?}; use stretched or plain")),
        }
    }
}

impl Distance {
    /// Distances of all features; features that are alike lie near each other where `coherent`, else far apart.
    pub(super) fn between(self, affinity: &Affinity, towers: usize, coherent: bool) -> Matrix {
        let n = affinity.features().len();
        let range = range(affinity, towers, coherent).filter(|_| self == Distance::Stretched);
        let value = |at: usize| {
            let (i, j) = (at / n, at % n);
            let affinity = affinity.between(i, j);
            match (range, coherent) {
                _ if i == j => 0.0,
                (None, true) => 1.0 - affinity,
                (None, false) => affinity,
                (Some((far, near)), true) => 1.0 - stretched(affinity, far, near),
                (Some((far, near)), false) => 0.1 + stretched(affinity, far, near),
            }
        };
        Matrix::new(n, n, (0..n * n).map(value).collect())
    }
}

/// S of the module's text.
fn stretched(affinity: f64, far: f64, near: f64) -> f64 {
    let part = |from: f64, to: f64| if to - from > 1e-9 { (affinity - from) / (to - from) } else { 1.0 };
    if affinity < far {
        0.1 * part(0.0, far) - 0.1
    } else if affinity < near {
        0.9 * part(far, near)
    } else {
        0.9 + 0.1 * part(near, 1.0)
    }
}

/// The affinities that shall count as far and as near; none where affinities do not differ.
fn range(affinity: &Affinity, towers: usize, coherent: bool) -> Option<(f64, f64)> {
    let n = affinity.features().len();
    let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| affinity.between(i, j));
    // Pieces of one table are one and the same: that says nothing about the others.
    let mut pairs: Vec<f64> = pairs.filter(|&affinity| affinity < 1.0).collect();
    pairs.sort_by(f64::total_cmp);
    let &median = pairs.get(pairs.len() / 2)?;
    // Towers of n/T features each have n/T − 1 of the n − 1 others of a feature.
    let share = (n as f64 / towers as f64 - 1.0) / (n as f64 - 1.0);
    let inside = ((share * pairs.len() as f64).round() as usize).clamp(1, pairs.len());
    let mean = |pairs: &[f64]| pairs.iter().sum::<f64>() / pairs.len() as f64;
    let (far, near) = match coherent {
        true => (median, mean(&pairs[pairs.len() - inside..])),
        false => (mean(&pairs[..inside]), median),
    };
    (near - far > 1e-9).then_some((far, near))
}

#[cfg(test)]
mod tests;
