//! The tower partitioner (DMT §3.3): features that have much to do with each other, or as little as possible, in towers of
//! equal size.
//!
//! ```text
//! affinity → distances (coherent: like is near; diverse: like is far) → points on a plane →
//! constrained k-means → moves and swaps → towers
//! ```
//!
//! The paper has the plane of plain distances, and no moves and swaps: `Distance::Plain` and `settle: false`.
//!
//! ```
//! use planning::partitioner::{Request, Strategy, partition};
//! use spec::affinity::Affinity;
//! // A and C go together, so do B and D.
//! let near = |i: usize, j: usize| if i == j { 1.0 } else if i % 2 == j % 2 { 0.9 } else { 0.1 };
//! let names = ["A", "B", "C", "D"].map(String::from).to_vec();
//! let affinity = Affinity::new(names, (0..4).map(|i| (0..4).map(|j| near(i, j)).collect()).collect()).unwrap();
//! let found = partition(&affinity, &Request::new(2, Strategy::Coherent)).unwrap();
//! assert_eq!(found.towers, [[0, 2], [1, 3]]);
//! assert!(found.within > found.across);
//! ```

mod assignment;
mod by_load;
mod by_number;
mod distances;
mod groups;
mod kmeans;
mod loads;
mod matrix;
mod plane;
mod request;
mod settle;

pub use assignment::{Sizes, assign};
pub use distances::Distance;
pub use loads::{Loaded, balance, ratio};
pub use matrix::Matrix;
pub use plane::Plane;
pub use request::{Balance, PartitionError, Request, Strategy};

use groups::Share;
use loads::greedy;
use matrix::leading_eigenvectors;
use plane::{Descent, embed};
use settle::Settling;
use spec::affinity::Affinity;
use spec::random::RandomSequence;

/// Towers, and what they are worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The features of each tower, ascending; towers by their first feature.
    pub towers: Vec<Vec<usize>>,
    /// The plane on which they were found, for the strategies that have one.
    pub plane: Option<Plane>,
    /// Mean affinity of two features of one tower; nothing where every feature is alone.
    pub within: Option<f64>,
    /// Mean affinity of two features of different towers; nothing where there is one tower.
    pub across: Option<f64>,
    /// The largest tower over the smallest, in what is counted.
    pub max_over_min: f64,
    /// No division has a smaller one than this.
    pub max_over_min_bound: f64,
}

/// Divides the features of `affinity` into towers.
pub fn partition(affinity: &Affinity, request: &Request) -> Result<Partition, PartitionError> {
    let features = affinity.features().len();
    request.check(features)?;
    let loads = request.loads(features);
    let shares = groups::shared_out(&loads, request)?;
    let distances = distances_of(affinity, request);
    let plane = distances.as_ref().map(|distances| plane_of(distances, request));
    let points = match (&plane, request.strategy) {
        (Some(plane), _) => Some(plane.points.clone()),
        (None, Strategy::Spectral) => Some(spectrum(affinity, request.towers)),
        _ => None,
    };
    let mut tower_of = vec![0; features];
    // The group of every tower.
    let mut group_of = Vec::with_capacity(request.towers);
    for (group, Share { members, towers, .. }) in shares.iter().enumerate() {
        let own_loads: Vec<f64> = members.iter().map(|&f| loads[f]).collect();
        let divided = divide(members, &own_loads, points.as_ref(), *towers, request);
        for (&feature, tower) in members.iter().zip(divided) {
            tower_of[feature] = group_of.len() + tower;
        }
        group_of.resize(group_of.len() + towers, group);
    }
    if let (Some(distances), Balance::Features, true) = (&distances, &request.balance, request.settle) {
        let mut settling = Settling::new(tower_of, &group_of, distances, request.ratio);
        settling.settle();
        tower_of = settling.tower_of;
    }
    let mut towers: Vec<Vec<usize>> = vec![Vec::new(); request.towers];
    tower_of.iter().enumerate().for_each(|(feature, &tower)| towers[tower].push(feature));
    towers.sort();
    let sizes: Vec<f64> = towers.iter().map(|tower| tower.iter().map(|&f| loads[f]).sum()).collect();
    let (within, across) = mean_affinities(affinity, &towers);
    Ok(Partition {
        plane,
        within,
        across,
        max_over_min: ratio(&sizes),
        max_over_min_bound: bound(&shares, &loads, request),
        towers,
    })
}

