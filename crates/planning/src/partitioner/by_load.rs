//! Clusters of bounded load. With loads the assignment step is hard in general, so points move and swap between clusters as
//! long as that lowers
//!
//! ```text
//! Σ squared distances to centres + λ·Σ (load of a cluster − mean)²
//! ```
//!
//! with λ growing until the loads are balanced as asked for, or as well as they can be.

use super::Request;
use super::assignment::Sizes;
use super::kmeans::constrained_kmeans;
use super::loads::{Loaded, balance};
use super::matrix::Matrix;

/// Sweeps with one λ, and values of λ.
const SWEEPS: usize = 20;
const WEIGHTS: usize = 40;

/// The cluster of every point; the largest load over the smallest is at most the ratio asked for, or within one percent of the
/// best that was found without looking at the points.
pub(super) fn cluster(points: &Matrix, loads: &[f64], count: usize, request: &Request) -> Vec<usize> {
    let best = balance(loads, count);
    let target = request.ratio.max(best.ratio() * 1.01);
    let any = vec![Sizes { least: 1, most: points.rows() }; count];
    let Some(start) = constrained_kmeans(points, &any, request.restarts.max(1), request.seed) else {
        return best.tower_of;
    };
    let mut at = Loaded::new(start.cluster_of, loads, count);
    let scale = start.spread.max(1e-12) / loads.iter().map(|l| l * l).sum::<f64>();
    for weight in 0..WEIGHTS {
        if at.ratio() <= target {
            return at.tower_of;
        }
        let lambda = scale * 1e-2 * 2f64.powi(weight as i32);
        at = settle(at, points, loads, lambda);
    }
    if at.ratio() <= target {
        return at.tower_of;
    }
    // The points would not be balanced: balance first, then swap for distance as far as the target allows.
    let found = tightened(best, points, loads, target);
    found.tower_of
}

/// Moves and swaps while the sum shrinks; centres follow after every sweep.
fn settle(mut at: Loaded, points: &Matrix, loads: &[f64], lambda: f64) -> Loaded {
    let count = at.loads.len();
    for _ in 0..SWEEPS {
        let costs = costs(points, &at.tower_of, count);
        let mut changed = false;
        for a in 0..loads.len() {
            for to in 0..count {
                let from = at.tower_of[a];
                let near = costs[a * count + to] - costs[a * count + from];
                let far = 2.0 * loads[a] * (at.loads[to] - at.loads[from] + loads[a]);
                if to != from && near + lambda * far < -1e-12 && lonely(&at.tower_of, from) > 1 {
                    shift(&mut at, loads, a, to);
                    changed = true;
                }
            }
            for b in 0..a {
                let (from, to) = (at.tower_of[a], at.tower_of[b]);
                let moved = loads[a] - loads[b];
                let near = costs[a * count + to] - costs[a * count + from] + costs[b * count + from]
                    - costs[b * count + to];
                let far = 2.0 * moved * (at.loads[to] - at.loads[from] + moved);
                if from != to && near + lambda * far < -1e-12 {
                    shift(&mut at, loads, a, to);
                    shift(&mut at, loads, b, from);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    Loaded::new(at.tower_of, loads, count)
}

/// Swaps that lower the distances and keep the ratio.
fn tightened(mut at: Loaded, points: &Matrix, loads: &[f64], target: f64) -> Loaded {
    let count = at.loads.len();
    for _ in 0..SWEEPS {
        let costs = costs(points, &at.tower_of, count);
        let mut changed = false;
        for a in 0..loads.len() {
            for b in 0..a {
                let (from, to) = (at.tower_of[a], at.tower_of[b]);
                let near = costs[a * count + to] - costs[a * count + from] + costs[b * count + from]
                    - costs[b * count + to];
                if from == to || near >= -1e-12 {
                    continue;
                }
                shift(&mut at, loads, a, to);
                shift(&mut at, loads, b, from);
                if at.ratio() <= target {
                    changed = true;
                } else {
                    shift(&mut at, loads, a, from);
                    shift(&mut at, loads, b, to);
                }
            }
        }
        if !changed {
            break;
        }
    }
    Loaded::new(at.tower_of, loads, count)
}

fn shift(at: &mut Loaded, loads: &[f64], point: usize, to: usize) {
    at.loads[at.tower_of[point]] -= loads[point];
    at.loads[to] += loads[point];
    at.tower_of[point] = to;
}

/// Points of a cluster.
fn lonely(tower_of: &[usize], cluster: usize) -> usize {
    tower_of.iter().filter(|&&c| c == cluster).count()
}

/// Squared distances of all points to the means of the clusters.
fn costs(points: &Matrix, tower_of: &[usize], count: usize) -> Vec<f64> {
    let dims = points.columns();
    let mut sums = vec![0.0; count * dims];
    let mut sizes = vec![0.0f64; count];
    for (point, &cluster) in tower_of.iter().enumerate() {
        sizes[cluster] += 1.0;
        sums[cluster * dims..][..dims].iter_mut().zip(points.row(point)).for_each(|(sum, x)| *sum += x);
    }
    let squared = |at: usize| {
        let (point, cluster) = (at / count, at % count);
        let mean = sums[cluster * dims..][..dims].iter().map(|sum| sum / sizes[cluster].max(1.0));
        points.row(point).iter().zip(mean).map(|(x, m)| (x - m) * (x - m)).sum()
    };
    (0..points.rows() * count).map(squared).collect()
}
