//! Pooled rows of all tables: `out[s, t] = Σᵢ weightᵢ·row(idᵢ)`.
//!
//! Rows lie anywhere in tables far larger than the caches, so they are asked for several ids ahead of their use. The ids
//! of neighbouring samples lie side by side in the values buffer: looking ahead there needs no index. Sums stay in registers, a
//! block of columns at a time; rows of several blocks are read side by side, since the processor looks ahead in each.
#![allow(unsafe_code)]

use super::Cpu;
use super::halves::{self, Convert, Fast};
use super::level::{Level, prefetch};
use super::shared::Shared;
use super::stream;
use crate::half_float::{Bf16, F16, Half, StoredWeight};
use crate::int8_row;
use crate::row_store::StoredRows;
use crate::{KernelError, Lookup, Table, reference};
use ground::Pooling;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Samples for which all tables are looked up before the next ones: their part of `out` stays near.
const SAMPLES: usize = 256;
/// Bytes of rows on their way at a time.
const AHEAD: usize = 4096;
/// Rows of more bytes have a line asked for earlier than the others.
const SHORT: usize = 128;
/// The most columns of which sums are in registers at a time.
const BLOCK: usize = 128;
/// Rows of more than a block that are read side by side.
const TOGETHER: usize = 8;

pub(crate) fn lookup(cpu: &Cpu, args: Lookup) -> Result<(), KernelError> {
    let Lookup { tables, columns, width, index, .. } = args;
    let (which, samples) = (args.which.clone(), args.samples.clone());
    let (values, weights) = (args.values.host(), args.weights.map(|weights| weights.host()));
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
        return reference::embedding::lookup(args);
    }
    let out = args.out.host_mut();
    // Lines of the result that need not be read before they are written are what a lookup saves most by.
    let streamed = stream::pays(samples.len() * width) && out.as_ptr().addr().is_multiple_of(64);
    let out = Shared::new(out);
    cpu.divide_finely(samples.len(), SAMPLES, &|_, range| {
        for first in range.clone().step_by(SAMPLES) {
            let range = first..(first + SAMPLES).min(range.end);
            for t in which.clone() {
                let (starts, lengths) = bags(t, &range);
                let from = range.start * width + columns[t];
                let dim = tables[t].dim;
                let row_of = move |s: usize| {
                    let at = from + s * width;
                    // SAFETY: no two pieces share a sample.
                    unsafe { out.piece(at..at + dim) }
                };
                // Lines of `out` are written whole.
                let lines = [width, columns[t], tables[t].dim].iter().all(|at| at.is_multiple_of(16));
                let streamed = streamed && lines;
                let level = cpu.level;
                let bags = BagsOf { level, table: &tables[t], starts, lengths, values, weights, streamed };
                match tables[t].weights.stored() {
                    StoredRows::F32(floats) => {
                        bags.of_rows(Weights(floats.host())).pool(row_of);
                    }
                    StoredRows::Half(Half::F16, stored) => {
                        bags.pool_halves::<F16>(stored.host(), row_of);
                    }
                    StoredRows::Half(Half::Bf16, stored) => {
                        bags.pool_halves::<Bf16>(stored.host(), row_of);
                    }
                    StoredRows::Int8(codes) => {
                        bags.of_rows(Codes(codes.host())).pool(row_of);
                    }
                }
            }
        }
    });
    Ok(())
}

/// Whether every id of these bags is a row, and every bag inside `values`.
pub(super) fn all_in_range(cpu: &Cpu, starts: &[u32], lengths: &[u32], values: &[u32], rows: usize) -> bool {
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

/// Rows of a table as they are stored. A row is given as its number and the number of its weights.
trait Rows: Copy {
    /// Levels at which rows of this type are read.
    const LEVELS: Levels;

    /// Asks for some columns of a row, which will be needed.
    fn ask_for(self, row: [usize; 2], columns: Range<usize>);

    /// `sum += weight·row`, for as many columns as `sum` has, from `first` on.
    fn add(self, row: [usize; 2], first: usize, weight: f32, sum: &mut [f32]);
}

/// Levels that a function is compiled for.
enum Levels {
    All,
    /// Those with vector instructions.
    Vectors,
    /// The one without: 16-bit floats are converted by arithmetic only there.
    Portable,
}

impl Levels {
    #[inline(always)]
    fn run(self, level: Level, work: impl FnOnce()) {
        match self {
            Levels::All => level.run(work),
            Levels::Vectors => level.run_vectors(work),
            Levels::Portable => work(),
        }
    }
}

/// A stored weight, and the levels at which rows of it are read.
trait LookedUp: StoredWeight {
    const LEVELS: Levels;
}

impl LookedUp for f32 {
    const LEVELS: Levels = Levels::All;
}

impl LookedUp for F16 {
    const LEVELS: Levels = Levels::Portable;
}

impl LookedUp for Bf16 {
    const LEVELS: Levels = Levels::Portable;
}

impl<H: Convert> LookedUp for Fast<H> {
    const LEVELS: Levels = Levels::Vectors;
}

/// Weights that stand by themselves.
#[derive(Clone, Copy)]
struct Weights<'a, W>(&'a [W]);