/// No division has a smaller ratio: each group has a tower of at least the most that its largest must have, and one of at most
/// what its smallest can have.
fn bound(shares: &[Share], loads: &[f64], request: &Request) -> f64 {
    let ends = shares.iter().map(|Share { members, towers, .. }| match request.balance {
        Balance::Features => (members.len().div_ceil(*towers) as f64, (members.len() / towers) as f64),
        Balance::Loads(_) => loads::ends(&members.iter().map(|&f| loads[f]).collect::<Vec<_>>(), *towers),
    });
    let (most, least) =
        ends.fold((0.0, f64::INFINITY), |(most, least): (f64, f64), end| (most.max(end.0), least.min(end.1)));
    (most / least).max(1.0)
}

/// From so many features on the work is bounded: it grows with their square.
const MANY: usize = 200;

/// The distances of the two strategies of the paper.
fn distances_of(affinity: &Affinity, request: &Request) -> Option<Matrix> {
    let coherent = match request.strategy {
        Strategy::Coherent => true,
        Strategy::Diverse => false,
        Strategy::Strided | Strategy::Random | Strategy::Greedy | Strategy::Spectral => return None,
    };
    Some(request.distance.between(affinity, request.towers, coherent))
}

fn plane_of(distances: &Matrix, request: &Request) -> Plane {
    // Many points settle each other in fewer steps.
    let steps = if distances.rows() > MANY { 300 } else { 1000 };
    let restarts = request.restarts_for(distances.rows()) / 2;
    embed(distances, &Descent { dims: request.dims, restarts, steps, seed: request.seed })
}

/// Rows of the leading eigenvectors of `S^−½·A·S^−½`, with `S` the sums of the rows of `A`.
fn spectrum(affinity: &Affinity, towers: usize) -> Matrix {
    let n = affinity.features().len();
    let root: Vec<f64> =
        (0..n).map(|i| (0..n).map(|j| affinity.between(i, j)).sum::<f64>().max(1e-12).sqrt()).collect();
    let normalised = |at: usize| affinity.between(at / n, at % n) / (root[at / n] * root[at % n]);
    leading_eigenvectors(&Matrix::new(n, n, (0..n * n).map(normalised).collect()), towers.min(n)).1
}

/// Divides some features into `count` towers.
fn divide(
    members: &[usize],
    loads: &[f64],
    points: Option<&Matrix>,
    count: usize,
    request: &Request,
) -> Vec<usize> {
    match (request.strategy, points) {
        (Strategy::Random, _) => {
            let stream = RandomSequence::new(request.seed, "partitioner.random");
            let mut order: Vec<usize> = (0..members.len()).collect();
            order.sort_by_key(|&i| stream.bits(members[i] as u64));
            let mut tower_of = vec![0; members.len()];
            order.into_iter().enumerate().for_each(|(place, i)| tower_of[i] = place % count);
            tower_of
        }
        (Strategy::Greedy, _) => greedy(loads, count).tower_of,
        (_, Some(points)) => {
            let dims = points.columns();
            let rows = members.iter().flat_map(|&feature| points.row(feature)).copied().collect();
            let points = Matrix::new(members.len(), dims, rows);
            match request.balance {
                Balance::Features => by_number::cluster(&points, count, request),
                Balance::Loads(_) => by_load::cluster(&points, loads, count, request),
            }
        }
        _ => (0..members.len()).map(|i| i % count).collect(),
    }
}

fn mean_affinities(affinity: &Affinity, towers: &[Vec<usize>]) -> (Option<f64>, Option<f64>) {
    let mut tower_of = vec![0; affinity.features().len()];
    for (t, tower) in towers.iter().enumerate() {
        tower.iter().for_each(|&feature| tower_of[feature] = t);
    }
    let mut sums = [(0.0, 0.0f64); 2];
    for i in 0..tower_of.len() {
        for j in 0..i {
            let sum = &mut sums[usize::from(tower_of[i] != tower_of[j])];
            *sum = (sum.0 + affinity.between(i, j), sum.1 + 1.0);
        }
    }
    let [within, across] = sums.map(|(sum, count)| (count > 0.0).then_some(sum / count));
    (within, across)
}
