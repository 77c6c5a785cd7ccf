//! Backward and optimizer of many tables: for each row, `g = Σ scale·dout[sample]` in the order of its keys, then one
//! update.
//!
//! Sorted keys make a row's samples a *run*. Threads divide the keys; a run belongs to the piece in which it begins, so
//! that each row is summed and written by one thread.
#![allow(unsafe_code)]

use super::Cpu;
use super::halves::decode_row;
use super::level::{Level, prefetch, prefetch_for_write};
use super::optimizer::Rule;
use super::optimizer::row::change;
use crate::half_float;
use crate::int8_row;
use crate::reference::embedding::check_sorted;
use crate::row_store::StoredRows;
use crate::{BagIndex, KernelError, SortedIds, Table, UpdateTables};
use ground::Pooling;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys that are worth a piece of their own.
const GRAIN: usize = 512;
/// Bytes of rows on their way at a time.
const AHEAD: usize = 4096;

/// Arguments of an update that all pieces share.
struct Update<'a> {
    columns: &'a [usize],
    width: usize,
    index: &'a BagIndex,
    sorted: &'a SortedIds,
    weights: Option<&'a [f32]>,
    dout: &'a [f32],
    rows: RowUpdate,
}

pub(crate) fn update_tables(cpu: &Cpu, args: UpdateTables) -> Result<(), KernelError> {
    let UpdateTables { tables, which, columns, width, index, sorted, .. } = args;
    let tables = &*tables;
    let bounds = &sorted.bounds;
    let (first, last) = (bounds[which.start], bounds[which.end]);
    // First the bounds, then the keys between them.
    check_sorted(tables, which.clone(), index, sorted, first..first)?;
    let total = last - first;
    let refused = AtomicBool::new(false);
    cpu.divide(total, GRAIN, &|_, range| {
        let range = first + range.start..first + range.end;
        let sure = cpu.level.run(
            #[inline(always)]
            || surely_sorted(tables, which.clone(), index, sorted, range.clone()),
        );
        if !sure && check_sorted(tables, which.clone(), index, sorted, range).is_err() {
            refused.store(true, Ordering::Relaxed);
        }
    });
    if refused.into_inner() {
        return check_sorted(tables, which, index, sorted, first..last);
    }
    let widest = tables[which.clone()].iter().map(|table| table.dim).max().unwrap_or(0);
    let mut ready = Ok(());
    for piece in 0..cpu.scratch.len() {
        ready = ready.and(cpu.scratch(piece, 2 * widest * size_of::<f32>()).map(drop));
    }
    ready?;
    let (weights, dout) = (args.weights.map(|weights| weights.host()), args.dout.host());
    let update =
        Update { columns, width, index, sorted, weights, dout, rows: RowUpdate::new(cpu, args.update) };
    cpu.divide_finely(total, GRAIN, &|piece, range| {
        let mut scratch = cpu.scratch(piece, 2 * widest * size_of::<f32>()).expect("asked for above");
        let range = first + range.start..first + range.end;
        for t in which.clone() {
            let table = &tables[t];
            let keys = bounds[t].max(range.start)..bounds[t + 1].min(range.end);
            if keys.is_empty() {
                continue;
            }
            let (sum, room) = scratch.of::<f32>()[..2 * table.dim].split_at_mut(table.dim);
            update.update((t, table), keys, (sum, room));
        }
    });
    Ok(())
}

/// Whether the keys in `range` are certainly those that [`check_sorted`] accepts; it decides where this is false. Keys that
/// ascend have the largest row last, and all samples between the first and the last value are looked at, in their order: no key needs
/// its sample.
#[inline(always)]
fn surely_sorted(
    tables: &[Table],
    which: Range<usize>,
    index: &BagIndex,
    sorted: &SortedIds,
    range: Range<usize>,
) -> bool {
    let (keys, samples) = (sorted.keys.host(), sorted.samples.host());
    let (mut first, mut last) = (u32::MAX, 0);
    let mut right = true;
    for t in which {
        let part = sorted.bounds[t].max(range.start)..sorted.bounds[t + 1].min(range.end);
        if part.is_empty() {
            continue;
        }
        let from = part.start.saturating_sub(1).max(sorted.bounds[t]);
        let inside = &keys[from..part.end];
        right &= inside.iter().zip(&inside[1..]).fold(true, |right, (before, key)| right & (before <= key));
        right &= (keys[part.end - 1] >> 32) < tables[t].rows as u64;
        for &key in &keys[part] {
            (first, last) = (first.min(key as u32), last.max(key as u32));
        }
    }
    // Without keys, no sample is asked for.
    let most = |samples: &[u32]| samples.iter().fold(0, |most, &sample| most.max(sample)) as usize;
    let named = || samples.get(first as usize..=last as usize);
    right && (first > last || named().is_some_and(|samples| most(samples) < index.samples))
}