impl<W: LookedUp> Rows for Weights<'_, W> {
    const LEVELS: Levels = W::LEVELS;

    #[inline(always)]
    fn ask_for(self, [row, dim]: [usize; 2], columns: Range<usize>) {
        prefetch(self.0, row * dim + columns.start, columns.len());
    }

    #[inline(always)]
    fn add(self, [row, dim]: [usize; 2], first: usize, weight: f32, sum: &mut [f32]) {
        W::add(weight, &self.0[row * dim + first..][..sum.len()], sum);
    }
}

/// Rows of 8-bit codes with scale and minimum.
#[derive(Clone, Copy)]
struct Codes<'a>(&'a [u8]);

impl Rows for Codes<'_> {
    const LEVELS: Levels = Levels::All;

    #[inline(always)]
    fn ask_for(self, [row, dim]: [usize; 2], columns: Range<usize>) {
        let bytes = dim + int8_row::EXTRA;
        // What follows the last columns is asked for with them.
        let end = if columns.end == dim { bytes } else { columns.end };
        prefetch(self.0, row * bytes + columns.start, end - columns.start);
    }

    #[inline(always)]
    fn add(self, [row, dim]: [usize; 2], first: usize, weight: f32, sum: &mut [f32]) {
        let bytes = dim + int8_row::EXTRA;
        let row = &self.0[row * bytes..][..bytes];
        let (range, codes) = (int8_row::Range::of(row), &row[first..dim][..sum.len()]);
        for i in 0..codes.len() {
            sum[i] += weight * range.weight(codes[i]);
        }
    }
}

/// Some bags of one table, whatever the format of its rows.
struct BagsOf<'a> {
    level: Level,
    table: &'a Table,
    starts: &'a [u32],
    lengths: &'a [u32],
    values: &'a [u32],
    weights: Option<&'a [f32]>,
    /// Whether results go past the caches.
    streamed: bool,
}

impl<'a> BagsOf<'a> {
    fn of_rows<R: Rows>(self, rows: R) -> Bags<'a, R> {
        let Self { level, table, starts, lengths, values, weights, streamed } = self;
        let (dim, mean) = (table.dim, table.pooling == Pooling::Mean);
        let bytes = table.weights.row_bytes();
        let ahead = (AHEAD / bytes.max(1)).clamp(2, 64);
        let early = (bytes > SHORT).then_some(3 * ahead);
        Bags { level, rows, dim, mean, starts, lengths, values, weights, streamed, ahead, early }
    }

    /// Pools all bags of a table with weights `H`, as [`Bags::pool`].
    fn pool_halves<'o, H: Convert + LookedUp + bytemuck::Pod>(
        self,
        stored: &'a [u16],
        out: impl Fn(usize) -> &'o mut [f32] + Copy,
    ) {
        match halves::rows::<H>(self.level, stored) {
            Some(rows) => self.of_rows(Weights(rows)).pool(out),
            None => self.of_rows(Weights(bytemuck::cast_slice::<u16, H>(stored))).pool(out),
        }
    }
}

/// Some bags of one table with rows `R`.
#[derive(Clone, Copy)]
struct Bags<'a, R> {
    level: Level,
    rows: R,
    dim: usize,
    mean: bool,
    starts: &'a [u32],
    lengths: &'a [u32],
    values: &'a [u32],
    weights: Option<&'a [f32]>,
    /// Whether results go past the caches.
    streamed: bool,
    /// Number of ids between a row that is asked for and the row that is added.
    ahead: usize,
    /// Number of ids between a row of which one line is asked for, which brings the address translation, and the row that is added; short
    /// rows are asked for so far ahead that it would cost more than it brings.
    early: Option<usize>,
}

