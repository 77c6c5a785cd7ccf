//! Rows that a step touches, one row at a time.

use super::optimizer::update_row;
use super::weights;
use crate::op::need;
use crate::row_marks::mark;
use crate::{
    Buffer, CollectRows, KernelError, RowPart, RowRuns, SortedIds, SpreadRows, SumRows, Table, UpdateRows,
};
use ground::Pooling;
use std::ops::Range;

/// Runs of equal rows among the keys of the tables `which`, and the row of each.
pub fn find_runs(
    which: &[usize],
    sorted: &SortedIds,
    runs: &mut RowRuns,
    rows: &mut Buffer<u32>,
) -> Result<(), KernelError> {
    let keys = sorted.keys.host();
    // Every key may be a run of its own.
    let most = which.iter().map(|&t| sorted.bounds[t + 1] - sorted.bounds[t]).sum();
    runs.firsts.resize(most)?;
    rows.resize(most)?;
    runs.bounds.clear();
    runs.bounds.push(0);
    let mut count = 0;
    for &t in which {
        let mut before = None;
        let range = sorted.bounds[t]..sorted.bounds[t + 1];
        for (at, key) in range.clone().zip(&keys[range]) {
            let row = (key >> 32) as u32;
            if before != Some(row) {
                runs.firsts.host_mut()[count] = at as u32;
                rows.host_mut()[count] = row;
                count += 1;
                before = Some(row);
            }
        }
        runs.bounds.push(count);
    }
    runs.firsts.resize(count)?;
    rows.resize(count)
}

/// Marks the rows of the keys of the tables `which`, where marks are kept.
pub fn mark_sorted(tables: &mut [Table], which: Range<usize>, sorted: &SortedIds) {
    let keys = sorted.keys.host();
    for t in which {
        if let Some(marks) = &mut tables[t].updated {
            let rows = keys[sorted.bounds[t]..sorted.bounds[t + 1]].iter().map(|key| (key >> 32) as u32);
            mark(marks.bits.host_mut(), tables[t].rows, rows);
        }
    }
}

/// Marks the rows of parts, where marks are kept.
pub fn mark_parts(tables: &mut [Table], parts: &[RowPart], rows: &Buffer<u32>) {
    for part in parts {
        let table = &mut tables[part.table];
        if let Some(marks) = &mut table.updated {
            mark(marks.bits.host_mut(), table.rows, rows.host()[part.rows.clone()].iter().copied());
        }
    }
}

/// Keys of run `i`, which is one of table `t`, the table `k` of the runs.
pub(crate) fn keys_of(runs: &RowRuns, sorted: &SortedIds, k: usize, t: usize, i: usize) -> Range<usize> {
    let firsts = runs.firsts.host();
    let end = if i + 1 < runs.bounds[k + 1] { firsts[i + 1] as usize } else { sorted.bounds[t + 1] };
    firsts[i] as usize..end
}

/// Refuses runs whose keys do not exist, or name no value, sample of the index or row of `dout`.
pub(crate) fn check_runs(args: &SumRows, k: usize, runs: Range<usize>) -> Result<(), KernelError> {
    let SumRows { sorted, index, width, dout, .. } = args;
    let (keys, samples, t) = (sorted.keys.host(), sorted.samples.host(), args.which[k]);
    for i in runs {
        let range = keys_of(args.runs, sorted, k, t, i);
        need("sum_rows", "keys of a run", range.start, range.end)?;
        need("sum_rows", "sorted keys", range.end, keys.len())?;
        for &key in &keys[range] {
            let value = key as u32 as usize;
            need("sum_rows", "sorted samples", value + 1, samples.len())?;
            let sample = samples[value] as usize;
            need("sum_rows", "samples of the index", sample + 1, index.samples)?;
            need("sum_rows", "dout", (sample + 1).saturating_mul(*width), dout.len())?;
        }
    }
    Ok(())
}

/// Sum of each run: `0 + Σ scale·dout[sample, columns[t]..]` in the order of its keys.
pub fn sum_rows(args: SumRows) -> Result<(), KernelError> {
    let SumRows { tables, which, columns, width, index, sorted, runs, .. } = args;
    for k in 0..which.len() {
        check_runs(&args, k, runs.bounds[k]..runs.bounds[k + 1])?;
    }
    let (weights, dout) = (args.weights.map(|weights| weights.host()), args.dout.host());
    let mut sums = Vec::new();
    for (k, &t) in which.iter().enumerate() {
        for i in runs.bounds[k]..runs.bounds[k + 1] {
            let mut sum = vec![0.0; tables[t].dim];
            for &key in &sorted.keys.host()[keys_of(runs, sorted, k, t, i)] {
                let value = key as u32 as usize;
                let sample = sorted.samples.host()[value] as usize;
                let length = index.lengths.host()[t * index.samples + sample] as f32;
                let weight = weights.map_or(1.0, |w| w[value]);
                let scale = if tables[t].pooling == Pooling::Mean { weight / length } else { weight };
                for (d, sum) in sum.iter_mut().enumerate() {
                    *sum += scale * dout[sample * width + columns[t] + d];
                }
            }
            sums.extend(sum);
        }
    }
    args.sums.resize(sums.len())?;
    args.sums.write(0, &sums)
}