impl Update<'_> {
    /// Updates the rows whose runs begin in `range`, a part of the keys of table `t`.
    fn update(&self, table: (usize, &Table), range: Range<usize>, room: (&mut [f32], &mut [f32])) {
        match (self.rows.level, table.1.dim) {
            (Level::Portable, _) => self.runs_at::<0>(table, range, room),
            (_, 8) => self.vector_runs_at::<8>(table, range, room),
            (_, 16) => self.vector_runs_at::<16>(table, range, room),
            (_, 32) => self.vector_runs_at::<32>(table, range, room),
            (_, 64) => self.vector_runs_at::<64>(table, range, room),
            (_, 128) => self.vector_runs_at::<128>(table, range, room),
            _ => self.runs_at::<0>(table, range, room),
        }
    }

    /// One function for each length and level: all of them in one would take the compiler minutes.
    fn vector_runs_at<const DIM: usize>(
        &self,
        table: (usize, &Table),
        range: Range<usize>,
        room: (&mut [f32], &mut [f32]),
    ) {
        self.rows.level.run_vectors(
            #[inline(always)]
            || self.runs::<DIM>(table, range, room),
        );
    }

    fn runs_at<const DIM: usize>(
        &self,
        table: (usize, &Table),
        range: Range<usize>,
        room: (&mut [f32], &mut [f32]),
    ) {
        self.rows.level.run(
            #[inline(always)]
            || self.runs::<DIM>(table, range, room),
        );
    }

    /// `DIM` is the length of rows, or 0 for any.
    #[inline(always)]
    fn runs<const DIM: usize>(
        &self,
        (t, table): (usize, &Table),
        range: Range<usize>,
        (sum, room): (&mut [f32], &mut [f32]),
    ) {
        let dim = if DIM == 0 { table.dim } else { DIM };
        let each = self.rows.update.rule.state_per_row(dim);
        let changes = self.rows.update.changes_gradients();
        let (keys, samples) = (self.sorted.keys.host(), self.sorted.samples.host());
        let keys = &keys[..self.sorted.bounds[t + 1]];
        let first = self.sorted.bounds[t];
        let ahead = (AHEAD / (4 * dim.max(1))).clamp(2, 32);
        let row_of = |at: usize| (keys[at] >> 32) as usize;
        let mut at = range.start;
        if at > first {
            // A run that began before belongs to the piece before.
            at += keys[at..].partition_point(|key| (key >> 32) as usize == row_of(range.start - 1));
        }
        while at < range.end {
            let row = row_of(at);
            let mut count = 0;
            let mut only = 0;
            while at < keys.len() && row_of(at) == row {
                if let Some(&next) = keys.get(at + ahead) {
                    let sample = samples[next as u32 as usize] as usize;
                    prefetch(self.dout, sample * self.width + self.columns[t], dim);
                    let row = (next >> 32) as usize;
                    prefetch_row(table, row, dim);
                    if each > 0 {
                        prefetch_for_write(table.state.address(), row * each, each);
                    }
                }
                let value = keys[at] as u32 as usize;
                let sample = samples[value] as usize;
                let weight = self.weights.map_or(1.0, |weights| weights[value]);
                let scale = match table.pooling {
                    Pooling::Sum => weight,
                    Pooling::Mean => {
                        weight / self.index.lengths.host()[t * self.index.samples + sample] as f32
                    }
                };
                at += 1;
                if count == 0 && scale == 1.0 && (at == keys.len() || row_of(at) != row) {
                    only = sample * self.width + self.columns[t];
                    break;
                }
                let g = &self.dout[sample * self.width + self.columns[t]..][..dim];
                let sum = &mut sum[..dim];
                if count == 0 {
                    change(
                        sum,
                        [g],
                        #[inline(always)]
                        |_, [g]| scale * g,
                    );
                } else {
                    change(
                        sum,
                        [g],
                        #[inline(always)]
                        |sum, [g]| sum + scale * g,
                    );
                }
                count += 1;
            }
            // A row of one sample needs no sum, unless its gradient is changed.
            let mut g = if count == 0 { &self.dout[only..][..dim] } else { &sum[..dim] };
            if changes {
                if count == 0 {
                    sum[..dim].copy_from_slice(&self.dout[only..][..dim]);
                }
                sum[..dim].iter_mut().for_each(|g| *g = self.rows.update.changed(*g));
                g = &sum[..dim];
            }
            // SAFETY: `update_tables` borrows the tables exclusively, keys are sorted (checked there), so all keys of this row lie in
            // this run and no other piece touches the row.
            unsafe { self.rows.apply((table, row), [dim, each], g, room) };
        }
    }
}

