//! The search: what each table is, and where its pieces are.

use super::candidates::Candidate;
use super::prices::Prices;
use super::solution::Solution;
use super::units::Tables;
use super::{Search, small};
use crate::assignment::{self, NoRoom};

/// Part of the bound by which a plan may miss it before it is searched further.
const CLOSE: f64 = 5e-4;

/// Caps on the price of a piece, in parts of the lower bound. Half of each is the cap on memory, in parts of what a rank has room for.
const CAPS: [f64; 17] =
    [f64::INFINITY, 64.0, 32.0, 16.0, 8.0, 5.6, 4.0, 2.8, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.125, 0.0625];

/// Product of units and ranks from which on only the most promising choices are searched well.
const LARGE: usize = 1 << 16;

/// Caps on the memory of a piece, in parts of what a rank has room for.
const MEMORY_CAPS: [f64; 4] = [1.0, 0.5, 0.25, 0.125];

/// Prices of memory, in parts of the mean seconds that a byte of the cheapest forms goes with.
const MEMORY_PRICES: [f64; 6] = [0.0, 0.1, 0.5, 2.0, 10.0, 1e6];

/// Reason why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Misfit {
    /// No form of a unit has pieces that fit a rank.
    Unit(usize),
    /// All units together do not fit all ranks: bytes that they need at least, and bytes that there are.
    Total(f64, f64),
    /// Pieces were not packed into the memory of the ranks.
    Packing,
}

/// Lower bound of the slowest rank: the larger of the cheapest prices over all ranks, and of the largest piece that cannot be cut.
pub(super) fn bound(prices: &Prices, tables: &Tables) -> f64 {
    let ranks = prices.ranks() as f64;
    let leaving: f64 = tables.leaving.iter().map(|each| each * prices.members() as f64).sum();
    let least =
        |of: &dyn Fn(&Candidate) -> f64, all: &[Candidate]| all.iter().map(of).fold(f64::INFINITY, f64::min);
    let candidates = || tables.candidates.iter().map(|of| of.all.as_slice());
    let cheapest: f64 = candidates().map(|all| least(&|candidate| candidate.total, all)).sum();
    let uncut = candidates().map(|all| least(&|candidate| candidate.wide.cost, all)).fold(0.0, f64::max);
    ((cheapest + leaving) / ranks).max(uncut)
}

/// How units choose their forms.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Largest price of a piece.
    cap: f64,
    /// Largest memory of a piece.
    memory_cap: f64,
    /// Seconds that a byte counts as.
    memory_price: f64,
}

impl Policy {
    /// Candidate of a unit: the cheapest below the caps; if there is none, the one with the smallest pieces.
    fn choose(&self, prices: &Prices, tables: &Tables, unit: usize) -> usize {
        let candidates = &tables.candidates[unit];
        let members = prices.members();
        let key = |&i: &usize| {
            let it = &candidates.all[i];
            // What is on all members cannot be unbalanced.
            let small = it.wide.cost <= self.cap || it.on_all(members);
            let light = it.wide.memory as f64 <= self.memory_cap;
            let price = it.total + self.memory_price * it.memory;
            match (light, small) {
                (true, true) => (0, price, 0.0),
                (true, false) => (1, it.wide.cost, price),
                (false, _) => (2, it.wide.memory as f64, price),
            }
        };
        let better = |a: &usize, b: &usize| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
        };
        candidates.worthy.iter().copied().min_by(better).unwrap_or(0)
    }

    fn choice(&self, prices: &Prices, tables: &Tables) -> Vec<usize> {
        (0..tables.units.len()).map(|unit| self.choose(prices, tables, unit)).collect()
    }
}

/// Places the pieces of a choice; `None` if they do not fit.
fn place(prices: &Prices, tables: &Tables, choice: Vec<usize>, method: Search) -> Option<Solution> {
    let problem = tables.problem(prices, &choice)?;
    let found: Result<_, NoRoom> = match method {
        Search::Greedy => assignment::greedy(&problem),
        Search::Differencing => assignment::differencing(&problem),
        Search::Best => assignment::best(&problem),
    };
    found.ok().map(|assignment| Solution::new(prices, choice, assignment))
}

