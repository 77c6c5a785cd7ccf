//! Exhaustive search over the forms of all tables, where there are few.

use super::prices::Prices;
use super::solution::Solution;
use super::units::Tables;
use crate::assignment;

/// Most combinations of forms that are tried.
const COMBINATIONS: f64 = 50_000.0;

/// Most combinations whose pieces are placed.
const PLACED: usize = 3_000;

/// Whether all combinations of forms can be tried.
pub(super) fn is_small(tables: &Tables) -> bool {
    tables.candidates.iter().map(|of| of.worthy.len() as f64).product::<f64>() <= COMBINATIONS
}

/// The best of all combinations of forms, cheapest first; what was found before if there are too many.
pub(super) fn search(prices: &Prices, tables: &Tables, found: Solution, enough: f64) -> Solution {
    if !is_small(tables) || prices.request.weights.imbalance < 1.0 {
        return found;
    }
    let least = |unit: usize| {
        let all = tables.candidates[unit].worthy.iter().map(|&i| tables.candidates[unit].all[i].total);
        all.fold(f64::INFINITY, f64::min)
    };
    let mut order: Vec<usize> = (0..tables.units.len()).collect();
    order.sort_by(|&a, &b| least(b).total_cmp(&least(a)));
    let mut rest = vec![0.0; order.len() + 1];
    for (i, &unit) in order.iter().enumerate().rev() {
        rest[i] = rest[i + 1] + least(unit);
    }
    let leaving: f64 = tables.leaving.iter().map(|each| each * prices.members() as f64).sum();
    let choice = found.choice.clone();
    let mut search = Exhaustive { prices, tables, order, rest, enough, best: found, placed: PLACED };
    search.from(0, leaving, &mut choice.clone());
    search.best
}

struct Exhaustive<'a> {
    prices: &'a Prices<'a>,
    tables: &'a Tables,
    /// Units, most expensive first.
    order: Vec<usize>,
    /// Cheapest prices of the units from each place in the order on.
    rest: Vec<f64>,
    enough: f64,
    best: Solution,
    placed: usize,
}

impl Exhaustive<'_> {
    fn done(&self) -> bool {
        self.placed == 0 || self.best.objective <= self.enough
    }

    fn from(&mut self, place: usize, sum: f64, choice: &mut Vec<usize>) {
        let Some(&unit) = self.order.get(place) else {
            self.try_out(choice);
            return;
        };
        let tables = self.tables;
        for &form in &tables.candidates[unit].worthy {
            let candidate = &tables.candidates[unit].all[form];
            let mean = (sum + candidate.total + self.rest[place + 1]) / self.prices.ranks() as f64;
            // Forms come cheapest first.
            if mean >= self.best.objective * (1.0 - 1e-6) || self.done() {
                return;
            }
            if candidate.wide.cost < self.best.objective {
                choice[unit] = form;
                self.from(place + 1, sum + candidate.total, choice);
            }
        }
    }

    fn try_out(&mut self, choice: &[usize]) {
        let Some(problem) = self.tables.problem(self.prices, choice) else { return };
        if problem.bound() >= self.best.objective * (1.0 - 1e-6) {
            return;
        }
        self.placed -= 1;
        if let Ok(assignment) = assignment::best(&problem) {
            let new = Solution::new(self.prices, choice.to_vec(), assignment);
            if new.objective < self.best.objective {
                self.best = new;
            }
        }
    }
}
