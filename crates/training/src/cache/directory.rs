//! Which row lies in which slot of memory: a set-associative cache, and scratch for rows whose set has no free slot.
//!
//! Rows of a batch are found before it computes, while the batch before it still does. So the rows of two batches are in use at a time,
//! and these never leave memory; of the others in a row's set, the policy says which one does.

use kernels::{KernelError, RowMarks};
use spec::table_cache::{CachePolicy, WAYS};
use std::collections::HashMap;
use std::ops::Range;

/// A row and the slot that it lies in, comes into, or leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowSlot {
    pub row: u32,
    pub slot: u32,
}

/// Rows of one table in slots of memory.
#[derive(Debug)]
pub(super) struct Directory {
    policy: CachePolicy,
    sets: usize,
    /// Row in each slot, or [`EMPTY`]. Slots of scratch are behind those of sets.
    rows: Vec<u32>,
    /// Last batch that used each slot.
    last: Vec<u32>,
    /// Number of batches that used each slot, for [`CachePolicy::Lfu`].
    uses: Vec<u32>,
    /// Whether the row of each slot was changed since it came.
    changed: Vec<bool>,
    /// Slots of the rows in scratch.
    scratch: HashMap<u32, u32>,
    /// Slots of scratch that hold no row; the last is the next to be used.
    free: Vec<u32>,
    /// Number of the batch whose rows are being found.
    batch: u32,
    /// Places of ids whose rows are not in memory, in the batch at hand.
    later: Vec<u32>,
    /// Rows of the batch at hand that were not in memory.
    pub missing: Vec<RowSlot>,
    /// Changed rows that left memory for those of the batch at hand.
    pub evicted: Vec<RowSlot>,
    /// Different rows of the batch at hand.
    pub distinct: u64,
    /// Rows that batches change, where somebody asks for them.
    updated: Option<UpdatedRows>,
}

/// Rows that batches change.
#[derive(Debug)]
struct UpdatedRows {
    marks: RowMarks,
    /// Rows of the last batch that changes its rows. It may not have computed yet when marks are taken, so that its rows stay marked.
    last: Vec<u32>,
}

/// Mark of a slot without a row.
const EMPTY: u32 = u32::MAX;

/// Number of the first batch: far enough from 0 that slots which no batch used count as long unused.
const FIRST: u32 = 2;

impl Directory {
    /// Directory of `slots` slots in sets, a multiple of [`WAYS`], and `scratch` more.
    pub fn new(slots: usize, scratch: usize, policy: CachePolicy) -> Self {
        let all = slots + scratch;
        Self {
            policy,
            sets: slots / WAYS,
            rows: vec![EMPTY; all],
            last: vec![0; all],
            uses: if policy == CachePolicy::Lfu { vec![0; all] } else { Vec::new() },
            changed: vec![false; all],
            scratch: HashMap::new(),
            free: (slots as u32..all as u32).rev().collect(),
            batch: FIRST - 1,
            later: Vec::new(),
            missing: Vec::new(),
            evicted: Vec::new(),
            distinct: 0,
            updated: None,
        }
    }

    /// Notes from here on which rows batches change.
    pub fn track_updates(&mut self, marks: RowMarks) {
        self.updated = Some(UpdatedRows { marks, last: Vec::new() });
    }

    /// Rows that batches changed since this was last asked, and those of a batch that may not have computed yet.
    pub fn take_updated(&mut self) -> Result<Vec<u32>, KernelError> {
        let Some(UpdatedRows { marks, last }) = &mut self.updated else { return Ok(Vec::new()) };
        let rows = marks.take()?;
        marks.mark(last.iter().copied())?;
        Ok(rows)
    }

    /// Number of slots, scratch included. It grows where the scratch is used up.
    pub fn slots(&self) -> usize {
        self.rows.len()
    }

    /// Finds the rows of a batch: its ids become slots. Rows that are not in memory get a slot, and are listed as missing; changed rows that
    /// leave for them are listed as evicted. `changes` says whether the batch will change its rows.
    pub fn find(&mut self, ids: &mut [u32], changes: bool) -> Result<(), KernelError> {
        self.batch += 1;
        self.distinct = 0;
        self.missing.clear();
        self.evicted.clear();
        if changes && let Some(UpdatedRows { marks, last }) = &mut self.updated {
            last.clear();
            last.extend_from_slice(ids);
            marks.mark(ids.iter().copied())?;
        }
        // First all that are there, so that none of them leaves for another row of the same batch.
        let mut later = std::mem::take(&mut self.later);
        later.clear();
        for (i, id) in ids.iter_mut().enumerate() {
            match self.look_for(*id) {
                Some(slot) => *id = self.touch(slot, changes),
                None => later.push(i as u32),
            }
        }
        self.release_scratch();
        for &i in &later {
            let id = &mut ids[i as usize];
            let slot = self.look_for(*id).unwrap_or_else(|| self.make_room(*id));
            *id = self.touch(slot, changes);
        }
        self.later = later;
        // Rows that are more precise in memory are rounded as they leave it.
        if let Some(UpdatedRows { marks, .. }) = &mut self.updated {
            marks.mark(self.evicted.iter().map(|moved| moved.row))?;
        }
        Ok(())
    }