/// The best plan that was found.
pub(super) fn search(prices: &Prices, tables: &Tables) -> Result<Solution, Misfit> {
    let (policy, choice) = fitting(prices, tables)?;
    let bound = bound(prices, tables);
    let enough = bound * (1.0 + CLOSE);
    let method = prices.request.search;
    let large = method == Search::Best && tables.units.len() * prices.ranks() > LARGE;
    let mut found: Vec<Solution> = Vec::new();
    let mut tried: Vec<Vec<usize>> = Vec::new();
    for cap in CAPS {
        let least = found.first().map_or(f64::INFINITY, |best| best.objective);
        // A better plan has smaller pieces than the best so far.
        if cap * bound > least {
            continue;
        }
        let memory_cap = policy.memory_cap.min((cap / 2.0).min(1.0) * prices.room() as f64);
        let choice = Policy { cap: cap * bound, memory_cap, ..policy }.choice(prices, tables);
        if tried.contains(&choice) || tables.mean(prices, &choice) >= least {
            continue;
        }
        tried.push(choice.clone());
        // Both quick methods, so that the strongest search of a large problem is no worse than either.
        let quick: &[Search] = if large { &[Search::Greedy, Search::Differencing] } else { &[method] };
        found.extend(quick.iter().filter_map(|&quick| place(prices, tables, choice.clone(), quick)));
        found.sort_by(|a, b| a.objective.total_cmp(&b.objective));
        if found.first().is_some_and(|found| found.objective <= enough) {
            break;
        }
    }
    if found.is_empty() {
        found.extend(place(prices, tables, choice, Search::Greedy));
    }
    if large && found.first().is_some_and(|found| found.objective > enough) {
        for again in found.iter().take(2).map(|found| found.choice.clone()).collect::<Vec<_>>() {
            found.extend(place(prices, tables, again, method));
        }
        found.sort_by(|a, b| a.objective.total_cmp(&b.objective));
    }
    let found = found.into_iter().next().ok_or(Misfit::Packing)?;
    Ok(match method {
        Search::Best if found.objective > enough && !large => refine(prices, tables, found, enough),
        _ => found,
    })
}

/// The first policy under which everything fits, and its choice: memory counts more and more, and pieces become smaller.
fn fitting(prices: &Prices, tables: &Tables) -> Result<(Policy, Vec<usize>), Misfit> {
    let all = || tables.candidates.iter().map(|of| of.all.as_slice());
    let none = (0..tables.units.len()).filter(|&unit| tables.candidates[unit].all.is_empty());
    if let Some(unit) = none.max_by_key(|&unit| tables.candidates[unit].smallest.wide.memory) {
        return Err(Misfit::Unit(unit));
    }
    let room = prices.room();
    let free = Policy { cap: f64::INFINITY, memory_cap: f64::INFINITY, memory_price: 0.0 };
    if room == u64::MAX {
        return Ok((free, free.choice(prices, tables)));
    }
    let least = |of: &dyn Fn(&Candidate) -> f64| -> f64 {
        all().map(|all| all.iter().map(of).fold(f64::INFINITY, f64::min)).sum()
    };
    let ranks = prices.ranks() as f64;
    let (needed, have) = (least(&|it| it.memory + ranks * it.arriving), room as f64 * ranks);
    if needed > have {
        return Err(Misfit::Total(needed, have));
    }
    let per_byte = least(&|it| it.total) / least(&|it| it.memory).max(1.0);
    for price in MEMORY_PRICES {
        for cap in MEMORY_CAPS {
            let policy = Policy { memory_cap: cap * room as f64, memory_price: price * per_byte, ..free };
            let choice = policy.choice(prices, tables);
            if place(prices, tables, choice.clone(), Search::Greedy).is_some() {
                return Ok((policy, choice));
            }
        }
    }
    Err(Misfit::Packing)
}

/// Whether everything fits, by the quickest method.
pub(super) fn fits(prices: &Prices, tables: &Tables) -> bool {
    fitting(prices, tables).is_ok()
}

/// Changes the form of single units as long as that helps, or tries all forms of all units where there are few.
fn refine(prices: &Prices, tables: &Tables, found: Solution, enough: f64) -> Solution {
    let found = small::search(prices, tables, found, enough);
    if found.objective <= enough || small::is_small(tables) {
        return found;
    }
    let mut best = found;
    // The larger the problem, the fewer attempts: each takes longer, and wins less.
    let size = (best.assignment.holders.len() + prices.ranks()).max(1);
    let mut attempts = (1_000_000 / (size * size)).clamp(4, 256);
    let ranks = prices.ranks() as f64;
    loop {
        let before = best.objective;
        let mut order: Vec<usize> = (0..tables.units.len()).collect();
        let total = |unit: usize| tables.chosen(&best.choice, unit).total;
        order.sort_by(|&a, &b| total(b).total_cmp(&total(a)));
        for unit in order {
            let sum = best.assignment.costs.iter().sum::<f64>() - tables.chosen(&best.choice, unit).total;
            for &other in &tables.candidates[unit].worthy {
                let it = &tables.candidates[unit].all[other];
                let hopeless = (sum + it.total) / ranks >= best.objective || it.wide.cost >= best.objective;
                if other == best.choice[unit] || hopeless {
                    continue;
                }
                if attempts == 0 || best.objective <= enough {
                    return best;
                }
                attempts -= 1;
                let mut choice = best.choice.clone();
                choice[unit] = other;
                if let Some(new) = place(prices, tables, choice, Search::Best)
                    && new.objective < best.objective * (1.0 - 1e-9)
                {
                    best = new;
                    break;
                }
            }
        }
        if best.objective >= before {
            return best;
        }
    }
}
