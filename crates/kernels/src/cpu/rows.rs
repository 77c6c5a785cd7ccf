//! Rows that a step touches: sums of their gradients, and updates by sums of several copies.
//!
//! Threads divide the runs of a sum, and the keys of an update: `row << 32 | place of the sum`, sorted, so that the sums of a
//! row lie together in the order of their parts. A row belongs to the piece in which its keys begin.
#![allow(unsafe_code)]

use super::Cpu;
use super::level::{prefetch, prefetch_for_write};
use super::optimizer::row::change;
use super::shared::Shared;
use super::update::{RowUpdate, prefetch_row};
use crate::reference::rows::{check_rows, check_runs, keys_of};
use crate::{KernelError, RowPart, SumRows, Table, UpdateRows};
use ground::Pooling;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows or keys that are worth a piece of their own.
const GRAIN: usize = 256;
/// Bytes of rows on their way at a time.
const AHEAD: usize = 4096;

pub(crate) fn sum_rows(cpu: &Cpu, args: SumRows) -> Result<(), KernelError> {
    let (which, bounds) = (args.which, &args.runs.bounds);
    let total = bounds[which.len()];
    // The runs of table k in a range of all runs.
    let part = |k: usize, range: &Range<usize>| bounds[k].max(range.start)..bounds[k + 1].min(range.end);
    let refused = AtomicBool::new(false);
    cpu.divide(total, GRAIN, &|_, range| {
        let wrong =
            |k| part(k, &range).start < part(k, &range).end && check_runs(&args, k, part(k, &range)).is_err();
        if (0..which.len()).any(wrong) {
            refused.store(true, Ordering::Relaxed);
        }
    });
    if refused.into_inner() {
        return (0..which.len()).try_for_each(|k| check_runs(&args, k, bounds[k]..bounds[k + 1]));
    }
    let floats = |k: usize| (bounds[k + 1] - bounds[k]) * args.tables[which[k]].dim;
    args.sums.resize((0..which.len()).map(floats).sum())?;
    // All pieces share the arguments, but for the sums.
    let mut taken = args.sums.take();
    let sums = Shared::new(taken.host_mut());
    let shared = &args;
    cpu.divide_finely(total, GRAIN, &|_, range| {
        let mut first = 0;
        for (k, &t) in which.iter().enumerate() {
            let (runs, dim) = (part(k, &range), shared.tables[t].dim);
            if runs.start < runs.end {
                let at = first + (runs.start - bounds[k]) * dim;
                // SAFETY: pieces have different runs, and every run has floats of its own.
                let sums = unsafe { sums.piece(at..at + runs.len() * dim) };
                cpu.level.run(
                    #[inline(always)]
                    || sum_runs(shared, k, runs, sums),
                );
            }
            first += floats(k);
        }
    });
    *args.sums = taken;
    Ok(())
}

/// Sums of some runs of table `k` of the runs.
#[inline(always)]
fn sum_runs(args: &SumRows, k: usize, runs: Range<usize>, sums: &mut [f32]) {
    let SumRows { index, sorted, width, .. } = *args;
    let (t, dout) = (args.which[k], args.dout.host());
    let (table, column) = (&args.tables[t], args.columns[t]);
    let (keys, samples) = (sorted.keys.host(), sorted.samples.host());
    let weights = args.weights.map(|weights| weights.host());
    let lengths = &index.lengths.host()[t * index.samples..];
    for (sum, i) in sums.chunks_exact_mut(table.dim.max(1)).zip(runs) {
        sum.fill(0.0);
        for &key in &keys[keys_of(args.runs, sorted, k, t, i)] {
            let value = key as u32 as usize;
            let sample = samples[value] as usize;
            let weight = weights.map_or(1.0, |weights| weights[value]);
            let scale = match table.pooling {
                Pooling::Sum => weight,
                Pooling::Mean => weight / lengths[sample] as f32,
            };
            let g = &dout[sample * width + column..][..sum.len()];
            change(
                sum,
                [g],
                #[inline(always)]
                |sum, [g]| sum + scale * g,
            );
        }
    }
}

/// Parts of one table, and where its keys are.
struct Keys<'a> {
    parts: &'a [RowPart],
    range: Range<usize>,
}

