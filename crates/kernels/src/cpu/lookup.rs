//! Pooled rows of all tables: `out[s, t] = Σᵢ weightᵢ·row(idᵢ)`.
//!
//! Rows lie anywhere in tables far larger than the caches, so they are asked for several ids ahead of their use. The ids
//! of neighbouring samples lie side by side in the values buffer: looking ahead there needs no index.
#![allow(unsafe_code)]

use super::Cpu;
use super::level::prefetch;
use super::shared::Shared;
use crate::embedding::{BagIndex, Table};
use crate::error::need;
use crate::{KernelError, reference};
use spec::Pooling;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Samples for which all tables are looked up before the next ones: their part of `out` stays near.
const SAMPLES: usize = 256;
/// Bytes of rows on their way at a time.
const AHEAD: usize = 4096;

pub(crate) fn lookup(
    cpu: &Cpu,
    tables: &[Table],
    which: Range<usize>,
    columns: &[usize],
    width: usize,
    index: &BagIndex,
    samples: Range<usize>,
    values: &[u32],
    weights: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    for table in &tables[which.clone()] {
        need("lookup", "table weights", table.rows * table.dim, table.weights.len())?;
    }
    let (starts, lengths) = (index.starts.host(), index.lengths.host());
    let bags = |t: usize, range: &Range<usize>| {
        let at = t * index.samples + samples.start;
        (&starts[at + range.start..at + range.end], &lengths[at + range.start..at + range.end])
    };
    let refused = AtomicBool::new(false);
    cpu.divide(samples.len(), SAMPLES, &|_, range| {
        for t in which.clone() {
            let (starts, lengths) = bags(t, &range);
            if !all_in_range(cpu, starts, lengths, values, tables[t].rows) {
                refused.store(true, Ordering::Relaxed);
            }
        }
    });
    if refused.into_inner() {
        // The reference finds the id at fault before it writes anything.
        return reference::lookup(tables, which, columns, width, index, samples, values, weights, out);
    }
    let out = Shared::new(out);
    cpu.divide_finely(samples.len(), SAMPLES, &|_, range| {
        for first in range.clone().step_by(SAMPLES) {
            let range = first..(first + SAMPLES).min(range.end);
            for t in which.clone() {
                let (starts, lengths) = bags(t, &range);
                cpu.level.run(
                    #[inline(always)]
                    || {
                        let from = range.start * width + columns[t];
                        let row_of = |s: usize| {
                            let at = from + s * width;
                            // SAFETY: no two pieces share a sample.
                            unsafe { out.piece(at..at + tables[t].dim) }
                        };
                        match tables[t].dim {
                            16 => pool::<16>(&tables[t], starts, lengths, values, weights, row_of),
                            32 => pool::<32>(&tables[t], starts, lengths, values, weights, row_of),
                            64 => pool::<64>(&tables[t], starts, lengths, values, weights, row_of),
                            128 => pool::<128>(&tables[t], starts, lengths, values, weights, row_of),
                            _ => pool::<0>(&tables[t], starts, lengths, values, weights, row_of),
                        }
                    },
                );
            }
        }
    });
    Ok(())
}

/// Whether every id of these bags is a row, and every bag inside `values`.
fn all_in_range(cpu: &Cpu, starts: &[u32], lengths: &[u32], values: &[u32], rows: usize) -> bool {
    let Some(last) = rows.checked_sub(1) else { return lengths.iter().all(|&length| length == 0) };
    // Bags that follow each other are looked at as one.
    let mut run = 0..0;
    let check = |run: Range<usize>| {
        cpu.level.run(
            #[inline(always)]
            || {
                values
                    .get(run)
                    .is_some_and(|ids| ids.iter().fold(0, |most, &id| most.max(id)) as usize <= last)
            },
        )
    };
    for (&start, &length) in starts.iter().zip(lengths) {
        let (start, length) = (start as usize, length as usize);
        if start != run.end {
            if !check(run) {
                return false;
            }
            run = start..start;
        }
        run.end += length;
    }
    check(run)
}

/// The bags of one table. `DIM` is its dimension where that is known, else 0.
#[inline(always)]
fn pool<'a, const DIM: usize>(
    table: &Table,
    starts: &[u32],
    lengths: &[u32],
    values: &[u32],
    weights: Option<&[f32]>,
    out: impl Fn(usize) -> &'a mut [f32],
) {
    let dim = if DIM == 0 { table.dim } else { DIM };
    let rows = table.weights.host();
    let ahead = (AHEAD / (4 * dim.max(1))).clamp(2, 32);
    for (s, (&start, &length)) in starts.iter().zip(lengths).enumerate() {
        let bag = start as usize..start as usize + length as usize;
        let out = &mut out(s)[..dim];
        if bag.is_empty() {
            out.fill(0.0);
        }
        for value in bag.clone() {
            if let Some(&next) = values.get(value + 3 * ahead) {
                // One line early brings the address translation.
                prefetch(rows, next as usize * dim, 1);
            }
            if let Some(&next) = values.get(value + ahead) {
                prefetch(rows, next as usize * dim, dim);
            }
            let row = &rows[values[value] as usize * dim..][..dim];
            // Times one is exact.
            let weight = weights.map_or(1.0, |weights| weights[value]);
            if value == bag.start {
                out.iter_mut().zip(row).for_each(|(out, row)| *out = weight * row);
            } else {
                out.iter_mut().zip(row).for_each(|(out, row)| *out += weight * row);
            }
        }
        if table.pooling == Pooling::Mean && length > 1 {
            out.iter_mut().for_each(|out| *out /= length as f32);
        }
    }
}
