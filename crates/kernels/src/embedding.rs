//! The values that embedding operations work on.
//!
//! A rank holds T tables (or shards) and sees the ids of B samples of the whole world. Ids arrive in *segments*, one per
//! (source rank, table): the ids of that source's samples, in order. [`BagIndex`] says where each (table, sample)
//! bag starts and how long it is, so that lookup and update never care how ids travelled. [`SortedIds`] groups the
//! same ids by row, in the order of the values buffer. Ids that arrive in global sample order are summed in that order,
//! whatever numbers the index gives their samples; that is what makes the update exact (Neo §5.1) and independent of how
//! many ranks there are.

use crate::{Buffer, Device, KernelError};
use spec::Pooling;
use spec::optimizer::UpdateRule;
use std::ops::Range;

/// One table (or shard) and the state its optimizer keeps beside it.
#[derive(Debug)]
pub struct Table {
    /// Rows.
    pub rows: usize,
    /// Weights per row.
    pub dim: usize,
    /// How a bag of rows becomes one vector.
    pub pooling: Pooling,
    /// `rows × dim` weights.
    pub weights: Buffer<f32>,
    /// Optimizer state, `rows × rule.state_per_row(dim)`: for Adam the first moments of a row, then its second.
    pub state: Buffer<f32>,
}

impl Table {
    /// A table of zeros with the state that `rule` needs; without any memory on [`Device::Idle`].
    pub fn zeroed(
        device: &Device,
        rows: usize,
        dim: usize,
        pooling: Pooling,
        rule: &UpdateRule,
    ) -> Result<Self, KernelError> {
        let rows_here = if device.computes() { rows } else { 0 };
        let of =
            |width: usize| rows_here.checked_mul(width).ok_or(KernelError::OutOfMemory { bytes: usize::MAX });
        Ok(Self {
            rows,
            dim,
            pooling,
            weights: Buffer::zeroed(device, of(dim)?)?,
            state: Buffer::zeroed(device, of(rule.state_per_row(dim))?)?,
        })
    }
}

/// A run of consecutive samples whose ids for one table lie together in the values buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The table, as an index into the tables of the call.
    pub table: usize,
    /// The first of the samples, as the index numbers them.
    pub first_sample: usize,
    /// How many samples.
    pub samples: usize,
    /// Where the first id lies in the values buffer.
    pub first_value: usize,
    /// Where the samples' bag lengths begin in the lengths buffer; `None` when every bag holds exactly one id.
    pub lengths_at: Option<usize>,
}

/// Where each bag lies: `starts[t·B + s]` in the values buffer, `lengths[t·B + s]` ids long. A bag that no segment
/// covers is empty.
#[derive(Debug, Default)]
pub struct BagIndex {
    /// Tables, T.
    pub tables: usize,
    /// Samples, B.
    pub samples: usize,
    /// First value of each bag.
    pub starts: Buffer<u32>,
    /// Ids in each bag.
    pub lengths: Buffer<u32>,
}

/// The ids of a step grouped by row.
///
/// For each table `t`, `keys[bounds[t]..bounds[t + 1]]` holds `row << 32 | value index`, ascending: equal rows lie
/// together, and inside a row the values keep their order. `samples[value index]` is the sample a value belongs to, as
/// the index numbers them; these numbers need not ascend with the values.
#[derive(Debug, Default)]
pub struct SortedIds {
    /// The keys of all tables, table by table.
    pub keys: Buffer<u64>,
    /// Where each table's keys begin, T + 1 entries.
    pub bounds: Vec<usize>,
    /// The sample of each value.
    pub samples: Buffer<u32>,
}

/// Refuses keys that do not fit the tables `which`: the parts of their keys inside `range` must ascend (compared with the
/// key before, too) and name existing rows, values and samples. `which` lies inside the tables and the bounds.
pub(crate) fn check_sorted(
    tables: &[Table],
    which: Range<usize>,
    index: &BagIndex,
    sorted: &SortedIds,
    range: Range<usize>,
) -> Result<(), KernelError> {
    let (keys, samples) = (sorted.keys.host(), sorted.samples.host());
    let wrong = |what, expected, got| Err(KernelError::Mismatch { op: "update_tables", what, expected, got });
    let mut bounds = sorted.bounds[which.start..=which.end].windows(2);
    if let Some(pair) = bounds.find(|pair| pair[0] > pair[1] || pair[1] > keys.len()) {
        return wrong("bounds of the sorted ids", keys.len(), pair[1]);
    }
    let bags = which.end.saturating_mul(index.samples);
    if index.lengths.len() < bags {
        return wrong("bags of the index", bags, index.lengths.len());
    }
    for t in which {
        let table = &tables[t];
        if table.weights.len() < table.rows * table.dim {
            return wrong("weights of a table", table.rows * table.dim, table.weights.len());
        }
        let part = sorted.bounds[t].max(range.start)..sorted.bounds[t + 1].min(range.end);
        if part.is_empty() {
            continue;
        }
        let mut before = if part.start > sorted.bounds[t] { keys[part.start - 1] } else { 0 };
        for &key in &keys[part] {
            let value = key as u32 as usize;
            if key < before {
                return wrong("order of the sorted ids", before as usize, key as usize);
            }
            if (key >> 32) as usize >= table.rows {
                return wrong("rows of a table", table.rows, (key >> 32) as usize);
            }
            match samples.get(value) {
                Some(&sample) if (sample as usize) < index.samples => before = key,
                Some(&sample) => return wrong("samples of the index", index.samples, sample as usize),
                None => return wrong("values of the sorted ids", samples.len(), value),
            }
        }
    }
    Ok(())
}