pub(crate) fn update_rows(cpu: &Cpu, args: UpdateRows) -> Result<(), KernelError> {
    let UpdateRows { tables, parts, rows, sums, keys, update } = args;
    let (tables, rows, sums) = (&*tables, rows.host(), sums.host());
    check_rows(tables, parts, rows)?;
    let total = parts.iter().map(|part| part.rows.len()).sum();
    keys.resize(total)?;
    let of_tables = || {
        parts.chunk_by(|a, b| a.table == b.table).scan(0, |end, parts| {
            let begin = *end;
            *end += parts.iter().map(|part| part.rows.len()).sum::<usize>();
            Some(Keys { parts, range: begin..*end })
        })
    };
    let count = of_tables().count();
    let shared = Shared::new(keys.host_mut());
    cpu.divide_finely(count, 1, &|_, which| {
        for Keys { parts, range } in of_tables().skip(which.start).take(which.len()) {
            // SAFETY: the keys of different tables do not overlap.
            sort_keys(parts, tables[parts[0].table].dim, rows, unsafe { shared.piece(range) });
        }
    });
    let widest = tables.iter().map(|table| table.dim).max().unwrap_or(0);
    let mut ready = Ok(());
    for piece in 0..cpu.scratch.len() {
        ready = ready.and(cpu.scratch(piece, 2 * widest * size_of::<f32>()).map(drop));
    }
    ready?;
    let (keys, update) = (keys.host(), Sums { sums, rows: RowUpdate::new(cpu, update) });
    cpu.divide_finely(total, GRAIN, &|piece, range| {
        let mut scratch = cpu.scratch(piece, 2 * widest * size_of::<f32>()).expect("asked for above");
        for Keys { parts, range: all } in of_tables() {
            let here = all.start.max(range.start)..all.end.min(range.end);
            let table = &tables[parts[0].table];
            if here.start < here.end {
                let (g, room) = scratch.of::<f32>()[..2 * table.dim].split_at_mut(table.dim);
                let range = here.start - all.start..here.end - all.start;
                cpu.level.run(
                    #[inline(always)]
                    || update.runs(table, &keys[all], range, (g, room)),
                );
            }
        }
    });
    Ok(())
}

/// Keys of all rows of one table's parts, in order.
fn sort_keys(parts: &[RowPart], dim: usize, rows: &[u32], keys: &mut [u64]) {
    let mut at = 0;
    for part in parts {
        for (i, &row) in rows[part.rows.clone()].iter().enumerate() {
            keys[at] = u64::from(row) << 32 | (part.sums + i * dim) as u64;
            at += 1;
        }
    }
    if !keys.is_sorted() {
        keys.sort_unstable();
    }
}

/// Sums of rows, and the update of a row by its sum.
struct Sums<'a> {
    sums: &'a [f32],
    rows: RowUpdate,
}

impl Sums<'_> {
    /// Updates the rows whose keys begin in `range`, a part of the sorted `keys` of a table.
    #[inline(always)]
    fn runs(&self, table: &Table, keys: &[u64], range: Range<usize>, (g, room): (&mut [f32], &mut [f32])) {
        let update = &self.rows.update;
        let (dim, each) = (table.dim, update.rule.state_per_row(table.dim));
        let ahead = (AHEAD / (4 * dim.max(1))).clamp(2, 32);
        let row_of = |at: usize| (keys[at] >> 32) as usize;
        let mut at = range.start;
        while at > 0 && at < keys.len() && row_of(at) == row_of(at - 1) {
            // A row whose keys began before belongs to the piece before.
            at += 1;
        }
        while at < range.end {
            let row = row_of(at);
            g.fill(0.0);
            while at < keys.len() && row_of(at) == row {
                if let Some(&next) = keys.get(at + ahead) {
                    prefetch(self.sums, next as u32 as usize, dim);
                    let row = (next >> 32) as usize;
                    prefetch_row(table, row, dim);
                    prefetch_for_write(table.state.address(), row * each, each);
                }
                let sum = &self.sums[keys[at] as u32 as usize..][..dim];
                change(
                    g,
                    [sum],
                    #[inline(always)]
                    |g, [sum]| g + sum,
                );
                at += 1;
            }
            if update.changes_gradients() {
                g.iter_mut().for_each(|g| *g = update.changed(*g));
            }
            // SAFETY: `update_rows` borrows the tables exclusively, keys are sorted, so all keys of this row lie together and no other
            // piece touches the row.
            unsafe { self.rows.apply((table, row), [dim, each], g, room) };
        }
    }
}
