//! Tables larger than memory: how many rows of each table a rank keeps in memory, and which ones.
//!
//! Tables have levels. The lowest holds all rows, in files or in memory of the host; a rank keeps the rows that it needs, and those that it is likely to need
//! again, in *slots* of its memory. Slots are grouped in sets of [`WAYS`]; a row may lie in any slot of its set. Lookups and updates
//! see slots only, so that they are the same as for tables in memory.
//!
//! ```
//! use spec::table_cache::{CacheShare, slots};
//! // A small table is held whole; the others share what is left.
//! let share = |rows| CacheShare { rows, row_bytes: 64, weight: 1, stays: false };
//! let tables = [share(100), share(1 << 20)];
//! let slots = slots(&tables, 1 << 20).unwrap();
//! assert!(slots[0].is_none() && slots[1].is_some_and(|slots| slots > 10_000));
//! assert!(spec::table_cache::slots(&tables, 1000).is_err());
//! ```

use crate::byte_size::ByteSize;
use crate::model::Model;
use crate::optimizer::UpdateRule;
use crate::placement::{Placement, Shard};
use crate::table_format::TableFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Slots of a set: a row may lie in any of them.
pub const WAYS: usize = 32;
/// Bytes that a slot takes besides the row: its row number, for itself and for rounding, its last use, its number of uses, and whether it was
/// changed.
pub const SLOT_BYTES: usize = 20;
/// One slot in so many is kept for rows whose set has no free slot.
pub const SCRATCH: usize = 16;

/// Settings of tables that are larger than memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCache {
    /// Memory for tables on each host, in bytes: weights, optimizer state, and what the cache keeps of them.
    pub memory: u64,
    /// Folder of the files that hold all rows. They are scratch: a run that is resumed fills them from its checkpoint.
    pub store: PathBuf,
    /// Policy by which rows leave memory.
    pub policy: CachePolicy,
    /// Number format of rows in memory; `None` for that of their table.
    pub format: Option<TableFormat>,
    /// Rows that every rank keeps in memory.
    pub shards: CachedShards,
}

/// Policy by which rows leave memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// The row of the set that was used longest ago.
    #[default]
    Lru,
    /// The row of the set that was used in the fewest batches; of several, the one used longest ago.
    Lfu,
    /// The operating system decides, page by page: files are mapped, nothing is fetched ahead, and memory is limited only where a
    /// cgroup limits the process. On GPUs tables lie in memory of the host, which kernels reach by themselves. This is what the other
    /// two are compared with.
    Mapped,
}

impl CachePolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Lfu, Self::Mapped];

    /// Name of the policy, as in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Mapped => "mapped",
        }
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CachePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| format!("{text:?} is no policy of the cache; use lru, lfu or mapped"))
    }
}

impl TableCache {
    /// Shards whose rows are fetched and written back; `None` where the operating system does that, or no table is larger than memory.
    pub fn fetched(&self) -> Option<&CachedShards> {
        Some(&self.shards).filter(|shards| self.policy != CachePolicy::Mapped && shards.any())
    }
}

/// What one table of a rank asks of the memory for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShare {
    /// Number of rows.
    pub rows: usize,
    /// Bytes of a row in memory, optimizer state included.
    pub row_bytes: usize,
    /// Weight by which memory is shared out: ids per sample.
    pub weight: u64,
    /// Whether the table must be in memory whole.
    pub stays: bool,
}

impl CacheShare {
    /// Share of a shard, whose rows are `format` in memory.
    pub fn of(model: &Model, shard: &Shard, rule: &UpdateRule, format: Option<TableFormat>) -> Self {
        let width = shard.columns.len();
        let format = format.unwrap_or(model.table_format(shard.feature));
        let feature = &model.features()[shard.feature];
        let row_bytes = format.row_bytes(width) + size_of::<f32>() * rule.state_per_row(width);
        let (weight, stays) = (feature.hotness.mean().max(1), feature.cache == Some(false));
        Self { rows: shard.rows.len(), row_bytes, weight, stays }
    }

