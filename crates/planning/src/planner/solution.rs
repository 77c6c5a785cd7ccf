//! A choice of forms for all units, the assignment of their pieces, and the placement that they are.

use super::candidates::{Candidate, Shape};
use super::prices::Prices;
use super::units::Tables;
use crate::assignment::{Assignment, Holder, Item, Problem};
use spec::placement::{CopyUpdate, Holders, Placement, Shard, share};

/// Forms of all units, and holders of their pieces.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    /// Index of the candidate of each unit.
    pub choice: Vec<usize>,
    pub assignment: Assignment,
    /// Seconds by which plans are compared.
    pub objective: f64,
}

impl Tables {
    /// Candidate that a choice has for a unit.
    pub(super) fn chosen(&self, choice: &[usize], unit: usize) -> &Candidate {
        &self.candidates[unit].all[choice[unit]]
    }

    /// Mean time of the ranks under a choice.
    pub(super) fn mean(&self, prices: &Prices, choice: &[usize]) -> f64 {
        let leaving: f64 = self.leaving.iter().map(|each| each * prices.members() as f64).sum();
        let total: f64 = (0..choice.len()).map(|unit| self.chosen(choice, unit).total).sum();
        (total + leaving) / prices.ranks() as f64
    }

    /// Whether the pieces of a candidate are not items, because every member has the same.
    fn spread(&self, prices: &Prices, candidate: &Candidate) -> bool {
        candidate.on_all(prices.members())
    }

    /// Members of the group of a unit; all ranks in the flat dataflow.
    fn members(&self, prices: &Prices, unit: usize) -> Vec<usize> {
        match prices.request.groups {
            Some(groups) => groups.members(self.group_of[unit]).collect(),
            None => (0..prices.ranks()).collect(),
        }
    }

    /// The problem of placing the pieces of a choice. `None` if what every rank must have does not fit.
    pub(super) fn problem(&self, prices: &Prices, choice: &[usize]) -> Option<Problem> {
        let groups = prices.request.groups;
        let count = groups.map_or(1, |groups| groups.count());
        let mut on_all = vec![(0.0, 0u64); count];
        let (mut items, mut arriving) = (Vec::new(), 0.0);
        for unit in 0..self.units.len() {
            let candidate = self.chosen(choice, unit);
            let pool = groups.map(|_| self.group_of[unit]);
            arriving += candidate.arriving;
            if self.spread(prices, candidate) {
                let all = &mut on_all[pool.unwrap_or(0)];
                all.0 += candidate.wide.cost;
                all.1 = all.1.saturating_add(candidate.wide.memory);
                continue;
            }
            let Shape::Cut { rows, columns } = candidate.shape else { continue };
            let apart = (rows * columns > 1).then_some(unit);
            for piece in 0..rows * columns {
                let price = candidate.piece(piece % columns);
                items.push(Item { cost: price.cost, memory: price.memory, pool, apart });
            }
        }
        let group_of = |rank: usize| groups.map_or(0, |groups| groups.group_of(rank));
        let holder = |rank: usize| {
            let (mut cost, memory) = on_all[group_of(rank)];
            cost += self.leaving.get(group_of(rank)).copied().unwrap_or(0.0);
            let room = prices.room();
            let needed = memory.saturating_add(arriving as u64);
            let left = if room == u64::MAX { Some(room) } else { room.checked_sub(needed) };
            left.map(|memory| Holder { cost, memory })
        };
        let holders = (0..prices.ranks()).map(holder).collect::<Option<Vec<Holder>>>()?;
        let pools = groups.map_or(Vec::new(), |groups| {
            (0..groups.count()).map(|group| groups.members(group).collect()).collect()
        });
        // Numbers of sets without gaps.
        let mut sets = 0;
        let mut last = None;
        for item in &mut items {
            let Some(unit) = item.apart else { continue };
            sets += usize::from(last.is_some_and(|last| last != unit));
            last = Some(unit);
            item.apart = Some(sets);
        }
        Some(Problem { items, holders, pools })
    }
}

impl Solution {
    /// A solution, with what it is compared by.
    pub(super) fn new(prices: &Prices, choice: Vec<usize>, assignment: Assignment) -> Self {
        let mean = assignment.costs.iter().sum::<f64>() / assignment.costs.len().max(1) as f64;
        let objective = mean + prices.request.weights.imbalance * (assignment.largest() - mean);
        Self { choice, assignment, objective }
    }

    /// Placement of the pieces.
    pub(super) fn placement(&self, prices: &Prices, tables: &Tables) -> Placement {
        let (model, mut next) = (prices.request.model, 0);
        let mut shards = Vec::new();
        for (u, unit) in tables.units.iter().enumerate() {
            let candidate = tables.chosen(&self.choice, u);
            let rows = model.features()[unit.feature].rows;
            let shard = |rows, columns, holders| Shard::new(unit.feature, rows, columns, holders);
            let Shape::Cut { rows: down, columns: across } = candidate.shape else {
                let ranks: Vec<usize> = tables.members(prices, u);
                let holders = Holders::Copies { ranks: ranks.into(), update: CopyUpdate::Rows };
                shards.push(shard(0..rows, unit.columns.clone(), holders));
                continue;
            };
            let ranks = if tables.spread(prices, candidate) {
                tables.members(prices, u)
            } else {
                next += down * across;
                self.assignment.holders[next - down * across..next].to_vec()
            };
            for column in 0..across {
                // Pieces of rows are alike, and their ranks ascend.
                let mut strip: Vec<usize> = (0..down).map(|row| ranks[row * across + column]).collect();
                strip.sort_unstable();
                let part = share(unit.columns.len(), across, column);
                let part = unit.columns.start + part.start..unit.columns.start + part.end;
                for (row, rank) in strip.into_iter().enumerate() {
                    shards.push(shard(share(rows, down, row), part.clone(), Holders::Rank(rank)));
                }
            }
        }
        let topology = prices.request.groups.map_or(prices.request.topology, |groups| groups.topology());
        Placement::new(model, topology, shards).expect("built from the model and the cluster themselves")
    }
}
