//! Values that embedding operations work on.
//!
//! A rank holds T tables (or shards) and sees the ids of B samples of the whole world. Ids arrive in *segments*, one per
//! (source rank, table): the ids of that source's samples, in order. [`BagIndex`] says where each (table, sample)
//! bag starts and how long it is, so that lookup and update never care how ids travelled. [`SortedIds`] groups the
//! same ids by row, in the order of the values buffer. Ids that arrive in global sample order are summed in that order,
//! whatever numbers the index gives their samples; that is what makes the update exact (Neo §5.1) and independent of how
//! many ranks there are.

use crate::memory::Space;
use crate::op::size;
use crate::{Buffer, Device, KernelError, RowMarks, RowStore};
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::table_format::TableFormat;
use std::fs::File;
use std::ops::Range;

/// One table (or shard) and the state that the optimizer keeps beside it.
#[derive(Debug)]
pub struct Table {
    /// Number of rows.
    pub rows: usize,
    /// Number of weights of a row.
    pub dim: usize,
    /// Pooling: how the rows of a bag become one vector.
    pub pooling: Pooling,
    /// Weights, `rows × dim`, in a number format.
    pub weights: RowStore,
    /// Optimizer state, `rows × rule.state_per_row(dim)`: for Adam the first moments of a row, then its second.
    pub state: Buffer<f32>,
    /// Rows that were updated; `None` where nobody asks for them.
    pub updated: Option<RowMarks>,
}

impl Table {
    /// Makes a table of zeros in f32 with the state that `rule` needs. On [`Device::Idle`] a table of any size takes no memory.
    pub fn zeroed(
        device: &Device,
        rows: usize,
        dim: usize,
        pooling: Pooling,
        rule: &UpdateRule,
    ) -> Result<Self, KernelError> {
        Self::in_format(device, TableFormat::F32, [rows, dim], pooling, rule)
    }

    /// As [`Table::zeroed`], with weights in `format`, on a device or in memory that a device reaches by itself.
    pub fn in_format(
        space: impl Into<Space>,
        format: TableFormat,
        [rows, dim]: [usize; 2],
        pooling: Pooling,
        rule: &UpdateRule,
    ) -> Result<Self, KernelError> {
        let space = &space.into();
        let weights = RowStore::zeroed(space, format, [rows, dim])?;
        let state = Buffer::zeroed(space, size([rows, rule.state_per_row(dim)]))?;
        Ok(Self { rows, dim, pooling, weights, state, updated: None })
    }

    /// Makes a table that has a size but neither weights nor state: that of a tensor train, whose rows are computed.
    pub fn without_rows(space: impl Into<Space>, [rows, dim]: [usize; 2], pooling: Pooling) -> Self {
        let space = space.into();
        Self {
            rows,
            dim,
            pooling,
            weights: RowStore::empty(&space, dim),
            state: Buffer::new(&space),
            updated: None,
        }
    }

    /// As [`Table::in_format`], with weights and optimizer state in two new files that are mapped into the memory of the host.
    pub fn mapped(
        [weights, state]: [&File; 2],
        format: TableFormat,
        [rows, dim]: [usize; 2],
        pooling: Pooling,
        rule: &UpdateRule,
    ) -> Result<Self, KernelError> {
        let weights = RowStore::mapped(weights, format, [rows, dim])?;
        let state = Buffer::mapped(state, size([rows, rule.state_per_row(dim)]))?;
        Ok(Self { rows, dim, pooling, weights, state, updated: None })
    }

    /// Makes room for `rows` rows. Those that are there stay, and the values of new ones are unspecified.
    pub fn grow(&mut self, rows: usize) -> Result<(), KernelError> {
        let state = self.state.len() / self.rows.max(1);
        self.weights.resize(rows)?;
        self.state.resize(size([rows, state]))?;
        self.rows = rows;
        Ok(())
    }
}

/// A run of consecutive samples whose ids for one table lie together in the values buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Table that the ids are of, as an index into the tables of the call.
    pub table: usize,
    /// First of the samples, as the index numbers them.
    pub first_sample: usize,
    /// Number of samples.
    pub samples: usize,
    /// Position of the first id in the values buffer.
    pub first_value: usize,
    /// Position of the samples' bag lengths in the lengths buffer; `None` when every bag holds exactly one id.
    pub lengths_at: Option<usize>,
}

/// Positions of all bags: `starts[t·B + s]` in the values buffer, `lengths[t·B + s]` ids long. A bag that no segment covers
/// is empty.
#[derive(Debug)]
pub struct BagIndex {
    /// Number of tables, T.
    pub tables: usize,
    /// Number of samples, B.
    pub samples: usize,
    /// Position of the first value of each bag, T × B.
    pub starts: Buffer<u32>,
    /// Number of ids in each bag, T × B.
    pub lengths: Buffer<u32>,
    /// Where the sorted keys of the bags go, for devices whose memory the host does not read in a step.
    pub(crate) places: KeyPlaces,
}

/// Places of the keys of all bags among sorted ids, table after table.
#[derive(Debug)]
pub(crate) struct KeyPlaces {
    /// Number of ids of each table, T; empty where the backend counts them when it sorts.
    pub counts: Vec<usize>,
    /// Place of the key of each bag's first id, T × B.
    pub firsts: Buffer<u32>,
    /// Whether places ascend with the values, table by table, and no value is in two bags.
    pub ordered: bool,
    /// Whether numbers of ids change from batch to batch.
    pub vary: bool,
}

