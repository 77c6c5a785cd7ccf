//! Towers of equal load: largest over smallest, as near to 1 as the loads allow.
//!
//! Dividing numbers into parts of equal sum is hard in general. The largest are given first to the least loaded tower, then
//! features move and swap as long as it helps; at last all divisions that could still be better are tried, as far as time allows.

/// Features of each tower, and their loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The tower of every feature.
    pub tower_of: Vec<usize>,
    /// The load of every tower.
    pub loads: Vec<f64>,
}

impl Loaded {
    /// The loads of an assignment.
    pub fn new(tower_of: Vec<usize>, loads: &[f64], towers: usize) -> Self {
        let mut sums = vec![0.0; towers];
        tower_of.iter().zip(loads).for_each(|(&tower, load)| sums[tower] += load);
        Self { tower_of, loads: sums }
    }

    /// Largest over smallest.
    pub fn ratio(&self) -> f64 {
        ratio(&self.loads)
    }
}

/// Largest over smallest; infinite where a tower has nothing.
pub fn ratio(loads: &[f64]) -> f64 {
    let most = loads.iter().copied().fold(0.0, f64::max);
    let least = loads.iter().copied().fold(f64::INFINITY, f64::min);
    if least > 0.0 { most / least } else { f64::INFINITY }
}

/// What the largest tower has at least, and the smallest at most, in any division: the mean or the largest feature, and the mean
/// of what that leaves.
pub(super) fn ends(loads: &[f64], towers: usize) -> (f64, f64) {
    let total: f64 = loads.iter().sum();
    let largest = loads.iter().copied().fold(0.0, f64::max);
    let most = (total / towers as f64).max(largest);
    (most, if towers < 2 { total } else { (total - most) / (towers - 1) as f64 })
}

/// A division into towers of loads as equal as it can find: within half a percent of the best where the search came to its end.
pub fn balance(loads: &[f64], towers: usize) -> Loaded {
    let found = improved(greedy(loads, towers), loads);
    searched(loads, towers, found)
}

/// Features, those of the largest load first.
fn largest_first(loads: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by(|&a, &b| loads[b].total_cmp(&loads[a]).then(a.cmp(&b)));
    order
}

/// Largest first, each to the least loaded tower.
pub(super) fn greedy(loads: &[f64], towers: usize) -> Loaded {
    let mut sums = vec![0.0f64; towers];
    let mut tower_of = vec![0; loads.len()];
    for feature in largest_first(loads) {
        let tower = (0..towers).min_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0);
        sums[tower] += loads[feature];
        tower_of[feature] = tower;
    }
    Loaded { tower_of, loads: sums }
}

/// Moves and swaps between the largest or the smallest tower and the others, as long as the squares of the loads shrink.
fn improved(mut at: Loaded, loads: &[f64]) -> Loaded {
    let towers = at.loads.len();
    for _ in 0..4 * loads.len() {
        let by_load = |&a: &usize, &b: &usize| at.loads[a].total_cmp(&at.loads[b]);
        let Some(ends) = (0..towers).max_by(by_load).zip((0..towers).min_by(by_load)) else { break };
        let Some((a, to, back)) = best_exchange(&at, loads, ends) else { break };
        let (from, exchanged) = (at.tower_of[a], loads[a] - back.map_or(0.0, |b| loads[b]));
        at.loads[from] -= exchanged;
        at.loads[to] += exchanged;
        at.tower_of[a] = to;
        if let Some(b) = back {
            at.tower_of[b] = from;
        }
    }
    Loaded::new(at.tower_of, loads, towers)
}