    /// Rows in scratch that neither this batch nor the one before uses leave it.
    fn release_scratch(&mut self) {
        if self.scratch.is_empty() {
            return;
        }
        for slot in (self.sets * WAYS..self.rows.len()).rev() {
            if self.rows[slot] != EMPTY && !self.in_use(slot) {
                self.scratch.remove(&self.rows[slot]);
                self.evict(slot);
                self.rows[slot] = EMPTY;
                self.free.push(slot as u32);
            }
        }
    }

    /// Notes that the batch at hand uses a slot.
    #[inline]
    fn touch(&mut self, slot: usize, changes: bool) -> u32 {
        if self.last[slot] != self.batch {
            self.last[slot] = self.batch;
            self.distinct += 1;
            if let Some(uses) = self.uses.get_mut(slot) {
                *uses = uses.saturating_add(1);
            }
            self.changed[slot] |= changes;
        }
        slot as u32
    }

    /// Slot of a row, if it is in memory.
    #[inline]
    fn look_for(&self, row: u32) -> Option<usize> {
        let first = self.set_of(row) * WAYS;
        let ways: &[u32; WAYS] = self.rows[first..first + WAYS].try_into().expect("a set has its ways");
        // All of them, without an early end: that becomes a few vector instructions.
        let found = ways
            .iter()
            .enumerate()
            .fold(0u32, |found, (way, &there)| found | (u32::from(there == row) << way));
        if found != 0 {
            return Some(first + found.trailing_zeros() as usize);
        }
        if self.scratch.is_empty() {
            return None;
        }
        self.scratch.get(&row).map(|&slot| slot as usize)
    }

    /// Slot of a row, if it is in memory, whether a batch uses it or not.
    pub fn slot_of(&self, row: u32) -> Option<usize> {
        self.look_for(row)
    }

    /// Forgets some rows, which were replaced in the level below.
    pub fn forget(&mut self, rows: Range<usize>) {
        for row in rows.start as u32..rows.end as u32 {
            let Some(slot) = self.look_for(row) else { continue };
            (self.rows[slot], self.changed[slot]) = (EMPTY, false);
            if self.scratch.remove(&row).is_some() {
                self.free.push(slot as u32);
            }
        }
    }

    fn set_of(&self, row: u32) -> usize {
        // Neighbouring rows are spread, so that no pattern of ids falls into few sets.
        let hash = row.wrapping_mul(0x9e37_79b1);
        ((u64::from(hash ^ (hash >> 15)) * self.sets as u64) >> 32) as usize
    }

    /// Whether the batch at hand or the one before uses a slot.
    fn in_use(&self, slot: usize) -> bool {
        self.last[slot] + 1 >= self.batch
    }

    /// Makes room for a row that is not in memory: in its set, or else in scratch.
    fn make_room(&mut self, row: u32) -> usize {
        let first = self.set_of(row) * WAYS;
        let rank = |slot: usize| match self.policy {
            CachePolicy::Lru | CachePolicy::Mapped => (0, self.last[slot]),
            CachePolicy::Lfu => (self.uses[slot], self.last[slot]),
        };
        let empty = (first..first + WAYS).find(|&slot| self.rows[slot] == EMPTY);
        let unused = || (first..first + WAYS).filter(|&slot| !self.in_use(slot));
        let slot = match empty.or_else(|| unused().min_by_key(|&slot| rank(slot))) {
            Some(slot) => {
                self.evict(slot);
                slot
            }
            None => self.take_scratch(row),
        };
        self.rows[slot] = row;
        self.changed[slot] = false;
        if let Some(uses) = self.uses.get_mut(slot) {
            *uses = 0;
        }
        // Not of this batch yet: the caller counts it.
        self.last[slot] = 0;
        self.missing.push(RowSlot { row, slot: slot as u32 });
        slot
    }