/// Sums of rows, each at its place, and 1 for each row that has one.
pub fn spread_rows(args: SpreadRows) -> Result<(), KernelError> {
    let SpreadRows { tables, which, runs, rows, sums, vector } = args;
    let (rows, sums) = (rows.host(), sums.host());
    for (&t, of) in which.iter().zip(runs.bounds.windows(2)) {
        if let Some(&id) = rows[of[0]..of[1]].iter().find(|&&row| row as usize >= tables[t].rows) {
            return Err(KernelError::IdOutOfRange { table: t, id, rows: tables[t].rows });
        }
    }
    vector.resize(which.iter().map(|&t| tables[t].rows * (tables[t].dim + 1)).sum())?;
    let vector = vector.host_mut();
    vector.fill(0.0);
    let (mut at, mut from) = (0, 0);
    for (&t, of) in which.iter().zip(runs.bounds.windows(2)) {
        let Table { rows: count, dim, .. } = tables[t];
        for &row in &rows[of[0]..of[1]] {
            let row = row as usize;
            vector[at + row * dim..][..dim].copy_from_slice(&sums[from..from + dim]);
            vector[at + count * dim + row] = 1.0;
            from += dim;
        }
        at += count * (dim + 1);
    }
    Ok(())
}

/// Rows that the numbers behind the sums of their table say were touched, with their sums.
pub fn collect_rows(args: CollectRows) -> Result<(), KernelError> {
    let CollectRows { tables, which, vector, parts, rows, sums } = args;
    let vector = vector.host();
    parts.clear();
    // Every row may be touched.
    rows.resize(which.iter().map(|&t| tables[t].rows).sum())?;
    sums.resize(which.iter().map(|&t| tables[t].rows * tables[t].dim).sum())?;
    let (mut at, mut row_count, mut float_count) = (0, 0, 0);
    for &table in which {
        let Table { rows: all, dim, .. } = tables[table];
        let first = (row_count, float_count);
        for row in 0..all {
            if vector[at + all * dim + row] > 0.0 {
                rows.host_mut()[row_count] = row as u32;
                sums.host_mut()[float_count..][..dim].copy_from_slice(&vector[at + row * dim..][..dim]);
                (row_count, float_count) = (row_count + 1, float_count + dim);
            }
        }
        parts.push(RowPart { table, rows: first.0..row_count, sums: first.1 });
        at += all * (dim + 1);
    }
    rows.resize(row_count)?;
    sums.resize(float_count)
}

/// Refuses rows of parts that are past the end of their table.
pub(crate) fn check_rows(tables: &[Table], parts: &[RowPart], rows: &[u32]) -> Result<(), KernelError> {
    for part in parts {
        let RowPart { table, .. } = *part;
        let past = |&&row: &&u32| row as usize >= tables[table].rows;
        if let Some(&id) = rows[part.rows.clone()].iter().find(past) {
            return Err(KernelError::IdOutOfRange { table, id, rows: tables[table].rows });
        }
    }
    Ok(())
}

/// One update of every row that a part names, with `0 + Σ` of its sums in the order of the parts.
pub fn update_rows(args: UpdateRows) -> Result<(), KernelError> {
    let UpdateRows { tables, parts, rows, sums, update, .. } = args;
    let (rows, sums) = (rows.host(), sums.host());
    check_rows(tables, parts, rows)?;
    for parts in parts.chunk_by(|a, b| a.table == b.table) {
        let table = &mut tables[parts[0].table];
        let (dim, each) = (table.dim, update.rule.state_per_row(table.dim));
        for row in 0..table.rows {
            let mut g = vec![0.0; dim];
            let mut touched = false;
            for part in parts {
                for (i, &of) in rows[part.rows.clone()].iter().enumerate() {
                    if of as usize == row {
                        let sum = &sums[part.sums + i * dim..][..dim];
                        g.iter_mut().zip(sum).for_each(|(g, sum)| *g += sum);
                        touched = true;
                    }
                }
            }
            if touched {
                let state = &mut table.state.host_mut()[row * each..][..each];
                weights::change_row(&mut table.weights, row, dim, update.step, |w| {
                    update_row(update, w, &mut g, state);
                });
            }
        }
    }
    Ok(())
}
