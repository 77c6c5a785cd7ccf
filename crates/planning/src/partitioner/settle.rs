//! The last step: a plane of few dimensions cannot show all distances, so features move and swap between towers as long as that
//! lowers the objective of k-means in the distances asked for, not in those of the plane:
//!
//! ```text
//! Σ over towers of 1/size · Σ over its pairs of D²
//! ```

use super::matrix::Matrix;

/// Sweeps over all moves and swaps; most often the third finds nothing.
const SWEEPS: usize = 20;

/// What is worth a change: more than rounding.
const WORTH: f64 = -1e-9;

/// Towers on their way.
pub(super) struct Settling<'a> {
    /// The tower of every feature.
    pub(super) tower_of: Vec<usize>,
    /// The group of every tower: features stay in theirs.
    group_of: &'a [usize],
    distances: &'a Matrix,
    ratio: f64,
    sizes: Vec<usize>,
    /// By (feature, tower): squared distances from the feature to all of the tower.
    sums: Vec<f64>,
    /// Squared distances of all pairs of a tower.
    inside: Vec<f64>,
}

impl<'a> Settling<'a> {
    /// Begins with `tower_of`. Sizes of the towers of a group differ by `ratio` at most, or by one.
    pub(super) fn new(
        tower_of: Vec<usize>,
        group_of: &'a [usize],
        distances: &'a Matrix,
        ratio: f64,
    ) -> Self {
        let (n, towers) = (tower_of.len(), group_of.len());
        let mut sizes = vec![0; towers];
        let mut sums = vec![0.0; n * towers];
        let mut inside = vec![0.0; towers];
        for i in 0..n {
            sizes[tower_of[i]] += 1;
            (0..n).for_each(|j| sums[i * towers + tower_of[j]] += distances.at(i, j).powi(2));
            inside[tower_of[i]] += sums[i * towers + tower_of[i]] / 2.0;
        }
        Self { tower_of, group_of, distances, ratio, sizes, sums, inside }
    }

    /// Moves and swaps until nothing is better.
    pub(super) fn settle(&mut self) {
        for _ in 0..SWEEPS {
            let mut changed = false;
            for a in 0..self.tower_of.len() {
                for to in 0..self.sizes.len() {
                    if self.may_move(a, to) && self.gain_of_move(a, to) < WORTH {
                        self.place(a, to);
                        changed = true;
                    }
                }
                for b in 0..a {
                    let (own, other) = (self.tower_of[a], self.tower_of[b]);
                    if own != other
                        && self.group_of[own] == self.group_of[other]
                        && self.gain_of_swap(a, b) < WORTH
                    {
                        self.place(a, other);
                        self.place(b, own);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
    }

    /// Whether sizes allow it.
    fn may_move(&self, feature: usize, to: usize) -> bool {
        let from = self.tower_of[feature];
        if from == to || self.group_of[from] != self.group_of[to] || self.sizes[from] == 1 {
            return false;
        }
        let after = |tower: usize| self.sizes[tower] + usize::from(tower == to) - usize::from(tower == from);
        let fellows = (0..self.sizes.len()).filter(|&tower| self.group_of[tower] == self.group_of[to]);
        let (least, most) =
            fellows.map(after).fold((usize::MAX, 0), |(least, most), size| (least.min(size), most.max(size)));
        most - least <= 1 || most as f64 <= least as f64 * self.ratio + 1e-9
    }

    fn sum(&self, feature: usize, tower: usize) -> f64 {
        self.sums[feature * self.sizes.len() + tower]
    }

    /// How the objective changes; negative is better.
    fn gain_of_move(&self, feature: usize, to: usize) -> f64 {
        let from = self.tower_of[feature];
        let (a, b) = (self.sizes[from] as f64, self.sizes[to] as f64);
        let left = (self.inside[from] - self.sum(feature, from)) / (a - 1.0) - self.inside[from] / a;
        left + (self.inside[to] + self.sum(feature, to)) / (b + 1.0) - self.inside[to] / b
    }

    /// The same of two features that change places.
    fn gain_of_swap(&self, a: usize, b: usize) -> f64 {
        let (own, other) = (self.tower_of[a], self.tower_of[b]);
        let between = self.distances.at(a, b).powi(2);
        let in_own = self.sum(b, own) - between - self.sum(a, own);
        let in_other = self.sum(a, other) - between - self.sum(b, other);
        in_own / self.sizes[own] as f64 + in_other / self.sizes[other] as f64
    }

    fn place(&mut self, feature: usize, to: usize) {
        let (from, towers) = (self.tower_of[feature], self.sizes.len());
        self.inside[from] -= self.sum(feature, from);
        self.inside[to] += self.sum(feature, to);
        for i in 0..self.tower_of.len() {
            let squared = self.distances.at(i, feature).powi(2);
            self.sums[i * towers + from] -= squared;
            self.sums[i * towers + to] += squared;
        }
        self.sizes[from] -= 1;
        self.sizes[to] += 1;
        self.tower_of[feature] = to;
    }
}

#[cfg(test)]
mod tests;
