//! Tensor trains: small matrix products for each row.
//!
//! A row is the product of its slices of the cores, `(columns₀ × rank) · (rank × columns₁·rank)`, seen as `columns₀·columns₁ × rank`, times
//! `(rank × columns₂)`. Threads divide samples in a lookup, and look ids up in an order in which rows share slices. In the backward pass
//! they divide the digits of each core, so that every weight has one thread that adds its gradients, always in the same order: the result
//! has the same bits for any number of threads.
#![allow(unsafe_code)]

use super::Cpu;
use super::level::Level;
use super::lookup::all_in_range;
use super::shared::Shared;
use crate::reference::tensor_train::{check_ids, check_rows, cores_of};
use crate::{KernelError, LookupTensorTrains, TensorTrainGradients};
use ground::Pooling;
use ground::tensor_train::{MAX_PRODUCT, MAX_WIDTH, TensorTrain};
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
const GRAIN: usize = 64;
/// Rows that are computed together, a power of two, and bits of the place of one of them.
const GROUP: usize = 1024;
const PLACE: u32 = GROUP.trailing_zeros();
/// Pieces for each thread into which the digits of a core are cut.
const PIECES: usize = 2;

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
    // Large pieces, in which ids repeat.
    cpu.divide(samples, GRAIN, &|_, range| {
        let mut room = Room::new();
        for at in trains {
            let (starts, lengths) = bags(at.table, &range);
            let vector = |s: usize| {
                let first = s * width + columns[at.table];
                // SAFETY: no two pieces share a sample.
                unsafe { out.piece(first..first + at.train.width) }
            };
            range.clone().for_each(|s| vector(s).fill(0.0));
            let computing = Cores { train: at.train, cores: cores_of(at, parameters) };
            let mut group = Group::new();
            for ((s, &start), &length) in range.clone().zip(starts).zip(lengths) {
                // A bag is not divided if it need not be, so that the order of its sum follows from its ids alone.
                if group.count + length as usize > GROUP {
                    dispatch!(cpu, computing.add_rows(&mut group, weights, &mut room, &vector));
                }
                for value in start..start + length {
                    if group.is_full() {
                        dispatch!(cpu, computing.add_rows(&mut group, weights, &mut room, &vector));
                    }
                    group.push(&at.train, Member { row: values[value as usize], value, sample: s });
                }
            }
            dispatch!(cpu, computing.add_rows(&mut group, weights, &mut room, &vector));
            if tables[at.table].pooling == Pooling::Mean {
                for (s, &length) in range.clone().zip(lengths).filter(|(_, length)| **length > 1) {
                    vector(s).iter_mut().for_each(|out| *out /= length as f32);
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
        let (mut room, mut group) = (Room::new(), Group::new());
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
            room.of = None;
            let rows = &rows[bounds[k]..bounds[k + 1]];
            let sums = &sums[(0..k).map(floats).sum()..];
            // Groups begin at the same rows whatever the digits, so that the order of sums does not depend on the pieces.
            for (first, rows) in (0..).step_by(GROUP).zip(rows.chunks(GROUP)) {
                for (sample, &row) in (first..).zip(rows) {
                    if digits.contains(&(digits_of(&at.train, row)[core] as usize)) {
                        group.push(&at.train, Member { row, value: 0, sample });
                    }
                }
                for Member { row, sample, .. } in group.take() {
                    let digit = digits_of(&at.train, row)[core] as usize;
                    let to = &mut gradient[(digit - digits.start) * slice..][..slice];
                    let sum = &sums[sample * at.train.width..][..at.train.width];
                    dispatch!(cpu, computing.add_gradient(core, row as usize, sum, &mut room, to));
                }
            }
        }
    });
    Ok(())
}

/// Rows that are computed together, ordered by their second digit: its slice is the largest of the cores, and stays near. A row that several ids
/// name is computed once.
struct Group {
    /// Place of each row in the order, then its place in the group.
    keys: [u64; GROUP],
    /// Rows as they were added.
    rows: [Member; GROUP],
    /// Number of rows.
    count: usize,
}

/// Row of a group, and what it is for: a value of a sample, or a sum.
#[derive(Clone, Copy, Default)]
struct Member {
    row: u32,
    /// Position of the id among all values, whose weight counts; 0 for a sum.
    value: u32,
    /// Sample of the id, or number of the sum.
    sample: usize,
}

impl Group {
    fn new() -> Self {
        Self { keys: [0; GROUP], rows: [Member::default(); GROUP], count: 0 }
    }

    fn is_full(&self) -> bool {
        self.count == GROUP
    }

    fn push(&mut self, train: &TensorTrain, member: Member) {
        let [first, _, third] = train.rows.map(|values| values as u64);
        let [i, j, k] = digits_of(train, member.row).map(u64::from);
        self.keys[self.count] = ((j * first + i) * third + k) << PLACE | self.count as u64;
        self.rows[self.count] = member;
        self.count += 1;
    }

    /// The rows in their order; the group is empty then.
    fn take(&mut self) -> impl Iterator<Item = Member> {
        let keys = &mut self.keys[..std::mem::take(&mut self.count)];
        keys.sort_unstable();
        keys.iter().map(|key| self.rows[(key & (GROUP as u64 - 1)) as usize])
    }
}

/// Digits of a row number, by divisions of 32 bits, which take a fraction of the time of others.
#[inline(always)]
fn digits_of(train: &TensorTrain, row: u32) -> [u32; 3] {
    let [_, second, third] = train.rows.map(|values| values as u32);
    let above = row / third;
    [above / second, above % second, row - above * third]
}

/// Memory of one thread.
struct Room {
    /// Product of the first two cores, or its gradient: `columns₀·columns₁ × rank`.
    product: [f32; MAX_PRODUCT],
    /// Digits of the row whose product it is, as one number; `None` where it is something else.
    of: Option<usize>,
    /// A row.
    row: [f32; MAX_WIDTH],
}

impl Room {
    fn new() -> Self {
        Self { product: [0.0; MAX_PRODUCT], of: None, row: [0.0; MAX_WIDTH] }
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

/// `to += Σ x[i]·from[i]`, where the rows of `from` lie one after another: `to` is read and written once for four of them.
#[inline(always)]
fn add_four<const FUSED: bool>(to: &mut [f32], x: [f32; 4], from: &[f32]) {
    let columns = to.len();
    let row = |i: usize| &from[i * columns..][..columns];
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    for j in 0..columns {
        let sum = add::<FUSED>(add::<FUSED>(to[j], x[0], a[j]), x[1], b[j]);
        to[j] = add::<FUSED>(add::<FUSED>(sum, x[2], c[j]), x[3], d[j]);
    }
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

    /// Adds the rows of a group to the vectors of their samples, each times its weight, and empties the group.
    #[inline(always)]
    fn add_rows<'o, const FUSED: bool>(
        &self,
        group: &mut Group,
        weights: Option<&[f32]>,
        room: &mut Room,
        vector: &impl Fn(usize) -> &'o mut [f32],
    ) {
        // Products of another train may be there.
        room.of = None;
        let mut last = None;
        for Member { row, value, sample } in group.take() {
            if last != Some(row) {
                self.compute_row::<FUSED>(row as usize, room);
                last = Some(row);
            }
            let weight = weights.map_or(1.0, |weights| weights[value as usize]);
            add_scaled::<FUSED>(vector(sample), weight, &room.row[..self.train.width]);
        }
    }

    /// The product of the first two cores of a row, unless it is there already.
    #[inline(always)]
    fn compute_product<const FUSED: bool>(&self, row: usize, room: &mut Room) {
        let above = row / self.train.rows[2];
        if room.of != Some(above) {
            let ([first, second, _], [a, b, _], rank) =
                (self.slices(row), self.train.columns, self.train.rank);
            multiply::<FUSED>([a, rank, b * rank], first, second, &mut room.product[..a * b * rank]);
            room.of = Some(above);
        }
    }

    /// Computes a row.
    #[inline(always)]
    fn compute_row<const FUSED: bool>(&self, row: usize, room: &mut Room) {
        self.compute_product::<FUSED>(row, room);
        let ([_, _, third], [a, b, c], rank) = (self.slices(row), self.train.columns, self.train.rank);
        let Room { product, row, .. } = room;
        // Digits may name columns that nobody reads.
        let rows = row[..self.train.width].chunks_mut(c);
        for (row, product) in rows.zip(product[..a * b * rank].chunks_exact(rank)) {
            for (out, third) in row.iter_mut().zip(third.chunks_exact(rank)) {
                *out = dot::<FUSED>(product, third);
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
        if core == 2 {
            self.compute_product::<FUSED>(row, room);
            let product = &room.product[..a * b * rank];
            for (d, product) in d.chunks(c).zip(product.chunks_exact(rank)) {
                for (&d, to) in d.iter().zip(to.chunks_exact_mut(rank)) {
                    add_scaled::<FUSED>(to, d, product);
                }
            }
            return;
        }
        // The gradient of the product of the first two cores.
        let product = &mut room.product[..a * b * rank];
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
    for (x, out) in x.chunks_exact(inner).zip(out.chunks_exact_mut(columns)).take(rows) {
        out.fill(0.0);
        let (fours, rest) = x.as_chunks::<4>();
        for (i, &x) in fours.iter().enumerate() {
            add_four::<FUSED>(out, x, &y[4 * i * columns..][..4 * columns]);
        }
        for (&x, y) in rest.iter().zip(y[4 * fours.len() * columns..].chunks_exact(columns)) {
            add_scaled::<FUSED>(out, x, y);
        }
    }
}