impl BagIndex {
    /// Makes an index without bags in `space`.
    pub fn new(space: impl Into<Space>) -> Self {
        let space = space.into();
        let places =
            KeyPlaces { counts: Vec::new(), firsts: Buffer::new(&space), ordered: true, vary: false };
        Self { tables: 0, samples: 0, starts: Buffer::new(&space), lengths: Buffer::new(&space), places }
    }

    /// Makes an index of bags that are known on the host, table after table, all tables with the same number of samples. Bags
    /// may overlap.
    ///
    /// ```
    /// use kernels::{BagIndex, Device};
    /// // Two tables, two samples.
    /// let index = BagIndex::from_bags(&Device::Reference, 2, &[0, 1, 2, 5], &[1, 1, 3, 2])?;
    /// assert_eq!((index.tables, index.samples), (2, 2));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn from_bags(
        space: impl Into<Space>,
        tables: usize,
        starts: &[u32],
        lengths: &[u32],
    ) -> Result<Self, KernelError> {
        let mut index = Self::new(space);
        let samples = starts.len() / tables.max(1);
        let (what, expected) = ("bags of the index", size([tables, samples]));
        if let Some(&got) = [starts.len(), lengths.len()].iter().find(|&&got| got != expected) {
            return Err(KernelError::Mismatch { op: "from_bags", what, expected, got });
        }
        index.write(tables, samples, starts, lengths)?;
        Ok(index)
    }

    /// Writes all bags, and places in their order.
    pub(crate) fn write(
        &mut self,
        tables: usize,
        samples: usize,
        starts: &[u32],
        lengths: &[u32],
    ) -> Result<(), KernelError> {
        self.resize(tables, samples)?;
        self.starts.write(0, starts)?;
        self.lengths.write(0, lengths)?;
        let of = |table: usize| lengths[table * samples..][..samples].iter().map(|&length| length as usize);
        let places = &mut self.places;
        places.counts.clear();
        places.counts.extend((0..tables).map(|table| of(table).sum::<usize>()));
        let firsts = lengths.iter().scan(0u32, |next, &length| {
            let first = *next;
            *next = next.wrapping_add(length);
            Some(first)
        });
        places.firsts.resize(lengths.len())?;
        places.firsts.write(0, &firsts.collect::<Vec<_>>())?;
        (places.ordered, places.vary) = (false, true);
        Ok(())
    }

    /// Makes room for the bags of `tables` tables and `samples` samples.
    pub(crate) fn resize(&mut self, tables: usize, samples: usize) -> Result<(), KernelError> {
        let bags = tables.checked_mul(samples).ok_or(KernelError::OutOfMemory { bytes: usize::MAX })?;
        self.starts.resize(bags)?;
        self.lengths.resize(bags)?;
        (self.tables, self.samples) = (tables, samples);
        Ok(())
    }
}

/// Ids of a step grouped by row.
///
/// For each table `t`, `keys[bounds[t]..bounds[t + 1]]` holds `row << 32 | value index`, ascending: equal rows lie
/// together, and inside a row the values keep their order. `samples[value index]` is the sample a value belongs to, as
/// the index numbers them; these numbers need not ascend with the values.
#[derive(Debug)]
pub struct SortedIds {
    /// Keys of all tables, table by table.
    pub keys: Buffer<u64>,
    /// Position of each table's first key, and the end of the last table's keys: T + 1 entries.
    pub bounds: Vec<usize>,
    /// Sample of each value.
    pub samples: Buffer<u32>,
}

impl SortedIds {
    /// Makes an empty value in `space`.
    pub fn new(space: impl Into<Space>) -> Self {
        let space = space.into();
        Self { keys: Buffer::new(&space), bounds: Vec::new(), samples: Buffer::new(&space) }
    }
}

/// Rows of a step that several ids share, and ids that have a row of their own: [`Device::find_repeats`].
#[derive(Debug)]
pub struct Repeats {
    /// Whether the row of each value is of no other value: 1 or 0.
    pub(crate) once: Buffer<u8>,
    /// Table and first key of each row of several ids, in any order; a table in the lower half.
    pub(crate) list: Buffer<u64>,
    /// Number of entries of the list.
    pub(crate) count: Buffer<u32>,
}

impl Repeats {
    /// Makes an empty value in `space`.
    pub fn new(space: impl Into<Space>) -> Self {
        let space = space.into();
        Self { once: Buffer::new(&space), list: Buffer::new(&space), count: Buffer::new(&space) }
    }
}

/// Runs of equal rows in sorted ids: the rows that a step touches in some tables, each once.
///
/// Table `k` of those that were asked for has the runs `bounds[k]..bounds[k + 1]`. Run `i` begins at key `firsts[i]`, counted
/// from the first key of all tables, and ends where the next begins or the keys of its table end.
#[derive(Debug)]
pub struct RowRuns {
    /// Position of each table's first run, and the end of the last table's runs.
    pub bounds: Vec<usize>,
    /// Position of the first key of each run.
    pub firsts: Buffer<u32>,
}

impl RowRuns {
    /// Makes an empty value in `space`.
    pub fn new(space: impl Into<Space>) -> Self {
        Self { bounds: Vec::new(), firsts: Buffer::new(space.into()) }
    }
}

/// Rows of one table that lie together, with a sum of gradients for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPart {
    /// Table, as an index into the tables of the call.
    pub table: usize,
    /// Range of the row numbers.
    pub rows: Range<usize>,
    /// Position of the first float of the first row's sum; the sums of the others follow.
    pub sums: usize,
}