/// A feature that leaves the largest tower, or enters the smallest, where it goes, and what comes back for it.
fn best_exchange(
    at: &Loaded,
    loads: &[f64],
    (largest, smallest): (usize, usize),
) -> Option<(usize, usize, Option<usize>)> {
    let squares: f64 = at.loads.iter().map(|load| load * load).sum();
    let mut best = (-1e-12 * squares, None);
    let mut consider = |a: usize, to: usize, back: Option<usize>| {
        let exchanged = loads[a] - back.map_or(0.0, |b| loads[b]);
        let change = change_of_squares(at.loads[at.tower_of[a]], at.loads[to], exchanged);
        if change < best.0 {
            best = (change, Some((a, to, back)));
        }
    };
    for a in 0..loads.len() {
        if at.tower_of[a] == largest {
            (0..at.loads.len()).filter(|&to| to != largest).for_each(|to| consider(a, to, None));
        } else if at.tower_of[a] != smallest {
            consider(a, smallest, None);
        }
    }
    for end in [largest, smallest] {
        let inside = (0..loads.len()).filter(|&a| at.tower_of[a] == end);
        for a in inside {
            let outside = (0..loads.len()).filter(|&b| at.tower_of[b] != end);
            outside.for_each(|b| consider(a, at.tower_of[b], Some(b)));
        }
    }
    best.1
}

/// How the sum of squares changes when `load` goes from a tower of load `from` to one of load `to`.
pub(super) fn change_of_squares(from: f64, to: f64, load: f64) -> f64 {
    2.0 * load * (to - from + load)
}

/// Divisions that are looked at, whole or in part.
const LOOKED_AT: usize = 2_000_000;

/// What is worth looking for: a ratio better by this factor.
const WORTH: f64 = 1.005;

/// The best of the divisions that can be better than what is known, by branch and bound.
fn searched(loads: &[f64], towers: usize, known: Loaded) -> Loaded {
    let order = largest_first(loads);
    let (most, least) = ends(loads, towers);
    // What is left to place after each feature.
    let mut left: Vec<f64> =
        order.iter().rev().scan(0.0, |sum, &f| Some(std::mem::replace(sum, *sum + loads[f]))).collect();
    left.reverse();
    let mut search = Search {
        loads,
        order,
        left,
        mean: loads.iter().sum::<f64>() / towers as f64,
        bound: most / least,
        sums: vec![0.0; towers],
        tower_of: vec![0; loads.len()],
        best_ratio: known.ratio(),
        best: known.tower_of,
        budget: LOOKED_AT,
    };
    search.place(0);
    Loaded::new(search.best, loads, towers)
}

struct Search<'a> {
    loads: &'a [f64],
    order: Vec<usize>,
    left: Vec<f64>,
    mean: f64,
    bound: f64,
    sums: Vec<f64>,
    tower_of: Vec<usize>,
    best_ratio: f64,
    best: Vec<usize>,
    budget: usize,
}

impl Search<'_> {
    fn place(&mut self, next: usize) {
        let Some(&feature) = self.order.get(next) else {
            let ratio = ratio(&self.sums);
            if ratio < self.best_ratio {
                (self.best_ratio, self.best) = (ratio, self.tower_of.clone());
            }
            return;
        };
        // The least loaded first; of towers that are loaded alike, one.
        let mut towers: Vec<usize> = (0..self.sums.len()).collect();
        towers.sort_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]));
        towers.dedup_by(|a, b| self.sums[*a] == self.sums[*b]);
        for tower in towers {
            if self.budget == 0 || self.best_ratio <= self.bound * WORTH {
                return;
            }
            self.budget -= 1;
            let before = self.sums[tower];
            self.sums[tower] += self.loads[feature];
            self.tower_of[feature] = tower;
            if self.may_be_better(self.left[next]) {
                self.place(next + 1);
            }
            self.sums[tower] = before;
        }
    }

    /// Whether what is left can fill all towers so far that the ratio is worth it.
    fn may_be_better(&self, left: f64) -> bool {
        let most = self.sums.iter().copied().fold(self.mean, f64::max);
        let needed = most * WORTH / self.best_ratio;
        let missing: f64 = self.sums.iter().map(|sum| (needed - sum).max(0.0)).sum();
        missing <= left * (1.0 + 1e-12) + 1e-12 * self.mean
    }
}
