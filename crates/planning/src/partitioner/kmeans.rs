//! Constrained k-means: clusters of bounded sizes, each point's cluster chosen exactly (see [`super::assign`]).

use super::assignment::{Sizes, assign};
use super::matrix::Matrix;
use spec::random::RandomSequence;

/// Clusters of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The cluster of every point.
    pub cluster_of: Vec<usize>,
    /// Squared distances to the centres, summed.
    pub spread: f64,
}

/// The best of `restarts` runs, each until no point changes its cluster, or for [`ROUNDS`]. `None` where the sizes cannot be kept.
pub fn constrained_kmeans(points: &Matrix, sizes: &[Sizes], restarts: usize, seed: u64) -> Option<Clusters> {
    let runs = (0..restarts.max(1)).map(|restart| {
        let stream = RandomSequence::new(seed, &format!("partitioner.kmeans.{restart}"));
        run(points, sizes, &stream)
    });
    runs.collect::<Option<Vec<_>>>()?.into_iter().min_by(|a, b| a.spread.total_cmp(&b.spread))
}

/// Every round lowers the sum or ends, most often within a dozen; this bounds the work.
const ROUNDS: usize = 100;

fn run(points: &Matrix, sizes: &[Sizes], stream: &RandomSequence) -> Option<Clusters> {
    let mut centres = spread_out(points, sizes.len(), stream);
    let mut cluster_of = Vec::new();
    for _ in 0..ROUNDS {
        let next = assign(&squared_distances(points, &centres), sizes)?;
        if next == cluster_of {
            break;
        }
        cluster_of = next;
        centres = means(points, &cluster_of, &centres);
    }
    let spread = cluster_of.iter().enumerate().map(|(p, &c)| squared(points.row(p), centres.row(c))).sum();
    Some(Clusters { cluster_of, spread })
}

/// First centres: points, each drawn with a probability that grows with its squared distance to those drawn before.
fn spread_out(points: &Matrix, count: usize, stream: &RandomSequence) -> Matrix {
    let (n, dims) = (points.rows(), points.columns());
    let mut centres = Vec::with_capacity(count * dims);
    let mut nearest = vec![1.0; n];
    for draw in 0..count {
        let total: f64 = nearest.iter().sum();
        let mut left = stream.unit_f64(draw as u64) * total;
        let chosen = nearest.iter().position(|&weight| {
            left -= weight;
            left < 0.0
        });
        // All points already drawn: any will do.
        let centre = points.row(chosen.unwrap_or(draw % n)).to_vec();
        for (p, nearest) in nearest.iter_mut().enumerate() {
            let distance = squared(points.row(p), &centre);
            *nearest = if draw == 0 { distance } else { nearest.min(distance) };
        }
        centres.extend(centre);
    }
    Matrix::new(count, dims, centres)
}

pub(super) fn squared_distances(points: &Matrix, centres: &Matrix) -> Vec<f64> {
    let of_point = |p| (0..centres.rows()).map(move |c| squared(points.row(p), centres.row(c)));
    (0..points.rows()).flat_map(of_point).collect()
}

/// The mean of each cluster; an empty one keeps its centre.
pub(super) fn means(points: &Matrix, cluster_of: &[usize], before: &Matrix) -> Matrix {
    let (clusters, dims) = (before.rows(), before.columns());
    let mut sums = vec![0.0; clusters * dims];
    let mut counts = vec![0.0; clusters];
    for (p, &c) in cluster_of.iter().enumerate() {
        counts[c] += 1.0;
        sums[c * dims..(c + 1) * dims].iter_mut().zip(points.row(p)).for_each(|(sum, x)| *sum += x);
    }
    let mean =
        |at: usize| if counts[at / dims] > 0.0 { sums[at] / counts[at / dims] } else { before.values()[at] };
    Matrix::new(clusters, dims, (0..clusters * dims).map(mean).collect())
}

fn squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}