impl<R: Rows> Bags<'_, R> {
    /// Pools all bags; `out` returns the place of a bag's vector.
    ///
    /// One function for each format, level and block of columns: other widths are several blocks. All of them in one function would take the
    /// compiler minutes.
    fn pool<'o>(&self, out: impl Fn(usize) -> &'o mut [f32] + Copy) {
        let (dim, bags) = (self.dim, self.starts.len());
        match dim {
            4 => {
                self.blocks::<4, 4>(0..bags, 0, out);
            }
            8 => {
                self.blocks::<8, 8>(0..bags, 0, out);
            }
            16 => {
                self.blocks::<16, 16>(0..bags, 0, out);
            }
            32 => {
                self.blocks::<32, 32>(0..bags, 0, out);
            }
            64 => {
                self.blocks::<64, 64>(0..bags, 0, out);
            }
            BLOCK => {
                self.blocks::<BLOCK, BLOCK>(0..bags, 0, out);
            }
            _ => {
                // Lines of one row are read side by side, so that its address is translated once.
                let ids: usize = self.lengths.iter().map(|&length| length as usize).sum();
                let together = (TOGETHER * bags / ids.max(1)).clamp(1, TOGETHER);
                for first in (0..bags).step_by(together) {
                    self.rows_in_blocks(first..(first + together).min(bags), out);
                }
            }
        }
        if self.streamed {
            stream::fence();
        }
    }

    /// Pools some bags of rows that are no single block. The last block may begin inside the one before: columns of both get the same sum
    /// twice.
    fn rows_in_blocks<'o>(&self, bags: Range<usize>, out: impl Fn(usize) -> &'o mut [f32] + Copy) {
        let (dim, mut column) = (self.dim, 0);
        while column < dim {
            let bags = bags.clone();
            column += match dim - column {
                BLOCK.. => self.blocks::<BLOCK, 0>(bags, column, out),
                64.. => self.blocks::<64, 0>(bags, column, out),
                32.. => self.blocks::<32, 0>(bags, column, out),
                _ if dim >= 16 => self.blocks::<16, 0>(bags, column.min(dim - 16), out),
                _ if dim >= 8 => self.blocks::<8, 0>(bags, column.min(dim - 8), out),
                _ if dim >= 4 => self.blocks::<4, 0>(bags, column.min(dim - 4), out),
                _ => self.blocks::<1, 0>(bags, column, out),
            };
        }
    }

    /// Pools `COLUMNS` columns of some bags, from `first` on, and returns their number. `DIM` is the length of rows, or 0 for any.
    fn blocks<'o, const COLUMNS: usize, const DIM: usize>(
        &self,
        bags: Range<usize>,
        first: usize,
        out: impl Fn(usize) -> &'o mut [f32] + Copy,
    ) -> usize {
        let (dim, first) = if DIM == 0 { (self.dim, first) } else { (DIM, 0) };
        R::LEVELS.run(
            self.level,
            #[inline(always)]
            || {
                // Copies, which no write of a result can change: they stay in registers.
                let this = *self;
                let (starts, lengths) = (&this.starts[bags.clone()], &this.lengths[bags.clone()]);
                // A loop and no `for_each`: what that calls is not always inlined, and then compiled without the instructions of the level.
                for i in 0..starts.len().min(lengths.len()) {
                    let ids = starts[i] as usize..starts[i] as usize + lengths[i] as usize;
                    this.block::<COLUMNS>(ids, dim, first, out(bags.start + i));
                }
            },
        );
        COLUMNS
    }

    #[inline(always)]
    fn block<const COLUMNS: usize>(self, ids: Range<usize>, dim: usize, first: usize, out: &mut [f32]) {
        let length = ids.len();
        let mut sum = [0f32; COLUMNS];
        for value in ids {
            if let Some(early) = self.early
                && let Some(&next) = self.values.get(value + early)
            {
                self.rows.ask_for([next as usize, dim], first..first + 1);
            }
            if let Some(&next) = self.values.get(value + self.ahead) {
                self.rows.ask_for([next as usize, dim], first..first + COLUMNS);
            }
            let row = [self.values[value] as usize, dim];
            // Times one is exact, and so is zero plus the first, but for the sign of a zero.
            let weight = self.weights.map_or(1.0, |weights| weights[value]);
            self.rows.add(row, first, weight, &mut sum);
        }
        if self.mean && length > 1 {
            sum.iter_mut().for_each(|sum| *sum /= length as f32);
        }
        let out = &mut out[first..][..COLUMNS];
        match self.streamed {
            true => stream::copy_lines(self.level, &sum, out),
            false => out.copy_from_slice(&sum),
        }
    }
}