    /// Bytes of the whole table.
    fn whole(&self) -> u128 {
        self.rows as u128 * self.row_bytes as u128
    }

    /// Bytes that the table needs at least: those of one set, or of the whole table.
    fn least(&self) -> u128 {
        if self.stays { self.whole() } else { u128::from(self.bytes(WAYS)).min(self.whole()) }
    }

    /// Bytes of a slot.
    fn slot(&self) -> usize {
        self.row_bytes + SLOT_BYTES
    }

    /// Bytes of so many slots, with the scratch beside them and a bit for every row that says whether its file has it.
    fn bytes(&self, slots: usize) -> u64 {
        ((slots + scratch(slots)) * self.slot() + self.rows.div_ceil(8)) as u64
    }
}

/// Slots of scratch beside so many slots of sets.
pub fn scratch(slots: usize) -> usize {
    slots.div_ceil(SCRATCH).max(WAYS)
}

/// Numbers of slots of each table within `memory` bytes; `None` for a table that is held whole. Tables get memory by weight and the
/// size of their rows; what a small table does not need goes to the others. An error is the least memory that these tables need.
pub fn slots(tables: &[CacheShare], memory: u64) -> Result<Vec<Option<usize>>, u64> {
    // What all tables that have no memory yet need at least.
    let mut reserved: u128 = tables.iter().map(CacheShare::least).sum();
    if u128::from(memory) < reserved {
        return Err(reserved.min(u128::from(u64::MAX)) as u64);
    }
    let mut slots = vec![None; tables.len()];
    // From the table that needs the least for its weight: whoever fits into its share leaves the rest to those behind it.
    let mut order: Vec<usize> = (0..tables.len()).collect();
    let asked = |table: &CacheShare| u128::from(table.weight) * table.slot() as u128;
    let need = |&i: &usize| (tables[i].whole() as f64 / asked(&tables[i]) as f64, i);
    order.sort_by(|a, b| need(a).partial_cmp(&need(b)).expect("finite"));
    let mut left = u128::from(memory);
    let mut weight: u128 = tables.iter().map(asked).sum();
    for i in order {
        let table = &tables[i];
        reserved -= table.least();
        let share = (left * asked(table) / weight.max(1)).max(table.least()).min(left - reserved);
        weight -= asked(table);
        if table.whole() <= share {
            left -= table.whole();
            continue;
        }
        // Behind this number the scratch may be one set more than its part.
        let with_scratch = share / table.slot() as u128 * SCRATCH as u128 / (SCRATCH as u128 + 1);
        let sets = (with_scratch as usize / WAYS).max(1);
        let bits = table.rows.div_ceil(8).div_ceil(table.slot() * WAYS);
        let lowest = sets.saturating_sub(bits + 4).max(1);
        let fits = (lowest..=sets).rev().find(|sets| u128::from(table.bytes(sets * WAYS)) <= share);
        let fits = fits.unwrap_or(1);
        slots[i] = Some(fits * WAYS);
        left -= u128::from(table.bytes(fits * WAYS)).min(left);
    }
    Ok(slots)
}

/// A shard of which a rank keeps some rows in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedShard {
    /// Number of slots in sets; scratch is beside them.
    pub slots: usize,
    /// Bytes of a row in its file, optimizer state included.
    pub row_bytes: usize,
}

/// Shards of which ranks keep some rows in memory, by rank and in the order of [`Placement::held_by`]; `None` for a shard that is held whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedShards(Vec<Vec<Option<CachedShard>>>);

