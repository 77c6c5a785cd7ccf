//! Pooled lookups: `kernels/lookup.cu`.

use super::Cuda;
use super::operand::Values;
use super::product::Form;
use super::tables::{TableCall, by_format, grid, of_format};
use crate::Lookup;
use crate::op::Result;

/// Bags of a group of threads.
const BAGS: usize = 4;

pub(super) fn lookup(cuda: &Cuda, args: Lookup) -> Result {
    let Lookup { tables, which, columns, width, index, samples, values, weights, out } = args;
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_values(values.len());
    let groups = samples.len().div_ceil(BAGS);
    let out = Values::of(out, width);
    let kernels = match out.form {
        Form::F32 => ["lookup", "lookup_f16", "lookup_bf16", "lookup_int8"],
        Form::Bf16 => ["lookup_to_bf16", "lookup_to_bf16_f16", "lookup_to_bf16_bf16", "lookup_to_bf16_int8"],
    };
    by_format(tables, which).try_for_each(|(format, which)| {
        let call = |t: usize| TableCall::new(&tables[t], t, columns[t], 0);
        let calls: Vec<_> = which.into_iter().map(call).collect();
        cuda.kernel(of_format(format, kernels))
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
    })
}
