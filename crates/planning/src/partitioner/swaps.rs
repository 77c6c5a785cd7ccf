//! The last step: a plane of few dimensions cannot show all distances, so features that k-means put into the wrong of two towers are
//! swapped as long as that lowers the squared distances inside towers, those asked for and not those on the plane.

use super::matrix::Matrix;

/// Sweeps over all pairs; most often the second finds nothing.
const SWEEPS: usize = 10;

/// Swaps features between towers of `tower_of`, both of the same group. Sizes stay as they are.
pub(super) fn settle(tower_of: &mut [usize], group_of: &[usize], distances: &Matrix) {
    let n = tower_of.len();
    let towers = tower_of.iter().max().map_or(0, |last| last + 1);
    let squared = |a: usize, b: usize| distances.at(a, b).powi(2);
    // By (feature, tower): from the feature to all of the tower.
    let mut sums = vec![0.0; n * towers];
    for i in 0..n {
        (0..n).for_each(|j| sums[i * towers + tower_of[j]] += squared(i, j));
    }
    for _ in 0..SWEEPS {
        let mut swapped = false;
        for a in 0..n {
            for b in 0..a {
                let (own, other) = (tower_of[a], tower_of[b]);
                if own == other || group_of[a] != group_of[b] {
                    continue;
                }
                let to = |feature: usize, tower: usize| sums[feature * towers + tower];
                let change = to(a, other) + to(b, own) - 2.0 * squared(a, b) - to(a, own) - to(b, other);
                if change < -1e-9 {
                    for i in 0..n {
                        let moved = squared(i, a) - squared(i, b);
                        sums[i * towers + other] += moved;
                        sums[i * towers + own] -= moved;
                    }
                    tower_of.swap(a, b);
                    swapped = true;
                }
            }
        }
        if !swapped {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0, 1 and 2 belong together, and 3, 4 and 5.
    fn distances() -> Matrix {
        let value = |at: usize| match (at / 6, at % 6) {
            (i, j) if i == j => 0.0,
            (i, j) => {
                if i / 3 == j / 3 {
                    0.1
                } else {
                    1.0
                }
            }
        };
        Matrix::new(6, 6, (0..36).map(value).collect())
    }

    #[test]
    fn features_find_their_fellows_within_groups() {
        let mut tower_of = vec![0, 1, 0, 1, 0, 1];
        settle(&mut tower_of, &[0; 6], &distances());
        assert!(tower_of[..3] == [tower_of[0]; 3] && tower_of[3..] == [tower_of[3]; 3], "{tower_of:?}");
        let mut kept = vec![0, 1, 0, 1, 0, 1];
        settle(&mut kept, &[0, 1, 2, 3, 4, 5], &distances());
        assert_eq!(kept, [0, 1, 0, 1, 0, 1]);
    }
}
