//! Moves and swaps: out of holders whose memory is overfull, and away from the busiest holder.

use super::state::State;
use super::{Assignment, NoRoom, Problem, differencing, exact, greedy};

/// Part of the bound by which an assignment of many items may miss it before it is searched further.
const CLOSE: f64 = 1e-4;

/// Pairs of an item and a holder that moves and swaps are tried for, at most: a fraction of a second.
const TRIES: usize = 400_000;

/// Product of items and holders from which on only the assignment by differencing is improved.
const LARGE: usize = 1 << 16;

/// Items on either side of the ideal one that a swap considers: memory may stand against the nearest.
const REACH: usize = 16;

/// Assigns items by greedy and by differencing, improves both by moves and swaps, and searches exactly where there are few items.
/// Stops as soon as the busiest holder meets the bound.
pub fn best(problem: &Problem) -> Result<Assignment, NoRoom> {
    let bound = problem.bound();
    let target = bound * (1.0 + CLOSE);
    let mut found: Option<State<'_>> = None;
    let mut refused = None;
    let starts = [differencing::start, greedy::start];
    let large = problem.items.len() * problem.holders.len() > LARGE;
    for start in &starts[..if large { 1 } else { 2 }] {
        match start(problem) {
            Ok(mut state) => {
                descend(&mut state, target);
                if found.as_ref().is_none_or(|found| largest(&state) < largest(found)) {
                    found = Some(state);
                }
            }
            Err(no_room) => refused = Some(no_room),
        }
        if found.as_ref().is_some_and(|found| largest(found) <= target) {
            break;
        }
    }
    if let Some(better) = exact::search(problem, bound, found.as_ref().map_or(f64::INFINITY, largest)) {
        found = Some(State::of(problem, &better));
    }
    match (found, refused) {
        (Some(state), _) => Ok(state.finish()),
        (None, Some(no_room)) => Err(no_room),
        (None, None) => unreachable!("each start gives an assignment or a reason"),
    }
}

fn largest(state: &State<'_>) -> f64 {
    state.costs[state.busiest()]
}

/// An item goes to another holder, perhaps for one of the items there.
#[derive(Clone, Copy)]
struct Step {
    item: usize,
    to: usize,
    back: Option<usize>,
}

fn take(state: &mut State<'_>, step: Step, from: usize) {
    if let Some(back) = step.back {
        state.take(back);
        state.shift(step.item, step.to);
        state.put(back, from);
    } else {
        state.shift(step.item, step.to);
    }
}

/// Moves and swaps items until no holder has more than its memory takes. `false` if that was not achieved.
pub(super) fn repair(state: &mut State<'_>) -> bool {
    for _ in 0..=2 * state.problem.items.len() {
        let holders = 0..state.held.len();
        let Some(full) = holders.max_by_key(|&holder| state.excess(holder)) else { return true };
        if state.excess(full) == 0 {
            return true;
        }
        let Some(step) = moved(state, full).or_else(|| swapped(state, full)) else { return false };
        take(state, step, full);
    }
    false
}

/// The move out of an overfull holder after which the other holder is least busy; moves after which it is overfull no more come
/// first.
fn moved(state: &State<'_>, full: usize) -> Option<Step> {
    let excess = state.excess(full);
    let mut best: Option<(bool, f64, Step)> = None;
    for &item in &state.held[full] {
        let it = state.problem.items[item];
        for to in (0..state.held.len()).filter(|&to| to != full && it.memory <= state.free(to)) {
            let key = (it.memory < excess, state.costs[to] + it.cost);
            if it.memory > 0 && best.is_none_or(|(b, c, _)| key < (b, c)) && state.may(item, to) {
                best = Some((key.0, key.1, Step { item, to, back: None }));
            }
        }
    }
    best.map(|(.., step)| step)
}

