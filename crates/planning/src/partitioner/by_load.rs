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
use super::kmeans::{constrained_kmeans, means, squared_distances};
use super::loads::{Loaded, balance, change_of_squares};
use super::matrix::Matrix;

/// Sweeps with one λ, and values of λ.
const SWEEPS: usize = 20;
const WEIGHTS: usize = 40;

/// The cluster of every point; the largest load over the smallest is at most the ratio asked for, or within .4 % of the best that
/// was found without looking at the points, which may itself be .5 % off.
pub(super) fn cluster(points: &Matrix, loads: &[f64], count: usize, request: &Request) -> Vec<usize> {
    let best = balance(loads, count);
    let target = request.ratio.max(best.ratio() * 1.004);
    let any = vec![Sizes { least: 1, most: points.rows() }; count];
    let start = constrained_kmeans(points, &any, request.restarts_for(points.rows()), request.seed);
    let start = start.expect("there are at least as many points as clusters");
    let mut at = Loaded::new(start.cluster_of, loads, count);
    let scale = start.spread.max(1e-12) / loads.iter().map(|l| l * l).sum::<f64>();
    for weight in 0..WEIGHTS {
        if at.ratio() <= target {
            return at.tower_of;
        }
        let lambda = scale * 1e-2 * 2f64.powi(weight as i32);
        at = penalised(at, points, loads, lambda);
    }
    if at.ratio() <= target {
        return at.tower_of;
    }
    // The points would not be balanced: balance first, then swap for distance as far as the target allows.
    let found = tightened(best, points, loads, target);
    found.tower_of
}

/// Moves and swaps while the sum, unequal loads included, shrinks; centres follow after every sweep.
fn penalised(mut at: Loaded, points: &Matrix, loads: &[f64], lambda: f64) -> Loaded {
    let count = at.loads.len();
    for _ in 0..SWEEPS {
        let costs = costs(points, &at.tower_of, count);
        let mut changed = false;
        for a in 0..loads.len() {
            for to in 0..count {
                let from = at.tower_of[a];
                let near = costs[a * count + to] - costs[a * count + from];
                let uneven = change_of_squares(at.loads[from], at.loads[to], loads[a]);
                if to != from && near + lambda * uneven < -1e-12 && members(&at.tower_of, from) > 1 {
                    place(&mut at, loads, a, to);
                    changed = true;
                }
            }
            for b in 0..a {
                let (from, to) = (at.tower_of[a], at.tower_of[b]);
                let near = cost_of_swap(&costs, &at.tower_of, count, a, b);
                let uneven = change_of_squares(at.loads[from], at.loads[to], loads[a] - loads[b]);
                if from != to && near + lambda * uneven < -1e-12 {
                    place(&mut at, loads, a, to);
                    place(&mut at, loads, b, from);
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
                let near = cost_of_swap(&costs, &at.tower_of, count, a, b);
                if from == to || near >= -1e-12 {
                    continue;
                }
                place(&mut at, loads, a, to);
                place(&mut at, loads, b, from);
                if at.ratio() <= target {
                    changed = true;
                } else {
                    place(&mut at, loads, a, from);
                    place(&mut at, loads, b, to);
                }
            }
        }
        if !changed {
            break;
        }
    }
    Loaded::new(at.tower_of, loads, count)
}

fn place(at: &mut Loaded, loads: &[f64], point: usize, to: usize) {
    at.loads[at.tower_of[point]] -= loads[point];
    at.loads[to] += loads[point];
    at.tower_of[point] = to;
}

/// Points of a cluster.
fn members(tower_of: &[usize], cluster: usize) -> usize {
    tower_of.iter().filter(|&&c| c == cluster).count()
}

/// Squared distances of all points to the means of the clusters, none of which is empty.
fn costs(points: &Matrix, tower_of: &[usize], count: usize) -> Vec<f64> {
    let nowhere = Matrix::new(count, points.columns(), vec![0.0; count * points.columns()]);
    squared_distances(points, &means(points, tower_of, &nowhere))
}

/// How much nearer two points of different clusters are to the other's centre than to their own; negative if they are.
fn cost_of_swap(costs: &[f64], tower_of: &[usize], count: usize, a: usize, b: usize) -> f64 {
    let (from, to) = (tower_of[a], tower_of[b]);
    let cost = |point: usize, cluster: usize| costs[point * count + cluster];
    cost(a, to) - cost(a, from) + cost(b, from) - cost(b, to)
}