/// Asks for the weights of a row, which are going to be changed.
#[inline(always)]
pub(super) fn prefetch_row(table: &Table, row: usize, dim: usize) {
    match table.weights.stored() {
        StoredRows::F32(floats) => prefetch_for_write(floats.address(), row * dim, dim),
        StoredRows::Half(_, halves) => prefetch_for_write(halves.address(), row * dim, dim),
        StoredRows::Int8(codes) => {
            let bytes = dim + int8_row::EXTRA;
            prefetch_for_write(codes.address(), row * bytes, bytes);
        }
    }
}

/// The update of one row, which updates of sorted ids and of rows with sums have in common.
#[derive(Clone, Copy)]
pub(super) struct RowUpdate {
    rule: Rule,
    /// The update as a value: how much state its rule keeps, and what comes before the rule.
    pub(super) update: crate::Update,
    level: Level,
}

impl RowUpdate {
    pub(super) fn new(cpu: &Cpu, update: crate::Update) -> Self {
        Self { rule: Rule::new(update), update, level: cpu.level }
    }

    /// Updates a row of `dim` weights and `each` floats of state by the gradient `g`. Weights of another format than f32 are read to
    /// `room`, and rounded in one pass when they were changed. Panics for a row that the table does not have.
    ///
    /// # Safety
    /// Nothing else may read or write the row meanwhile.
    #[inline(always)]
    pub(super) unsafe fn apply(
        &self,
        (table, row): (&Table, usize),
        [dim, each]: [usize; 2],
        g: &[f32],
        room: &mut [f32],
    ) {
        assert!((row + 1) * dim <= table.weights.len() && (row + 1) * each <= table.state.len());
        // SAFETY: inside the state, as just asserted; the caller has the row to itself.
        let state = unsafe { std::slice::from_raw_parts_mut(table.state.address().add(row * each), each) };
        match table.weights.stored() {
            StoredRows::F32(floats) => {
                // SAFETY: inside the weights, as asserted; the caller has the row to itself.
                let w = unsafe { std::slice::from_raw_parts_mut(floats.address().add(row * dim), dim) };
                self.change(w, g, state);
            }
            StoredRows::Half(half, halves) => {
                // SAFETY: inside the weights, as asserted; the caller has the row to itself.
                let stored = unsafe { std::slice::from_raw_parts_mut(halves.address().add(row * dim), dim) };
                let w = &mut room[..dim];
                decode_row(self.level, half, stored, w);
                self.change(w, g, state);
                half_float::encode(half, w, table.weights.rounding(row, self.update.step), stored);
            }
            StoredRows::Int8(codes) => {
                let bytes = dim + int8_row::EXTRA;
                // SAFETY: inside the weights, as asserted; the caller has the row to itself.
                let stored =
                    unsafe { std::slice::from_raw_parts_mut(codes.address().add(row * bytes), bytes) };
                let w = &mut room[..dim];
                int8_row::decode(stored, w);
                self.change(w, g, state);
                int8_row::encode(w, table.weights.rounding(row, self.update.step), stored);
            }
        }
    }

    #[inline(always)]
    fn change(&self, w: &mut [f32], g: &[f32], state: &mut [f32]) {
        let decay = self.update.decay();
        if decay != 0.0 {
            w.iter_mut().for_each(|w| *w -= decay * *w);
        }
        self.rule.update_row(w, g, state);
    }
}
