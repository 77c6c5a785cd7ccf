//! The largest differencing method (Karmarkar and Karp), for any number of holders.

use super::state::State;
use super::{Assignment, NoRoom, Problem, descent, greedy};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Assigns items by the largest differencing method. Where memory does not take the result, overfull holders pass items on; where
/// that fails, the assignment is the greedy one.
pub fn differencing(problem: &Problem) -> Result<Assignment, NoRoom> {
    start(problem).map(State::finish)
}

/// The assignment by differencing, to be changed.
pub(super) fn start(problem: &Problem) -> Result<State<'_>, NoRoom> {
    let mut found = by_differences(problem);
    let fits = found.as_mut().is_some_and(descent::repair);
    found.filter(|_| fits).map_or_else(|| greedy::start(problem), Ok)
}

/// One sum of a tuple: the items that some holder takes together.
#[derive(Clone, Debug)]
struct Sum {
    cost: f64,
    /// Items of the sum.
    items: Vec<usize>,
    /// Holder that has this sum, once it is known.
    holder: Option<usize>,
}

/// A partial solution: sums of different holders, largest first. Holders that have no sum have nothing.
#[derive(Clone, Debug)]
struct Tuple {
    difference: f64,
    /// Order of arrival, which decides between equal differences.
    number: usize,
    sums: Vec<Sum>,
}

impl Tuple {
    fn new(number: usize, holders: usize, mut sums: Vec<Sum>) -> Self {
        sums.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        let largest = sums.first().map_or(0.0, |sum| sum.cost);
        let smallest = if sums.len() < holders { 0.0 } else { sums.last().map_or(0.0, |sum| sum.cost) };
        Self { difference: largest - smallest, number, sums }
    }

    /// Joins two tuples: the largest sum of one with the smallest of the other, and so on.
    fn join(self, mut other: Self, number: usize, holders: usize) -> Self {
        let mut sums = self.sums;
        // Sum i meets sum holders − 1 − i; those of `other` that meet nothing stay as they are.
        let meeting = (sums.len() + other.sums.len()).saturating_sub(holders);
        let first = sums.len() - meeting;
        for sum in sums[first..].iter_mut() {
            let smallest = other.sums.pop().expect("as many meet as there are too many");
            sum.cost += smallest.cost;
            sum.holder = sum.holder.or(smallest.holder);
            let (mut long, short) = if sum.items.len() < smallest.items.len() {
                (smallest.items, std::mem::take(&mut sum.items))
            } else {
                (std::mem::take(&mut sum.items), smallest.items)
            };
            long.extend(short);
            sum.items = long;
        }
        sums.append(&mut other.sums);
        Self::new(number, holders, sums)
    }
}

impl Ord for Tuple {
    fn cmp(&self, other: &Self) -> Ordering {
        self.difference.total_cmp(&other.difference).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Tuple {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Tuple {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Tuple {}

/// Items of each pool on its holders, pool by pool, then the others on all holders. `None` if a set that must be apart has more
/// items than there are holders for them.
fn by_differences(problem: &Problem) -> Option<State<'_>> {
    let mut confined = vec![Vec::new(); problem.pools.len()];
    let mut others = Vec::new();
    for (item, it) in problem.items.iter().enumerate() {
        it.pool.map_or(&mut others, |pool| &mut confined[pool]).push(item);
    }
    let all: Vec<usize> = (0..problem.holders.len()).collect();
    let mut state = State::empty(problem);
    let pools = confined.iter().zip(&problem.pools).chain([(&others, &all)]);
    for (items, holders) in pools.filter(|(items, _)| !items.is_empty()) {
        for (item, holder) in spread(&state, items, holders)? {
            state.put(item, holder);
        }
    }
    Some(state)
}

/// Items on holders that may have something already.
fn spread(state: &State<'_>, items: &[usize], holders: &[usize]) -> Option<Vec<(usize, usize)>> {
    let sum = |&item: &usize| Sum { cost: state.problem.items[item].cost, items: vec![item], holder: None };
    let mut sets: Vec<Vec<Sum>> = vec![Vec::new(); state.problem.sets()];
    let already =
        |&holder: &usize| Sum { cost: state.costs[holder], items: Vec::new(), holder: Some(holder) };
    let mut tuples = vec![holders.iter().map(already).collect::<Vec<Sum>>()];
    for item in items {
        match state.problem.items[*item].apart {
            Some(set) => sets[set].push(sum(item)),
            None => tuples.push(vec![sum(item)]),
        }
    }
    tuples.extend(sets.into_iter().filter(|set| !set.is_empty()));
    if tuples.iter().any(|tuple| tuple.len() > holders.len()) {
        return None;
    }
    let mut next = tuples.len();
    let tuple = |(number, sums)| Tuple::new(number, holders.len(), sums);
    let mut heap: BinaryHeap<Tuple> = tuples.into_iter().enumerate().map(tuple).collect();
    while heap.len() > 1 {
        let (first, second) = (heap.pop()?, heap.pop()?);
        heap.push(first.join(second, next, holders.len()));
        next += 1;
    }
    let sums = heap.pop()?.sums.into_iter();
    let of_sum = |sum: Sum| {
        let holder = sum.holder.expect("the first tuple has a sum for every holder");
        sum.items.into_iter().map(move |item| (item, holder))
    };
    Some(sums.flat_map(of_sum).collect())
}
