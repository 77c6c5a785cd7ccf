//! Tensor trains: small matrix products for each row.
//!
//! A row is the product of its slices of the cores, `(columns₀ × rank) · (rank × columns₁·rank)`, seen as `columns₀·columns₁ × rank`, times
//! `(rank × columns₂)`. Threads divide samples in a lookup. In the backward pass they divide the digits of each core, so that every weight has
//! one thread that adds its gradients, in the order of rows: the result has the same bits for any number of threads.
#![allow(unsafe_code)]

use super::Cpu;
use super::level::Level;
use super::lookup::all_in_range;
use super::shared::Shared;
use crate::reference::tensor_train::{check_ids, check_rows, cores_of};
use crate::{KernelError, LookupTensorTrains, TensorTrainGradients};
use spec::Pooling;
use spec::tensor_train::{MAX_PRODUCT, TensorTrain};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls a method with the fused products of the machine, where it has them, compiled for its vectors.
macro_rules! dispatch {
    ($cpu:expr, $computing:ident . $method:ident ( $($argument:expr),* )) => {
        match $cpu.level {
            Level::Portable => $computing.$method::<false>($($argument),*),
            #[allow(unreachable_patterns)]
            level => level.run(#[inline(always)] || $computing.$method::<true>($($argument),*)),
        }
    };
}
/// Samples that are worth a piece of their own.
const GRAIN: usize = 32;
/// Columns whose sums are in registers at a time, and rows of the left factor that they are for.
const COLUMNS: usize = 32;
const ROWS: usize = 4;
/// Pieces for each thread into which the digits of a core are cut.
const PIECES: usize = 2;
/// The most floats of a slice of the third core that is turned.
const TURNED: usize = MAX_PRODUCT;

pub(crate) fn lookup(cpu: &Cpu, args: LookupTensorTrains) -> Result<(), KernelError> {
    let LookupTensorTrains { tables, trains, columns, width, index, samples, .. } = args;
    let (values, weights) = (args.values.host(), args.weights.map(|weights| weights.host()));
    let (starts, lengths) = (index.starts.host(), index.lengths.host());
    let bags = |table: usize, range: &Range<usize>| {
        let at = table * index.samples;
        (&starts[at + range.start..at + range.end], &lengths[at + range.start..at + range.end])
    };
    let refused = AtomicBool::new(false);
    cpu.divide(samples, GRAIN, &|_, range| {
        for at in trains {
            let (starts, lengths) = bags(at.table, &range);
            if !all_in_range(cpu, starts, lengths, values, tables[at.table].rows) {
                refused.store(true, Ordering::Relaxed);
            }
        }
    });
    if refused.into_inner() {
        check_ids(&args)?;
    }
    let parameters = args.parameters.host();
    let out = Shared::new(args.out.host_mut());
    cpu.divide_finely(samples, GRAIN, &|_, range| {
        let mut room = Room::new();
        for at in trains {
            let (starts, lengths) = bags(at.table, &range);
            let mean = tables[at.table].pooling == Pooling::Mean;
            let computing = Cores { train: at.train, cores: cores_of(at, parameters) };
            for ((s, &start), &length) in range.clone().zip(starts).zip(lengths) {
                let first = s * width + columns[at.table];
                // SAFETY: no two pieces share a sample.
                let out = unsafe { out.piece(first..first + at.train.width) };
                out.fill(0.0);
                for value in start as usize..start as usize + length as usize {
                    let weight = weights.map_or(1.0, |weights| weights[value]);
                    dispatch!(cpu, computing.add_row(values[value] as usize, weight, &mut room, out));
                }
                if mean && length > 1 {
                    out.iter_mut().for_each(|out| *out /= length as f32);
                }
            }
        }
    });
    Ok(())
}

pub(crate) fn gradients(cpu: &Cpu, args: TensorTrainGradients) -> Result<(), KernelError> {
    check_rows(&args)?;
    let (rows, sums, parameters) = (args.rows.host(), args.sums.host(), args.parameters.host());
    let (trains, bounds) = (args.trains, &args.runs.bounds);
    let floats = |k: usize| (bounds[k + 1] - bounds[k]) * trains[k].train.width;
    let gradient = Shared::new(args.gradient.host_mut());
    // Pieces of the digits of all cores of all trains.
    let pieces = PIECES * cpu.threads;
    cpu.divide_finely(trains.len() * 3 * pieces, 1, &|_, range| {
        let mut room = Room::new();
        for piece in range {
            let (k, core, piece) = (piece / (3 * pieces), piece / pieces % 3, piece % pieces);
            let at = &trains[k];
            let values = at.train.rows[core];
            let digits = values * piece / pieces..values * (piece + 1) / pieces;
            let slice = at.train.slices()[core];
            let range = at.cores[core] + digits.start * slice..at.cores[core] + digits.end * slice;
            // SAFETY: pieces have different digits of a core, and cores do not overlap.
            let gradient = unsafe { gradient.piece(range) };
            gradient.fill(0.0);
            let computing = Cores { train: at.train, cores: cores_of(at, parameters) };
            let rows = &rows[bounds[k]..bounds[k + 1]];
            let sums = sums[(0..k).map(floats).sum()..].chunks_exact(at.train.width);
            let [_, second, third] = at.train.rows.map(|values| values as u32);
            for (&row, sum) in rows.iter().zip(sums) {
                // Divisions of 32 bits take a fraction of the time of others.
                let digit = match core {
                    0 => row / third / second,
                    1 => row / third % second,
                    _ => row % third,
                } as usize;
                if digits.contains(&digit) {
                    let to = &mut gradient[(digit - digits.start) * slice..][..slice];
                    dispatch!(cpu, computing.add_gradient(core, row as usize, sum, &mut room, to));
                }
            }
        }
    });
    Ok(())
}

/// Memory of one thread.
struct Room {
    /// Product of the first two cores, or its gradient: `columns₀·columns₁ × rank`.
    product: [f32; MAX_PRODUCT],
    /// Slice of the third core with rows and columns exchanged, or a gradient of a row with columns that nobody reads.
    turned: [f32; TURNED],
}

impl Room {
    fn new() -> Self {
        Self { product: [0.0; MAX_PRODUCT], turned: [0.0; TURNED] }
    }
}

/// `sum + x·y`, rounded once if `FUSED`.
#[inline(always)]
fn add<const FUSED: bool>(sum: f32, x: f32, y: f32) -> f32 {
    if FUSED { x.mul_add(y, sum) } else { sum + x * y }
}

/// `to += x·from`.
#[inline(always)]
fn add_scaled<const FUSED: bool>(to: &mut [f32], x: f32, from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = add::<FUSED>(*to, x, from));
}

