//! Pooled lookups: `kernels/lookup.cu`.

use super::Cuda;
use super::tables::{TableCall, grid};
use crate::Lookup;
use crate::op::Result;

/// Bags of a group of threads.
const BAGS: usize = 4;

pub(super) fn lookup(cuda: &Cuda, args: Lookup) -> Result {
    let Lookup { tables, which, columns, width, index, samples, values, weights, out } = args;
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_values(values.len());
    let calls: Vec<_> = which.map(|t| TableCall::new(&tables[t], t, columns[t], 0)).collect();
    let groups = samples.len().div_ceil(BAGS);
    cuda.kernel("lookup")
        .grid3(grid(&calls, std::iter::repeat(groups)))
        .arg(cuda.constant(&calls)?)
        .arg(&index.starts)
        .arg(&index.lengths)
        .arg(index.samples)
        .arg(samples.start)
        .arg(samples.len())
        .arg(values)
        .arg(values.len())
        .arg(weights)
        .arg(out)
        .arg(width)
        .arg(cuda.faults())
        .launch()
}
