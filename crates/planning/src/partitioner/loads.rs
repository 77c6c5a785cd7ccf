//! Towers of equal load: largest over smallest, as near to 1 as the loads allow.
//!
//! Dividing numbers into parts of equal sum is hard in general. Few of them are divided exactly, by trying everything that
//! can still be better; many by giving the largest first to the least loaded tower and then moving and swapping as long as it
//! helps.

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

/// No division does better than this: the largest tower has at least the mean and at least the largest feature, the
/// smallest at most the mean of what the largest leaves.
pub fn ratio_bound(loads: &[f64], towers: usize) -> f64 {
    let total: f64 = loads.iter().sum();
    let largest = loads.iter().copied().fold(0.0, f64::max);
    let most = (total / towers as f64).max(largest);
    if towers < 2 || total <= most { 1.0 } else { (most / ((total - most) / (towers - 1) as f64)).max(1.0) }
}

/// The most assignments that are tried one by one.
const EXACT: f64 = 3e6;

/// A division into towers of loads as equal as it can find.
pub fn balance(loads: &[f64], towers: usize) -> Loaded {
    let greedy = greedy(loads, towers);
    let found = improved(greedy, loads);
    match (towers as f64).powi(loads.len() as i32) <= EXACT {
        true => exact(loads, towers, found),
        false => found,
    }
}

/// Largest first, each to the least loaded tower.
pub fn greedy(loads: &[f64], towers: usize) -> Loaded {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by(|&a, &b| loads[b].total_cmp(&loads[a]).then(a.cmp(&b)));
    let mut sums = vec![0.0f64; towers];
    let mut tower_of = vec![0; loads.len()];
    for feature in order {
        let tower = (0..towers).min_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0);
        sums[tower] += loads[feature];
        tower_of[feature] = tower;
    }
    Loaded { tower_of, loads: sums }
}

/// Moves and swaps between the largest or the smallest tower and the others, as long as the squares of the loads shrink.
fn improved(mut at: Loaded, loads: &[f64]) -> Loaded {
    let features = loads.len();
    for _ in 0..64 * features {
        let mut best: (f64, Option<(usize, usize, Option<usize>)>) = (-1e-12 * square(&at.loads), None);
        for a in 0..features {
            let from = at.tower_of[a];
            for to in (0..at.loads.len()).filter(|&to| to != from) {
                let change = shift(at.loads[from], at.loads[to], loads[a]);
                if change < best.0 {
                    best = (change, Some((a, to, None)));
                }
            }
            for b in (a + 1..features).filter(|&b| at.tower_of[b] != from) {
                let to = at.tower_of[b];
                let change = shift(at.loads[from], at.loads[to], loads[a] - loads[b]);
                if change < best.0 {
                    best = (change, Some((a, to, Some(b))));
                }
            }
        }
        let Some((a, to, swapped)) = best.1 else { break };
        let from = at.tower_of[a];
        let moved = loads[a] - swapped.map_or(0.0, |b| loads[b]);
        at.loads[from] -= moved;
        at.loads[to] += moved;
        at.tower_of[a] = to;
        if let Some(b) = swapped {
            at.tower_of[b] = from;
        }
    }
    let towers = at.loads.len();
    Loaded::new(at.tower_of, loads, towers)
}

/// How the sum of squares changes when `moved` goes from a tower of load `from` to one of load `to`.
fn shift(from: f64, to: f64, moved: f64) -> f64 {
    2.0 * moved * (to - from + moved)
}

fn square(loads: &[f64]) -> f64 {
    loads.iter().map(|load| load * load).sum()
}

/// The best of all divisions; those whose largest tower is already too large for what is known are left out.
fn exact(loads: &[f64], towers: usize, known: Loaded) -> Loaded {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by(|&a, &b| loads[b].total_cmp(&loads[a]).then(a.cmp(&b)));
    let mut search = Search {
        loads,
        order,
        mean: loads.iter().sum::<f64>() / towers as f64,
        sums: vec![0.0; towers],
        tower_of: vec![0; loads.len()],
        best_ratio: known.ratio(),
        best: known.tower_of,
    };
    search.place(0);
    Loaded::new(search.best, loads, towers)
}

struct Search<'a> {
    loads: &'a [f64],
    order: Vec<usize>,
    mean: f64,
    sums: Vec<f64>,
    tower_of: Vec<usize>,
    best_ratio: f64,
    best: Vec<usize>,
}

impl Search<'_> {
    fn place(&mut self, next: usize) {
        if next == self.order.len() {
            let ratio = ratio(&self.sums);
            if ratio < self.best_ratio {
                (self.best_ratio, self.best) = (ratio, self.tower_of.clone());
            }
            return;
        }
        let feature = self.order[next];
        for tower in 0..self.sums.len() {
            // Towers that are still empty are all alike.
            if tower > 0 && self.sums[tower] == 0.0 && self.sums[tower - 1] == 0.0 {
                break;
            }
            // The smallest tower has at most the mean.
            let before = self.sums[tower];
            if (before + self.loads[feature]) / self.mean < self.best_ratio {
                self.sums[tower] += self.loads[feature];
                self.tower_of[feature] = tower;
                self.place(next + 1);
                self.sums[tower] = before;
            }
        }
    }
}
