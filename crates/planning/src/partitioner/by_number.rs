//! Clusters of bounded size: constrained k-means with sizes that differ by a ratio at most.

use super::Request;
use super::assignment::Sizes;
use super::kmeans::constrained_kmeans;
use super::matrix::Matrix;

/// Pairs of bounds that are tried, and those that are tried from many starts.
const TRIED: usize = 12;
const FINISHED: usize = 2;

/// The cluster of every point.
pub(super) fn cluster(points: &Matrix, count: usize, request: &Request) -> Vec<usize> {
    let clustered = |sizes: Sizes, restarts| {
        let clusters = constrained_kmeans(points, &vec![sizes; count], restarts, request.seed);
        clusters.expect("sizes that were checked to fit")
    };
    let mut tried: Vec<(f64, Sizes)> = thinned(bounds(points.rows(), count, request.ratio))
        .map(|sizes| (clustered(sizes, 1).spread, sizes))
        .collect();
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    let finished = tried
        .into_iter()
        .take(FINISHED)
        .map(|(_, sizes)| clustered(sizes, request.restarts_for(points.rows())));
    let best = finished.min_by(|a, b| a.spread.total_cmp(&b.spread));
    best.expect("sizes of n / T, rounded down and up, always fit").cluster_of
}

/// Least and most of every size that keeps the ratio. Where `count` does not divide `n`, sizes that differ by one are as equal
/// as can be and always allowed.
fn bounds(n: usize, count: usize, ratio: f64) -> Vec<Sizes> {
    let of_least = |least: usize| {
        // A ratio such as 63/45 shall give 63 whatever its rounding.
        let most = ((least as f64 * ratio + 1e-9) as usize).min(n);
        let equal = least == n / count && most < n.div_ceil(count);
        let most = if equal { n.div_ceil(count) } else { most };
        (most * count >= n).then_some(Sizes { least, most })
    };
    (1..=n / count).filter_map(of_least).collect()
}

/// At most [`TRIED`] of them, evenly, with both ends.
fn thinned(bounds: Vec<Sizes>) -> impl Iterator<Item = Sizes> {
    let (all, kept) = (bounds.len(), bounds.len().min(TRIED));
    (0..kept).map(move |at| bounds[if kept < 2 { at } else { at * (all - 1) / (kept - 1) }])
}

#[cfg(test)]
mod tests;
