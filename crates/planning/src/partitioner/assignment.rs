//! The cheapest assignment of points to clusters whose sizes are bounded: the assignment step of constrained k-means
//! (Bradley, Bennett and Demiriz), a minimum-cost flow.
//!
//! ```text
//! minimise Σᵢ cost[i, c(i)]   subject to   least[c] ≤ |{i : c(i) = c}| ≤ most[c]
//! ```
//!
//! Points enter one by one, each along a shortest augmenting path: it goes to a cluster, which may pass another of its
//! points on to the next cluster, and so on to one that has room. As long as some cluster is below its least size, paths
//! end in such a one. Between clusters only the cheapest move counts, so a path is found by Dijkstra's algorithm over the
//! clusters, with potentials that keep the moves' reduced costs from being negative.
//!
//! ```
//! use planning::partitioner::{assign, Sizes};
//! // Both points would rather be in cluster 0, which takes one: the one that loses less goes to cluster 1.
//! let sizes = [Sizes { least: 0, most: 1 }, Sizes { least: 0, most: 1 }];
//! assert_eq!(assign(&[0.0, 5.0, 0.0, 3.0], &sizes), Some(vec![0, 1]));
//! ```

/// Bounds of the number of points in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// At least.
    pub least: usize,
    /// At most.
    pub most: usize,
}

/// The cluster of every point, for costs `points × clusters`; `None` where no assignment keeps the sizes.
pub fn assign(costs: &[f64], sizes: &[Sizes]) -> Option<Vec<usize>> {
    let clusters = sizes.len();
    let points = costs.len().checked_div(clusters)?;
    let least: usize = sizes.iter().map(|s| s.least).sum();
    let most: usize = sizes.iter().map(|s| s.most).sum();
    if points < least || points > most || sizes.iter().any(|s| s.least > s.most) {
        return None;
    }
    let mut flow = Flow {
        costs,
        clusters,
        members: vec![Vec::new(); clusters],
        cluster_of: vec![usize::MAX; points],
        moves: vec![Move::NONE; clusters * clusters],
        potentials: vec![0.0; clusters],
    };
    for point in 0..points {
        let below = (0..clusters).any(|c| flow.members[c].len() < sizes[c].least);
        let room = |c: usize, len: usize| len < if below { sizes[c].least } else { sizes[c].most };
        flow.enter(point, room);
    }
    Some(flow.cluster_of)
}

/// The cheapest way to pass a point from one cluster to another.
#[derive(Clone, Copy)]
struct Move {
    cost: f64,
    point: usize,
}

impl Move {
    const NONE: Move = Move { cost: f64::INFINITY, point: usize::MAX };
}

struct Flow<'a> {
    costs: &'a [f64],
    clusters: usize,
    members: Vec<Vec<usize>>,
    cluster_of: Vec<usize>,
    /// By (from, to).
    moves: Vec<Move>,
    potentials: Vec<f64>,
}

impl Flow<'_> {
    fn cost(&self, point: usize, cluster: usize) -> f64 {
        self.costs[point * self.clusters + cluster]
    }

    /// Assigns one more point; some cluster has room.
    fn enter(&mut self, point: usize, room: impl Fn(usize, usize) -> bool) {
        let k = self.clusters;
        let mut distance: Vec<f64> = (0..k).map(|c| self.cost(point, c) - self.potentials[c]).collect();
        let mut before = vec![usize::MAX; k];
        let mut settled = vec![false; k];
        for _ in 0..k {
            let open = (0..k).filter(|&c| !settled[c]);
            let next =
                open.min_by(|&a, &b| distance[a].total_cmp(&distance[b])).expect("one is left each time");
            settled[next] = true;
            for to in (0..k).filter(|&to| to != next) {
                let step = self.moves[next * k + to].cost + self.potentials[next] - self.potentials[to];
                // Rounding may leave a reduced cost a little below zero.
                let through = distance[next] + step.max(0.0);
                if !settled[to] && through < distance[to] {
                    (distance[to], before[to]) = (through, next);
                }
            }
        }
        // With its distance added, a potential is the true cost of the way there.
        self.potentials.iter_mut().zip(&distance).for_each(|(potential, distance)| *potential += distance);
        let open = (0..k).filter(|&c| room(c, self.members[c].len()));
        let end = open.min_by(|&a, &b| self.potentials[a].total_cmp(&self.potentials[b]));
        let end = end.expect("some cluster has room");
        // From the end of the path to its beginning: every cluster on it passes its point on.
        let mut changed = vec![end];
        let mut to = end;
        while before[to] != usize::MAX {
            let from = before[to];
            let moved = self.moves[from * k + to].point;
            self.members[from].retain(|&p| p != moved);
            self.place(moved, to);
            changed.push(from);
            to = from;
        }
        self.place(point, to);
        for cluster in changed {
            self.find_moves(cluster);
        }
    }

    fn place(&mut self, point: usize, cluster: usize) {
        self.members[cluster].push(point);
        self.cluster_of[point] = cluster;
    }

    /// The cheapest moves out of a cluster.
    fn find_moves(&mut self, from: usize) {
        let k = self.clusters;
        self.moves[from * k..(from + 1) * k].fill(Move::NONE);
        for i in 0..self.members[from].len() {
            let point = self.members[from][i];
            let here = self.cost(point, from);
            for to in (0..k).filter(|&to| to != from) {
                let cost = self.cost(point, to) - here;
                if cost < self.moves[from * k + to].cost {
                    self.moves[from * k + to] = Move { cost, point };
                }
            }
        }
    }
}
