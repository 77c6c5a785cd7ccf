//! Largest first, each item to the holder with the least to do.

use super::state::State;
use super::{Assignment, Loads, NoRoom, Problem, give_largest_first};
use std::cmp::Ordering;
use std::ops::Add;

/// Seconds, compared as total order, then memory.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    cost: f64,
    memory: u64,
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cost: self.cost + other.cost, memory: self.memory.saturating_add(other.memory) }
    }
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cost.total_cmp(&other.cost).then(self.memory.cmp(&other.memory))
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Load {}

/// Assigns items largest first, each to the least busy holder that may take it and has room for it. If some item finds no room
/// this way, items that take much memory come first.
pub fn greedy(problem: &Problem) -> Result<Assignment, NoRoom> {
    start(problem).map(State::finish)
}

/// The greedy assignment, to be changed.
pub(super) fn start(problem: &Problem) -> Result<State<'_>, NoRoom> {
    largest_first(problem)
        .or_else(|refused| by_need(problem).or_else(|_| by_memory(problem)).map_err(|_| refused))
}

fn largest_first(problem: &Problem) -> Result<State<'_>, NoRoom> {
    let items: Vec<Load> = problem.items.iter().map(|i| Load { cost: i.cost, memory: i.memory }).collect();
    let mut loads = Loads::none(problem.holders.len());
    for (holder, had) in problem.holders.iter().enumerate() {
        loads.add(holder, Load { cost: had.cost, memory: 0 });
    }
    let mut state = State::empty(problem);
    let given = give_largest_first(&items, &mut loads, |item, loads| {
        let holder = loads.least(candidates(&state, item))?;
        state.put(item, holder);
        Some(holder)
    });
    match given {
        Ok(_) => Ok(state),
        Err(item) => Err(state.no_room(item)),
    }
}

/// Holders that may take an item and have room for it.
fn candidates(state: &State<'_>, item: usize) -> impl Iterator<Item = usize> {
    let memory = state.problem.items[item].memory;
    (0..state.held.len()).filter(move |&holder| memory <= state.free(holder) && state.may(item, holder))
}

/// Items in the order of the larger of their shares of all cost and of all memory; each to the holder whose larger share is least.
fn by_need(problem: &Problem) -> Result<State<'_>, NoRoom> {
    let memory = problem.holders.iter().map(|h| h.memory as f64).sum::<f64>().max(1.0);
    let cost = problem.items.iter().map(|i| i.cost).sum::<f64>().max(f64::MIN_POSITIVE);
    let holders = problem.holders.len() as f64;
    let order =
        |item: usize| (problem.items[item].cost / cost).max(problem.items[item].memory as f64 / memory);
    in_order(problem, order, |state, holder| {
        let full = state.memory[holder] as f64 / (problem.holders[holder].memory as f64).max(1.0);
        (state.costs[holder] / cost * holders).max(full)
    })
}

/// Items in the order of their memory; each to the holder that has the most left.
fn by_memory(problem: &Problem) -> Result<State<'_>, NoRoom> {
    in_order(problem, |item| problem.items[item].memory as f64, |state, holder| -(state.free(holder) as f64))
}

fn in_order(
    problem: &Problem,
    order: impl Fn(usize) -> f64,
    busy: impl Fn(&State<'_>, usize) -> f64,
) -> Result<State<'_>, NoRoom> {
    let mut items: Vec<usize> = (0..problem.items.len()).collect();
    items.sort_by(|&a, &b| order(b).total_cmp(&order(a)));
    let mut state = State::empty(problem);
    for item in items {
        let least = candidates(&state, item).min_by(|&a, &b| busy(&state, a).total_cmp(&busy(&state, b)));
        let Some(holder) = least else { return Err(state.no_room(item)) };
        state.put(item, holder);
    }
    Ok(state)
}