/// `Σ x·y`.
#[inline(always)]
fn dot<const FUSED: bool>(x: &[f32], y: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in x.iter().zip(y) {
        for i in 0..LANES {
            sums[i] = add::<FUSED>(sums[i], x[i], y[i]);
        }
    }
    for ((sum, &x), &y) in sums.iter_mut().zip(x_rest).zip(y_rest) {
        *sum = add::<FUSED>(*sum, x, y);
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
    }
    sums[0]
}

/// A train and its cores.
#[derive(Clone, Copy)]
struct Cores<'a> {
    train: TensorTrain,
    cores: [&'a [f32]; 3],
}

impl<'a> Cores<'a> {
    /// Slices of the cores for a row.
    #[inline(always)]
    fn slices(&self, row: usize) -> [&'a [f32]; 3] {
        let (digits, lens) = (self.train.digits(row), self.train.slices());
        [0, 1, 2].map(|core| &self.cores[core][digits[core] * lens[core]..][..lens[core]])
    }

    /// `out += weight · row`.
    #[inline(always)]
    fn add_row<const FUSED: bool>(&self, row: usize, weight: f32, room: &mut Room, out: &mut [f32]) {
        let ([first, second, third], [a, b, c], rank) =
            (self.slices(row), self.train.columns, self.train.rank);
        let (product, turned) = (&mut room.product[..a * b * rank], &mut room.turned[..rank * c]);
        multiply::<FUSED>([a, rank, b * rank], first, second, product);
        for (k, from) in third.chunks_exact(rank).enumerate() {
            from.iter().enumerate().for_each(|(s, &x)| turned[s * c + k] = weight * x);
        }
        // Digits may name columns that nobody reads.
        for (out, product) in out.chunks_mut(c).zip(product.chunks_exact(rank)) {
            for (&x, from) in product.iter().zip(turned.chunks_exact(c)) {
                add_scaled::<FUSED>(out, x, from);
            }
        }
    }

