//! Pooled lookups: `kernels/lookup.cu`.

use super::Cuda;
use super::operand::Values;
use super::product::Form;
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
    let out = Values::of(out, width);
    let kernel = match out.form {
        Form::F32 => "lookup",
        Form::Bf16 => "lookup_to_bf16",
    };
    cuda.kernel(kernel)
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
        .arg(out.at)
        .arg(out.stride())
        .arg(cuda.faults())
        .launch()
}
