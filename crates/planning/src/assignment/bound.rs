//! Lower bounds of the busiest holder.

use super::Problem;

/// The largest of: what holders have already, the mean of all holders and of each pool, each item on the least busy holder that may
/// take it, and what must meet on one holder because there are more items than holders.
pub(super) fn bound(problem: &Problem) -> f64 {
    let Problem { items, holders, pools } = problem;
    let had = holders.iter().map(|holder| holder.cost);
    let already = had.clone().fold(0.0, f64::max);
    let mean = (had.clone().sum::<f64>() + items.iter().map(|item| item.cost).sum::<f64>())
        / holders.len().max(1) as f64;

    let mut confined = vec![(0.0, 0.0f64); pools.len()];
    let mut free = 0.0f64;
    for item in items {
        match item.pool {
            Some(pool) => {
                confined[pool].0 += item.cost;
                confined[pool].1 = confined[pool].1.max(item.cost);
            }
            None => free = free.max(item.cost),
        }
    }
    let least = |among: &mut dyn Iterator<Item = f64>| among.fold(f64::INFINITY, f64::min);
    let mut largest = already.max(mean).max(free + least(&mut had.clone()));
    for (pool, (sum, most)) in pools.iter().zip(confined) {
        let had = pool.iter().map(|&holder| holders[holder].cost);
        if most > 0.0 {
            let mean = (sum + had.clone().sum::<f64>()) / pool.len() as f64;
            largest = largest.max(mean).max(most + least(&mut had.clone()));
        }
    }
    largest.max(crowded(problem))
}

/// Lower bound by pigeonholes: of the j·k + 1 largest items, j + 1 are on one of the k holders.
fn crowded(problem: &Problem) -> f64 {
    let holders = problem.holders.len();
    let mut costs: Vec<f64> = problem.items.iter().map(|item| item.cost).collect();
    costs.sort_by(|a, b| b.total_cmp(a));
    let meet = (1..).take_while(|j| j * holders < costs.len());
    meet.map(|j| costs[j * holders - j..=j * holders].iter().sum()).fold(0.0, f64::max)
}
