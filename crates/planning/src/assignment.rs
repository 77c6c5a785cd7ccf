//! Items to holders: which holder takes which item, so that the busiest holder has as little to do as possible and no holder has
//! more than its memory takes.
//!
//! An item has a cost in seconds and a memory in bytes. Items may be confined to some of the holders (a tower's tables to the
//! ranks of its group), and items may have to be apart (the pieces of one table on different ranks). A holder may have something
//! to do already. Three methods:
//!
//! - [`greedy()`]: largest first, each item to the holder with the least to do (Neo §4.1).
//! - [`differencing()`]: the largest differencing method of Karmarkar and Karp, for any number of holders. Partial solutions are
//!   tuples of sums, one for each holder; the two tuples whose largest and smallest sums differ most are joined, the largest sum of
//!   one with the smallest of the other. Items that must be apart begin as one tuple, and what holders already have to do is a
//!   tuple too, so both constraints hold by construction. Memory does not: overfull holders pass items on afterwards.
//! - [`best()`]: both of these, then moves and swaps of items from the busiest holder as long as they help, then an exact
//!   branch-and-bound search where there are few items. It stops as soon as the busiest holder meets [`Problem::bound`]. Differencing
//!   is nearly perfect with many items on each holder; exchanges repair what memory and confinement spoil; only few, large items
//!   are hard for both, and these are few enough to enumerate. Linear programs were not considered: they need a solver, and the gap
//!   to the bound is smaller than the error of any cost model.
//!
//! ```
//! use planning::assignment::{Holder, Item, Problem, best, differencing, greedy};
//! let items = [8.0, 7.0, 6.0, 5.0, 4.0].map(|cost| Item { cost, ..Item::default() });
//! let problem = Problem::new(items.to_vec(), vec![Holder::default(); 2]);
//! assert_eq!(greedy(&problem).unwrap().largest(), 17.0);
//! assert_eq!(differencing(&problem).unwrap().largest(), 16.0);
//! assert_eq!(best(&problem).unwrap().largest(), 15.0);
//! ```

mod bound;
mod descent;
mod differencing;
mod exact;
mod greedy;
mod loads;
mod state;

pub use descent::best;
pub use differencing::differencing;
pub use greedy::greedy;
pub use loads::{Loads, give_largest_first};

/// Item: something that one holder takes as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Item {
    /// Seconds that the item costs its holder; finite and not negative.
    pub cost: f64,
    /// Bytes that the item takes of its holder's memory.
    pub memory: u64,
    /// Number of the pool that the item is confined to; `None` if any holder may take it.
    pub pool: Option<usize>,
    /// Number of the set of items that must all be on different holders; `None` if the item may be with any other. Items of a
    /// set have the same pool.
    pub apart: Option<usize>,
}

/// Holder of items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holder {
    /// Seconds that the holder needs for what it has already.
    pub cost: f64,
    /// Bytes that are left for items.
    pub memory: u64,
}

impl Default for Holder {
    /// A holder that has nothing to do and endless memory.
    fn default() -> Self {
        Self { cost: 0.0, memory: u64::MAX }
    }
}

/// Items, holders, and what may go where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// Items to assign.
    pub items: Vec<Item>,
    /// Holders to assign them to; at least one.
    pub holders: Vec<Holder>,
    /// Pools: lists of holders, ascending, that items may be confined to.
    pub pools: Vec<Vec<usize>>,
}

impl Problem {
    /// Problem without pools.
    pub fn new(items: Vec<Item>, holders: Vec<Holder>) -> Self {
        Self { items, holders, pools: Vec::new() }
    }

    /// Lower bound of the busiest holder's seconds, whatever the assignment. Memory is not considered.
    pub fn bound(&self) -> f64 {
        bound::bound(self)
    }

    /// Number of sets of items that must be apart.
    fn sets(&self) -> usize {
        self.items.iter().filter_map(|item| item.apart).max().map_or(0, |last| last + 1)
    }
}

/// Holder of each item, and what this makes of the holders.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Holder of each item, in the order of the items.
    pub holders: Vec<usize>,
    /// Seconds of each holder, including what it had already.
    pub costs: Vec<f64>,
    /// Bytes of items on each holder.
    pub memory: Vec<u64>,
}

impl Assignment {
    /// Seconds of the busiest holder.
    pub fn largest(&self) -> f64 {
        self.costs.iter().copied().fold(0.0, f64::max)
    }
}

/// Reason why no assignment was found: an item has no holder left. Among items that fill the memory almost entirely, one may exist
/// all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("item {item} needs {memory} bytes, but no holder that may take it has more than {free} left")]
pub struct NoRoom {
    /// Index of the item.
    pub item: usize,
    /// Bytes that the item needs.
    pub memory: u64,
    /// Most bytes that a holder that may take the item has left; 0 if there is no such holder.
    pub free: u64,
}