/// The swap of an item of an overfull holder for a smaller one after which the busier of the two is least busy; swaps after which
/// the holder is overfull no more come first.
fn swapped(state: &State<'_>, full: usize) -> Option<Step> {
    let excess = state.excess(full);
    let mut best: Option<(bool, f64, Step)> = None;
    for &item in &state.held[full] {
        let it = state.problem.items[item];
        for to in (0..state.held.len()).filter(|&to| to != full && state.excess(to) == 0) {
            for &back in &state.held[to] {
                let other = state.problem.items[back];
                if other.memory >= it.memory || it.memory - other.memory > state.free(to) {
                    continue;
                }
                let busier =
                    (state.costs[to] + it.cost - other.cost).max(state.costs[full] - it.cost + other.cost);
                let key = (it.memory - other.memory < excess, busier);
                if best.is_none_or(|(b, c, _)| key < (b, c)) && exchangeable(state, item, full, back, to) {
                    best = Some((key.0, key.1, Step { item, to, back: Some(back) }));
                }
            }
        }
    }
    best.map(|(.., step)| step)
}

fn exchangeable(state: &State<'_>, item: usize, from: usize, back: usize, to: usize) -> bool {
    state.may_replace(item, back, to) && state.may_replace(back, item, from)
}

/// Moves and swaps items from the busiest holder, always by the step that leaves the busier of the two holders least busy, until
/// none helps or the busiest holder needs no more than `target`.
pub(super) fn descend(state: &mut State<'_>, target: f64) {
    let mut tries = TRIES;
    let mut others: Vec<usize> = Vec::with_capacity(state.held.len());
    loop {
        let from = state.busiest();
        if state.costs[from] <= target {
            return;
        }
        others.clear();
        others.extend((0..state.held.len()).filter(|&holder| holder != from));
        others.sort_by(|&a, &b| state.costs[a].total_cmp(&state.costs[b]));
        // No step is better than one after which another holder is the busiest.
        let second = others.last().map_or(0.0, |&last| state.costs[last]);
        match relief(state, from, &others, second.max(target), &mut tries) {
            Some(step) => take(state, step, from),
            None => return,
        }
    }
}

/// The step out of the busiest holder that helps most; the first that reaches `enough`.
fn relief(state: &State<'_>, from: usize, others: &[usize], enough: f64, tries: &mut usize) -> Option<Step> {
    // What rounding alone may win is not worth a step, and would let steps go round in circles.
    let mut best = state.costs[from] * (1.0 - 1e-12);
    let mut found = None;
    for &to in others {
        if (state.costs[from] + state.costs[to]) / 2.0 >= best {
            break;
        }
        for &item in state.held[from].iter().rev() {
            *tries = tries.checked_sub(1)?;
            let after = |less: f64| (state.costs[from] - less).max(state.costs[to] + less);
            let it = state.problem.items[item];
            if after(it.cost) < best && it.memory <= state.free(to) && state.may(item, to) {
                best = after(it.cost);
                found = Some(Step { item, to, back: None });
            }
            if let Some((after, back)) = swap_for(state, item, from, to, best) {
                best = after;
                found = Some(Step { item, to, back: Some(back) });
            }
            if best <= enough {
                return found;
            }
        }
    }
    found
}

/// The item of `to` that is best swapped for `item` of the busier holder `from`, and what the busier of both then needs, if that is
/// less than `best`. Items are tried from the ideal cost outwards, downwards and upwards.
fn swap_for(state: &State<'_>, item: usize, from: usize, to: usize, best: f64) -> Option<(f64, usize)> {
    let (items, held) = (&state.problem.items, &state.held[to]);
    let it = items[item];
    let gap = state.costs[from] - state.costs[to];
    let ideal = held.partition_point(|&back| items[back].cost < it.cost - gap / 2.0);
    let after = |back: usize| {
        let less = it.cost - items[back].cost;
        (state.costs[from] - less).max(state.costs[to] + less)
    };
    let admissible = |back: usize| {
        let other = items[back];
        it.memory.saturating_sub(other.memory) <= state.free(to)
            && other.memory.saturating_sub(it.memory) <= state.free(from)
            && state.may_replace(item, back, to)
            && state.may_replace(back, item, from)
    };
    let below = held[..ideal].iter().rev().take(REACH).copied();
    let above = held[ideal..].iter().take(REACH).copied();
    let first = |found: Option<usize>| found.map(|back| (after(back), back));
    let below = first(below.take_while(|&back| after(back) < best).find(|&back| admissible(back)));
    let above = first(above.take_while(|&back| after(back) < best).find(|&back| admissible(back)));
    match (below, above) {
        (Some(below), Some(above)) => Some(if above.0 < below.0 { above } else { below }),
        (below, above) => below.or(above),
    }
}