    fn take_scratch(&mut self, row: u32) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.rows.push(EMPTY);
            self.last.push(0);
            self.changed.push(false);
            if self.policy == CachePolicy::Lfu {
                self.uses.push(0);
            }
            (self.rows.len() - 1) as u32
        });
        self.scratch.insert(row, slot);
        slot as usize
    }

    /// Notes that the row of a slot leaves memory, if it was changed.
    fn evict(&mut self, slot: usize) {
        if self.rows[slot] != EMPTY && self.changed[slot] {
            self.evicted.push(RowSlot { row: self.rows[slot], slot: slot as u32 });
            self.changed[slot] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Finds the rows of a batch, and gives their slots.
    fn batch(directory: &mut Directory, rows: &[u32]) -> Vec<u32> {
        let mut slots = rows.to_vec();
        directory.find(&mut slots, true).unwrap();
        slots
    }

    #[test]
    fn a_row_stays_until_its_place_is_needed() {
        let mut directory = Directory::new(WAYS, WAYS, CachePolicy::Lru);
        let slots = batch(&mut directory, &[7, 8, 7]);
        assert_eq!(slots[0], slots[2]);
        assert_eq!((directory.missing.len(), directory.distinct), (2, 2));
        batch(&mut directory, &[9]);
        batch(&mut directory, &[10]);
        assert_eq!(batch(&mut directory, &[7])[0], slots[0]);
        assert!(directory.missing.is_empty() && directory.evicted.is_empty());
    }

    #[test]
    fn the_policy_says_who_leaves() {
        for (policy, leaves) in [(CachePolicy::Lru, 0), (CachePolicy::Lfu, 1)] {
            let mut directory = Directory::new(WAYS, WAYS, policy);
            let all: Vec<u32> = (0..WAYS as u32).collect();
            // Row 0 is used twice, but longest ago.
            batch(&mut directory, &[0]);
            batch(&mut directory, &[0]);
            batch(&mut directory, &all[1..]);
            batch(&mut directory, &all[2..]);
            batch(&mut directory, &[]);
            batch(&mut directory, &[]);
            batch(&mut directory, &[100]);
            assert_eq!(directory.evicted.iter().map(|moved| moved.row).collect::<Vec<_>>(), [leaves]);
        }
    }

    proptest! {
        /// Every row of two batches in a row has a slot of its own; what leaves was changed and is not in use; what was found before and
        /// did not leave is where it was.
        #[test]
        fn rows_in_use_never_leave(
            sets in 1usize..4,
            lfu: bool,
            batches in prop::collection::vec(prop::collection::vec(0u32..400, 0..120), 1..30),
        ) {
            let policy = if lfu { CachePolicy::Lfu } else { CachePolicy::Lru };
            let mut directory = Directory::new(sets * WAYS, WAYS, policy);
            let mut resident: HashMap<u32, u32> = HashMap::new();
            let mut before: Vec<u32> = Vec::new();
            for rows in &batches {
                let slots = batch(&mut directory, rows);
                for &RowSlot { row, slot } in &directory.evicted {
                    prop_assert_eq!(resident.get(&row), Some(&slot));
                    prop_assert!(!before.contains(&row) && !rows.contains(&row));
                }
                let missing: HashSet<u32> = directory.missing.iter().map(|moved| moved.row).collect();
                prop_assert_eq!(missing.len(), directory.missing.len(), "a row comes once");
                let evicted: HashSet<u32> = directory.evicted.iter().map(|moved| moved.row).collect();
                let distinct: HashSet<u32> = rows.iter().copied().collect();
                prop_assert_eq!(distinct.len() as u64, directory.distinct);
                // All rows are changed, so that whoever is resident and comes again must have left before.
                for row in &distinct {
                    prop_assert_eq!(missing.contains(row), !resident.contains_key(row));
                }
                evicted.iter().for_each(|row| { resident.remove(row); });
                for (&row, &slot) in rows.iter().zip(&slots) {
                    prop_assert_eq!(*resident.entry(row).or_insert(slot), slot);
                    prop_assert_eq!(directory.slot_of(row), Some(slot as usize));
                }
                let taken: HashSet<u32> = resident.values().copied().collect();
                prop_assert_eq!(taken.len(), resident.len(), "a slot has one row");
                prop_assert!(resident.values().all(|&slot| (slot as usize) < directory.slots()));
                before.clone_from(rows);
            }
            // Scratch holds no more than two batches.
            let most = batches.windows(2).map(|pair| pair[0].len() + pair[1].len()).max().unwrap_or(120);
            prop_assert!(directory.slots() <= sets * WAYS + WAYS.max(most));
        }
    }
}