    /// Adds what a row with the gradient `d` gives to its slice of a core.
    #[inline(always)]
    fn add_gradient<const FUSED: bool>(
        &self,
        core: usize,
        row: usize,
        d: &[f32],
        room: &mut Room,
        to: &mut [f32],
    ) {
        let ([first, second, third], [a, b, c], rank) =
            (self.slices(row), self.train.columns, self.train.rank);
        let product = &mut room.product[..a * b * rank];
        if core == 2 {
            multiply::<FUSED>([a, rank, b * rank], first, second, product);
            for (d, product) in d.chunks(c).zip(product.chunks_exact(rank)) {
                for (&d, to) in d.iter().zip(to.chunks_exact_mut(rank)) {
                    add_scaled::<FUSED>(to, d, product);
                }
            }
            return;
        }
        // The gradient of the product of the first two cores.
        product.fill(0.0);
        for (d, product) in d.chunks(c).zip(product.chunks_exact_mut(rank)) {
            for (&d, third) in d.iter().zip(third.chunks_exact(rank)) {
                add_scaled::<FUSED>(product, d, third);
            }
        }
        let wide = b * rank;
        if core == 0 {
            for (to, product) in to.chunks_exact_mut(rank).zip(product.chunks_exact(wide)) {
                for (to, second) in to.iter_mut().zip(second.chunks_exact(wide)) {
                    *to += dot::<FUSED>(product, second);
                }
            }
        } else {
            for (r, to) in to.chunks_exact_mut(wide).enumerate() {
                for (i, product) in product.chunks_exact(wide).enumerate() {
                    add_scaled::<FUSED>(to, first[i * rank + r], product);
                }
            }
        }
    }
}

/// `out = x · y`, of `rows × inner` and `inner × columns`, all row after row.
#[inline(always)]
fn multiply<const FUSED: bool>([rows, inner, columns]: [usize; 3], x: &[f32], y: &[f32], out: &mut [f32]) {
    for row in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - row);
        let mut column = 0;
        while column < columns {
            let wide = COLUMNS.min(columns - column);
            let mut sums = [[0.0f32; COLUMNS]; ROWS];
            if wide == COLUMNS && count == ROWS {
                for i in 0..inner {
                    let y: &[f32; COLUMNS] =
                        y[i * columns + column..].first_chunk().expect("a block of columns");
                    for (k, sums) in sums.iter_mut().enumerate() {
                        let x = x[(row + k) * inner + i];
                        (0..COLUMNS).for_each(|j| sums[j] = add::<FUSED>(sums[j], x, y[j]));
                    }
                }
            } else {
                for i in 0..inner {
                    let y = &y[i * columns + column..][..wide];
                    for (k, sums) in sums.iter_mut().enumerate().take(count) {
                        add_scaled::<FUSED>(&mut sums[..wide], x[(row + k) * inner + i], y);
                    }
                }
            }
            for (k, sums) in sums.iter().enumerate().take(count) {
                out[(row + k) * columns + column..][..wide].copy_from_slice(&sums[..wide]);
            }
            column += wide;
        }
    }
}
