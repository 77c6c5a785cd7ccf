//! Exact search by branch and bound, for few items.

use super::Problem;
use super::state::State;

/// Most items that are searched exactly: with more, the search would end at its limit without a result.
const ITEMS: usize = 20;

/// Most assignments of a single item that are tried.
const NODES: usize = 50_000;

/// An assignment whose busiest holder needs less than `limit`, the best one if the search was not cut short; `None` if there is none,
/// or if there are too many items. The search stops at the lower bound `bound`.
pub(super) fn search(problem: &Problem, bound: f64, limit: f64) -> Option<Vec<usize>> {
    let enough = bound * (1.0 + 1e-9);
    if problem.items.len() > ITEMS || limit <= enough {
        return None;
    }
    let mut order: Vec<usize> = (0..problem.items.len()).collect();
    let key = |item: usize| (problem.items[item].cost, problem.items[item].memory as f64);
    order.sort_by(|&a, &b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal));
    let mut rest = vec![0.0; order.len() + 1];
    for (i, &item) in order.iter().enumerate().rev() {
        rest[i] = rest[i + 1] + problem.items[item].cost;
    }
    let kinds = kinds(problem);
    let mut search = Search { order, rest, kinds, enough, limit, nodes: NODES, best: None };
    search.from(&mut State::empty(problem), 0, &mut vec![0; problem.items.len()]);
    search.best
}

struct Search {
    /// Items, largest first.
    order: Vec<usize>,
    /// Cost of the items from each place in the order on.
    rest: Vec<f64>,
    /// Kind of each holder: those of the same kind are in the same pools.
    kinds: Vec<usize>,
    enough: f64,
    limit: f64,
    nodes: usize,
    best: Option<Vec<usize>>,
}

impl Search {
    fn from(&mut self, state: &mut State<'_>, place: usize, holders: &mut Vec<usize>) {
        let Some(&item) = self.order.get(place) else {
            self.limit = state.costs[state.busiest()];
            self.best = Some(holders.clone());
            return;
        };
        let room: f64 = state.costs.iter().map(|cost| (self.limit - cost).max(0.0)).sum();
        if room <= self.rest[place] {
            return;
        }
        let it = state.problem.items[item];
        let mut least: Vec<usize> = (0..state.held.len()).filter(|&h| state.may(item, h)).collect();
        least.sort_by(|&a, &b| state.costs[a].total_cmp(&state.costs[b]));
        let mut tried: Vec<usize> = Vec::with_capacity(least.len());
        for holder in least {
            if state.costs[holder] + it.cost >= self.limit * (1.0 - 1e-12) || self.nodes == 0 {
                return;
            }
            if it.memory > state.free(holder) || tried.iter().any(|&other| self.alike(state, holder, other)) {
                continue;
            }
            tried.push(holder);
            self.nodes -= 1;
            holders[item] = holder;
            state.put(item, holder);
            self.from(state, place + 1, holders);
            state.take(item);
            if self.limit <= self.enough {
                return;
            }
        }
    }

    /// Whether two holders have the same future: both are empty and were alike before.
    fn alike(&self, state: &State<'_>, a: usize, b: usize) -> bool {
        let empty = state.held[a].is_empty() && state.held[b].is_empty();
        empty && self.kinds[a] == self.kinds[b] && state.problem.holders[a] == state.problem.holders[b]
    }
}

/// For each holder, the first holder that is in the same pools.
fn kinds(problem: &Problem) -> Vec<usize> {
    let pools = |holder: usize| -> Vec<usize> {
        let has = |pool: &&usize| problem.pools[**pool].contains(&holder);
        let all: Vec<usize> = (0..problem.pools.len()).collect();
        all.iter().filter(has).copied().collect()
    };
    let of: Vec<Vec<usize>> = (0..problem.holders.len()).map(pools).collect();
    of.iter().map(|mine| of.iter().position(|other| other == mine).unwrap_or(0)).collect()
}
