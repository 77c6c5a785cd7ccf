//! Items on holders, as they are moved about.

use super::{Assignment, NoRoom, Problem};

/// Marks an item that no holder has.
const NOWHERE: usize = usize::MAX;

/// An assignment that can be changed. Every change keeps pools and sets apart; memory is the caller's business.
#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    pub problem: &'a Problem,
    /// Holder of each item.
    holders: Vec<usize>,
    /// Seconds of each holder.
    pub costs: Vec<f64>,
    /// Bytes of items on each holder.
    pub memory: Vec<u64>,
    /// Items of each holder, cheapest first.
    pub held: Vec<Vec<usize>>,
    /// Whether a holder has an item of a set of items that must be apart, by set and holder.
    taken: Vec<bool>,
    /// Whether a holder belongs to a pool, by pool and holder.
    within: Vec<bool>,
}

impl<'a> State<'a> {
    /// No item is anywhere.
    pub(super) fn empty(problem: &'a Problem) -> Self {
        let holders = problem.holders.len();
        let mut within = vec![false; problem.pools.len() * holders];
        for (pool, members) in problem.pools.iter().enumerate() {
            members.iter().for_each(|&holder| within[pool * holders + holder] = true);
        }
        Self {
            problem,
            holders: vec![NOWHERE; problem.items.len()],
            costs: problem.holders.iter().map(|holder| holder.cost).collect(),
            memory: vec![0; holders],
            held: vec![Vec::new(); holders],
            taken: vec![false; problem.sets() * holders],
            within,
        }
    }

    /// Items on given holders.
    pub(super) fn of(problem: &'a Problem, holders: &[usize]) -> Self {
        let mut state = Self::empty(problem);
        holders.iter().enumerate().for_each(|(item, &holder)| state.put(item, holder));
        state
    }

    fn before(&self, a: usize, b: usize) -> std::cmp::Ordering {
        self.problem.items[a].cost.total_cmp(&self.problem.items[b].cost).then(a.cmp(&b))
    }

    /// Puts an item that is nowhere on a holder.
    pub(super) fn put(&mut self, item: usize, holder: usize) {
        let it = self.problem.items[item];
        self.costs[holder] += it.cost;
        self.memory[holder] = self.memory[holder].saturating_add(it.memory);
        let at = self.held[holder].partition_point(|&other| self.before(other, item).is_lt());
        self.held[holder].insert(at, item);
        if let Some(set) = it.apart {
            self.taken[set * self.held.len() + holder] = true;
        }
        self.holders[item] = holder;
    }

    /// Takes an item from its holder.
    pub(super) fn take(&mut self, item: usize) {
        let it = self.problem.items[item];
        let holder = std::mem::replace(&mut self.holders[item], NOWHERE);
        self.costs[holder] -= it.cost;
        self.memory[holder] -= it.memory.min(self.memory[holder]);
        let at = self.held[holder].partition_point(|&other| self.before(other, item).is_lt());
        self.held[holder].remove(at);
        if let Some(set) = it.apart {
            self.taken[set * self.held.len() + holder] = false;
        }
    }

    /// Takes an item from its holder and puts it on another.
    pub(super) fn shift(&mut self, item: usize, holder: usize) {
        self.take(item);
        self.put(item, holder);
    }

    /// Whether a holder may have an item: it belongs to the item's pool and has no item that this one must be apart from.
    pub(super) fn may(&self, item: usize, holder: usize) -> bool {
        let it = self.problem.items[item];
        let count = self.held.len();
        it.pool.is_none_or(|pool| self.within[pool * count + holder])
            && it.apart.is_none_or(|set| !self.taken[set * count + holder])
    }

    /// Whether `item` may take the place of `other` on its holder, memory aside.
    pub(super) fn may_replace(&self, item: usize, other: usize, holder: usize) -> bool {
        let (it, that) = (self.problem.items[item], self.problem.items[other]);
        // Items of one set change places freely: neither holder has two of them.
        it.apart.is_some() && it.apart == that.apart && it.pool == that.pool || self.may(item, holder)
    }

    /// Bytes that a holder has left for items.
    pub(super) fn free(&self, holder: usize) -> u64 {
        self.problem.holders[holder].memory.saturating_sub(self.memory[holder])
    }

    /// Bytes of items beyond a holder's memory.
    pub(super) fn excess(&self, holder: usize) -> u64 {
        self.memory[holder].saturating_sub(self.problem.holders[holder].memory)
    }

    /// The busiest holder; of equally busy ones the first.
    pub(super) fn busiest(&self) -> usize {
        let later =
            |best: usize, holder: usize| if self.costs[holder] > self.costs[best] { holder } else { best };
        (0..self.costs.len()).fold(0, later)
    }

    /// Reason why an item has no holder.
    pub(super) fn no_room(&self, item: usize) -> NoRoom {
        let free =
            (0..self.held.len()).filter(|&holder| self.may(item, holder)).map(|holder| self.free(holder));
        NoRoom { item, memory: self.problem.items[item].memory, free: free.max().unwrap_or(0) }
    }

    /// The assignment, with sums in the order of the items, so that they do not depend on the way there.
    pub(super) fn finish(self) -> Assignment {
        let mut costs: Vec<f64> = self.problem.holders.iter().map(|holder| holder.cost).collect();
        for (item, &holder) in self.problem.items.iter().zip(&self.holders) {
            costs[holder] += item.cost;
        }
        Assignment { holders: self.holders, costs, memory: self.memory }
    }
}
