//! Marks of updated rows: `kernels/marks.cu`.

use super::Cuda;
use super::tables::BLOCK;
use crate::op::Result;
use crate::{BagIndex, Buffer, RowPart, SortedIds, Table};
use std::ops::Range;

/// Rows of one table to be marked; `kernels/marks.cu` has the same struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
struct Marked {
    bits: u64,
    /// Number of rows of the table.
    rows: u64,
    /// First of the keys or row numbers, and how many there are.
    first: u32,
    count: u32,
}

impl Marked {
    fn of(table: &Table, part: Range<usize>) -> Option<Self> {
        let bits = table.updated.as_ref()?.bits.card_address().0;
        let (first, count) = (part.start as u32, part.len() as u32);
        (count > 0).then_some(Self { bits, rows: table.rows as u64, first, count })
    }
}

pub(super) fn mark_sorted(
    cuda: &Cuda,
    tables: &mut [Table],
    which: Range<usize>,
    (index, sorted): (&BagIndex, &SortedIds),
) -> Result {
    let of = |t: usize| Marked::of(&tables[t], sorted.bounds[t]..sorted.bounds[t + 1]);
    let marked: Vec<_> = which.filter_map(of).collect();
    let Some(grid) = grid(&marked) else { return Ok(()) };
    let marked = cuda.array(index.places.vary, &marked)?;
    cuda.kernel("mark_sorted").grid3(grid).arg(marked).arg(&sorted.keys).launch()
}

pub(super) fn mark_parts(cuda: &Cuda, tables: &mut [Table], parts: &[RowPart], rows: &Buffer<u32>) -> Result {
    let of = |part: &RowPart| Marked::of(&tables[part.table], part.rows.clone());
    let marked: Vec<_> = parts.iter().filter_map(of).collect();
    let Some(grid) = grid(&marked) else { return Ok(()) };
    let marked = cuda.transient(&marked)?;
    cuda.kernel("mark_parts").grid3(grid).arg(marked).arg(rows).launch()
}

/// Blocks for the longest part, and a row of them for each part; `None` where there is nothing to mark.
fn grid(marked: &[Marked]) -> Option<[usize; 3]> {
    let longest = marked.iter().map(|part| part.count as usize).max()?;
    Some([longest.div_ceil(BLOCK), marked.len(), 1])
}