impl CachedShards {
    /// Shares `memory` bytes of every host out to its ranks, and those of a rank to its shards; rows in memory are in `format`. Tables of
    /// which several ranks hold copies are held whole. An error says how much memory is needed at least.
    pub fn new(
        model: &Model,
        placement: &Placement,
        rule: &UpdateRule,
        (memory, format): (u64, Option<TableFormat>),
    ) -> Result<Self, String> {
        let topology = placement.topology();
        let each = u128::from(memory / topology.ranks_per_host() as u64);
        let share = |shard: &Shard, format| CacheShare::of(model, shard, rule, format);
        let copied = |rank: usize| -> u128 {
            let copies = &placement.with_rows_by(rank)[placement.owned_by(rank).len()..];
            copies.iter().map(|shard| share(shard, None).whole()).sum()
        };
        let least = |rank: usize| -> u128 {
            let owned = placement.owned_by(rank).iter();
            owned.map(|shard| share(shard, format).least()).sum::<u128>() + copied(rank)
        };
        let neediest = (0..topology.ranks()).max_by_key(|&rank| least(rank)).unwrap_or(0);
        if least(neediest) > each {
            let host = least(neediest).saturating_mul(topology.ranks_per_host() as u128);
            let size = |bytes: u128| ByteSize(bytes.min(u128::from(u64::MAX)) as u64);
            return Err(format!(
                "{} on each host are too little: copies of tables, tables with cache = false, and {WAYS} rows of every other table with the \
                 scratch beside them, take {} on rank {neediest}; give at least {}",
                ByteSize(memory),
                size(least(neediest)),
                size(host)
            ));
        }
        let of_rank = |rank: usize| {
            let owned = placement.owned_by(rank);
            let shares: Vec<_> = owned.iter().map(|shard| share(shard, format)).collect();
            let slots =
                slots(&shares, (each - copied(rank)) as u64).expect("there is the least for every rank");
            let cached = |(slots, shard): (Option<usize>, &Shard)| {
                slots.map(|slots| CachedShard { slots, row_bytes: share(shard, None).row_bytes })
            };
            let mut shards: Vec<_> = slots.into_iter().zip(owned).map(cached).collect();
            shards.resize(placement.held_by(rank).len(), None);
            shards
        };
        Ok(Self((0..topology.ranks()).map(of_rank).collect()))
    }

    /// Shards of a rank.
    pub fn of_rank(&self, rank: usize) -> &[Option<CachedShard>] {
        &self.0[rank]
    }

    /// Whether some table is not held whole.
    pub fn any(&self) -> bool {
        self.0.iter().flatten().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn memory_is_kept_to(
            tables in prop::collection::vec((1usize..1 << 24, 1usize..2048, 1u64..100, prop::bool::weighted(0.1)), 1..40),
            memory in 0u64..1 << 36,
        ) {
            let share = |(rows, row_bytes, weight, stays)| CacheShare { rows, row_bytes, weight, stays };
            let tables: Vec<_> = tables.into_iter().map(share).collect();
            match slots(&tables, memory) {
                Err(least) => {
                    prop_assert!(memory < least);
                    prop_assert!(slots(&tables, least).is_ok());
                }
                Ok(slots) => {
                    let bytes = |(table, slots): (&CacheShare, &Option<usize>)| match slots {
                        None => table.whole(),
                        Some(slots) => u128::from(table.bytes(*slots)),
                    };
                    let used: u128 = tables.iter().zip(&slots).map(bytes).sum();
                    prop_assert!(used <= u128::from(memory), "{used} of {memory}");
                    let stay = tables.iter().zip(&slots).filter(|(table, _)| table.stays);
                    prop_assert!(stay.into_iter().all(|(_, slots)| slots.is_none()));
                    prop_assert!(slots.iter().flatten().all(|slots| slots % WAYS == 0 && *slots > 0));
                    // Where everything fits, everything is held whole.
                    let whole: u128 = tables.iter().map(CacheShare::whole).sum();
                    if whole <= u128::from(memory) {
                        prop_assert!(slots.iter().all(Option::is_none));
                    }
                }
            }
        }
    }
}
