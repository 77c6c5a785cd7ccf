//! The greedy rule, for loads of any kind: the least loaded holder takes the next item, largest first.

use std::cmp::Reverse;
use std::ops::Add;

/// Loads of holders, as items are given to them. A load is anything that can be added and compared: seconds, or lookups and then
/// memory.
#[derive(Clone, Debug)]
pub struct Loads<L>(Vec<L>);

impl<L: Copy + Default + Ord + Add<Output = L>> Loads<L> {
    /// So many holders that have nothing yet.
    pub fn none(holders: usize) -> Self {
        Self(vec![L::default(); holders])
    }

    /// Load of a holder.
    pub fn of(&self, holder: usize) -> L {
        self.0[holder]
    }

    /// Gives a load to a holder.
    pub fn add(&mut self, holder: usize, load: L) {
        self.0[holder] = self.0[holder] + load;
    }

    /// The least loaded of some holders; of equally loaded ones the first. `None` if there are none.
    pub fn least(&self, among: impl IntoIterator<Item = usize>) -> Option<usize> {
        among.into_iter().min_by_key(|&holder| self.0[holder])
    }
}

/// Gives items to holders, largest first; of equally large ones the first comes first. `choose` names the holder of an item, given
/// the loads so far; the greedy rule is [`Loads::least`] of those that may take it. Returns the holder of each item, or the first
/// item that has none.
///
/// ```
/// use planning::assignment::{Loads, give_largest_first};
/// let mut loads = Loads::none(2);
/// let holders = give_largest_first(&[3u64, 5, 4], &mut loads, |_, loads| loads.least(0..2));
/// assert_eq!(holders, Ok(vec![1, 0, 1]));
/// assert_eq!((loads.of(0), loads.of(1)), (5, 7));
/// ```
pub fn give_largest_first<L: Copy + Default + Ord + Add<Output = L>>(
    items: &[L],
    loads: &mut Loads<L>,
    mut choose: impl FnMut(usize, &Loads<L>) -> Option<usize>,
) -> Result<Vec<usize>, usize> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&item| Reverse(items[item]));
    let mut holders = vec![0; items.len()];
    for item in order {
        let holder = choose(item, loads).ok_or(item)?;
        loads.add(holder, items[item]);
        holders[item] = holder;
    }
    Ok(holders)
}
