//! Embedding tables as kernels take them; `kernels/tables.cuh` has the same structs.

use super::Cuda;
use super::memory::Pointer;
use crate::Table;
use crate::op::Result;
use ground::Pooling;
use ground::table_format::TableFormat;

/// Threads of a block.
pub(super) const BLOCK: usize = 256;

/// A table of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
pub(super) struct TableCall {
    weights: u64,
    state: u64,
    rows: u64,
    /// Numbers of the rows in the whole table; null where they are those of the slots.
    names: u64,
    /// Key of the random numbers by which rows are rounded, and the number of row 0 among them.
    key: u64,
    first_row: u64,
    dim: u32,
    /// Floats of state of a row.
    each: u32,
    mean: u32,
    column: u32,
    /// Number of the table among those of the index.
    table: u32,
    /// Threads that have a row: a power of two, at most a warp.
    lanes: u32,
    /// Whether rows are rounded at random, and the number of column 0 among the random numbers.
    random: u32,
    first_column: u32,
}

impl TableCall {
    /// Table `number` of the rank, with vectors from `column` on and `each` floats of state for a row.
    pub(super) fn new(table: &Table, number: usize, column: usize, each: usize) -> Self {
        let random = table.weights.random();
        Self {
            weights: table.weights.card_address().0,
            state: table.state.card_address().0,
            rows: table.rows as u64,
            names: table.weights.names().map_or(0, |names| names.card_address().0),
            key: random.map_or(0, |random| random.sequence.key()),
            first_row: random.map_or(0, |random| random.first_row as u64),
            dim: table.dim as u32,
            each: each as u32,
            mean: (table.pooling == Pooling::Mean).into(),
            column: column as u32,
            table: number as u32,
            lanes: lanes(table.dim) as u32,
            random: random.is_some().into(),
            first_column: random.map_or(0, |random| random.first_column as u32),
        }
    }

    /// Number of the table among those of the index.
    pub(super) fn number(&self) -> usize {
        self.table as usize
    }

    /// Whether updates round rows at random, by the number of the step.
    pub(super) fn rounds_at_random(&self) -> bool {
        self.random != 0
    }

    /// Floats of a row.
    pub(super) fn dim(&self) -> usize {
        self.dim as usize
    }

    /// Blocks that `count` groups of threads need, one for each row or bag.
    fn blocks(&self, count: usize) -> usize {
        count.div_ceil(BLOCK / self.lanes as usize)
    }
}

/// Threads that have a row of `dim` floats: a thread has four floats at a time.
pub(super) fn lanes(dim: usize) -> usize {
    dim.div_ceil(4).next_power_of_two().clamp(1, 32)
}

/// Grid in which table `y` of a call has blocks for `count` rows or bags.
pub(super) fn grid(calls: &[TableCall], counts: impl Iterator<Item = usize>) -> [usize; 3] {
    let blocks = calls.iter().zip(counts).map(|(call, count)| call.blocks(count));
    [blocks.max().unwrap_or(0), calls.len(), 1]
}

/// The formats of some tables, each with the tables that have it: kernels are of one format, which f32 tables do not pay for.
pub(super) fn by_format(
    tables: &[Table],
    which: impl Iterator<Item = usize> + Clone,
) -> impl Iterator<Item = (TableFormat, Vec<usize>)> {
    let of = move |format| -> Vec<usize> {
        which.clone().filter(|&t| tables[t].weights.format() == format).collect()
    };
    TableFormat::ALL.into_iter().map(move |format| (format, of(format))).filter(|(_, some)| !some.is_empty())
}

/// The one of these kernels that is for a format; in the order of [`TableFormat::ALL`].
pub(super) fn of_format<T>(format: TableFormat, kernels: [T; 4]) -> T {
    let [f32, f16, bf16, int8] = kernels;
    match format {
        TableFormat::F32 => f32,
        TableFormat::F16 => f16,
        TableFormat::Bf16 => bf16,
        TableFormat::Int8 => int8,
    }
}

/// Part of an array that belongs to one table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::NoUninit)]
pub(super) struct Span {
    /// First element.
    pub(super) first: u32,
    /// Number of elements.
    pub(super) count: u32,
    /// Number of tiles before those of the part.
    pub(super) tile: u32,
    pub(super) other: u32,
}

/// Parts of the given bounds, cut into tiles of `tile` elements.
pub(super) fn spans(bounds: impl Iterator<Item = (usize, usize)>, tile: usize) -> Vec<Span> {
    let mut tiles = 0;
    let span = |(first, end): (usize, usize)| {
        let count = end - first;
        let before = tiles;
        tiles += count.div_ceil(tile);
        Span { first: first as u32, count: count as u32, tile: before as u32, other: 0 }
    };
    bounds.map(span).collect()
}

/// Tiles of all parts, and the most of one part.
pub(super) fn tiles(spans: &[Span], tile: usize) -> (usize, usize) {
    let of = |span: &Span| (span.count as usize).div_ceil(tile);
    (spans.iter().map(of).sum(), spans.iter().map(of).max().unwrap_or(0))
}

impl Cuda {
    /// Device copy of an array that either changes from step to step or repeats.
    pub(super) fn array<T: bytemuck::NoUninit>(&self, changes: bool, array: &[T]) -> Result<Pointer> {
        if changes { self.transient(array) } else { self.constant(array) }
    }
}
