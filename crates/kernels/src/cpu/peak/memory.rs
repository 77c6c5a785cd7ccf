//! Memory bandwidth: a stream, random rows that are read, and random rows that are changed.
//!
//! A loop here does nothing but touch memory. Pages are huge, ids are drawn before the clock starts, no load waits for another, and rows
//! are touched in the way that is best on this machine.

use crate::cpu::Cpu;
use crate::cpu::level::prefetch;
use crate::cpu::stream;
use crate::{Buffer, Device, KernelError};
use ground::random::RandomSequence;
use std::sync::Mutex;
use std::time::Instant;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of cache lines that every thread touches in a round of random rows.
const ROUND: usize = 24 << 20;
/// Ways that are tried for every row size. Rows are asked for so many bytes ahead of their use.
const WAYS: [Way; 6] = [
    Way::Ahead(0),
    Way::Ahead(1 << 10),
    Way::Ahead(2 << 10),
    Way::Ahead(4 << 10),
    Way::Ahead(8 << 10),
    Way::Together,
];
/// Rows that are read side by side in [`Way::Together`].
const TOGETHER: usize = 16;
/// Rounds from which the best is taken.
const ROUNDS: usize = 7;
/// Bytes that are streamed by [`stream()`], far more than the caches hold.
const STREAM: usize = 1 << 30;

/// Bandwidth of a stream through memory, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Bytes read from one end to the other.
    pub read: f64,
    /// Bytes copied, each counted twice: read and written past the caches.
    pub copy: f64,
}

/// Streaming bandwidth of `threads` threads: the best of several rounds.
pub fn stream(threads: usize) -> Result<Stream, KernelError> {
    let mut memory = Memory::new(STREAM, threads)?;
    let best =
        |best: Stream, now: Stream| Stream { read: best.read.max(now.read), copy: best.copy.max(now.copy) };
    Ok((0..ROUNDS).map(|_| memory.stream()).fold(Stream { read: 0.0, copy: 0.0 }, best))
}

/// Bytes a second of random rows of `row_bytes` that `threads` threads read from a table of `table_bytes` and add up: the best of
/// several rounds.
///
/// ```
/// let bytes_per_second = kernels::peak::gather(128, 4 << 20, 1)?;
/// assert!(bytes_per_second > 1e6);
/// # Ok::<(), kernels::KernelError>(())
/// ```
pub fn gather(row_bytes: usize, table_bytes: usize, threads: usize) -> Result<f64, KernelError> {
    let mut memory = Memory::new(table_bytes, threads)?;
    Ok((0..ROUNDS).map(|_| memory.gather(row_bytes)).fold(0.0, f64::max))
}

/// Bytes a second of random rows of `row_bytes` that `threads` threads read from a table of `table_bytes`, change and write back,
/// each byte counted twice: the best of several rounds.
pub fn update(row_bytes: usize, table_bytes: usize, threads: usize) -> Result<f64, KernelError> {
    let mut memory = Memory::new(table_bytes, threads)?;
    Ok((0..ROUNDS).map(|_| memory.update(row_bytes)).fold(0.0, f64::max))
}

/// Memory that bare loops run over, one round at a time: for measurements that take turns with others.
#[derive(Debug)]
pub struct Memory {
    cpu: Cpu,
    table: Buffer<f32>,
    ids: Vec<u32>,
    rounds: u64,
    /// Best way of each loop and row size so far.
    tuned: Vec<Tuned>,
}

/// Best way for rows of one size.
#[derive(Clone, Copy, Debug)]
struct Tuned {
    kind: Kind,
    floats: usize,
    way: Way,
}

/// Order in which random rows are touched.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Row after row, each asked for so many bytes of rows ahead; at 0 only the processor looks ahead.
    Ahead(usize),
    /// Part after part of a few rows; rows that are changed are touched as with 4 KiB ahead.
    Together,
}

/// What is done to random rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers are read and added up.
    Gather,
    /// Numbers are read, changed and written back.
    Update,
}

impl Memory {
    /// Allocates and writes a table of about `bytes` bytes, at least a cache line for each thread.
    pub fn new(bytes: usize, threads: usize) -> Result<Self, KernelError> {
        let cpu = Cpu::new(threads)?;
        let floats = (bytes / size_of::<f32>()).max(LINE * cpu.threads());
        let mut table = Buffer::zeroed(&Device::Reference, floats)?;
        // Written, so that every page is there.
        table.host_mut().fill(1.0);
        Ok(Self { cpu, table, ids: Vec::new(), rounds: 0, tuned: Vec::new() })
    }

    /// The table.
    #[doc(hidden)]
    pub fn table(&self) -> &[f32] {
        self.table.host()
    }

    /// Streaming bandwidth: the table is read once, and half of it is copied to the other half.
    pub fn stream(&mut self) -> Stream {
        let Self { cpu, table, .. } = self;
        let bytes = (table.len() * size_of::<f32>()) as f64;
        let read = {
            let table = table.host();
            let clock = Instant::now();
            cpu.divide(table.len(), LINE, &|_, range| {
                let read = cpu.level.run(
                    #[inline(always)]
                    || sum(&table[range]),
                );
                std::hint::black_box(read);
            });
            bytes / clock.elapsed().as_secs_f64()
        };
        let half = first_half(table.len());
        let (from, to) = table.host_mut().split_at_mut(half);
        let from = &*from;
        let each = from.len().div_ceil(cpu.threads()).next_multiple_of(LINE).max(LINE);
        let pairs: Vec<_> = to.chunks_mut(each).zip(from.chunks(each)).map(Mutex::new).collect();
        let clock = Instant::now();
        cpu.divide(pairs.len(), 1, &|_, range| {
            for pair in &pairs[range] {
                let (to, from) = &mut *pair.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let len = to.len().min(from.len());
                stream::copy(cpu.level, &from[..len], &mut to[..len]);
                stream::fence();
            }
        });
        Stream { read, copy: bytes / clock.elapsed().as_secs_f64() }
    }

    /// Bytes a second of random rows of `row_bytes` that are read and added up, in one round.
    pub fn gather(&mut self, row_bytes: usize) -> f64 {
        self.round(Kind::Gather, row_bytes)
    }

    /// Bytes a second of random rows of `row_bytes` that are read, changed and written back, in one round. Every thread has a part of
    /// the table to itself.
    pub fn update(&mut self, row_bytes: usize) -> f64 {
        self.round(Kind::Update, row_bytes)
    }

    fn round(&mut self, kind: Kind, row_bytes: usize) -> f64 {
        let part = self.table.len() / self.cpu.threads();
        let floats = (row_bytes / size_of::<f32>()).clamp(1, part);
        let known = self.tuned.iter().find(|tuned| tuned.kind == kind && tuned.floats == floats);
        let way = match known {
            Some(tuned) => tuned.way,
            None => {
                let best = |memory: &mut Self, way| {
                    (0..3).map(|_| memory.random_rows(kind, floats, way)).fold(0.0, f64::max)
                };
                let rates = WAYS.map(|way| (best(self, way), way));
                let (_, way) =
                    rates.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are several ways");
                self.tuned.push(Tuned { kind, floats, way });
                way
            }
        };
        self.random_rows(kind, floats, way)
    }

    /// Bytes a second of one round over rows of `floats` floats.
    #[doc(hidden)]
    pub fn random_rows(&mut self, kind: Kind, floats: usize, way: Way) -> f64 {
        let Self { cpu, table, ids, rounds, .. } = self;
        let threads = cpu.threads();
        let part = table.len() / threads;
        let each = (ROUND / (4 * floats).next_multiple_of(LINE)).max(1);
        let rows = match kind {
            Kind::Gather => table.len() / floats,
            Kind::Update => part / floats,
        };
        let ahead = match way {
            Way::Ahead(0) => 0,
            Way::Ahead(bytes) => (bytes / (4 * floats)).clamp(1, 64),
            Way::Together => (4096 / (4 * floats)).clamp(1, 64),
        };
        *rounds += 1;
        let numbers = RandomSequence::new(*rounds, "peak.rows");
        ids.clear();
        // The upper half of 64 random bits times the number of rows: the division is too slow for so many.
        let id = |i: usize| ((u128::from(numbers.bits(i as u64)) * rows.min(1 << 32) as u128) >> 64) as u32;
        ids.extend((0..each * threads).map(id));
        let seconds = match kind {
            Kind::Gather => {
                let table = table.host();
                let clock = Instant::now();
                cpu.divide(threads, 1, &|_, range| {
                    for ids in ids.chunks(each).skip(range.start).take(range.len()) {
                        let sum = cpu.level.run(
                            #[inline(always)]
                            || match way {
                                Way::Together => sum_rows_together(table, floats, ids),
                                Way::Ahead(_) => sum_rows(table, floats, ids, ahead),
                            },
                        );
                        std::hint::black_box(sum);
                    }
                });
                clock.elapsed().as_secs_f64()
            }
            Kind::Update => {
                let parts = table.host_mut().chunks_mut(part).zip(ids.chunks(each));
                let parts: Vec<_> = parts.map(Mutex::new).collect();
                let clock = Instant::now();
                cpu.divide(threads, 1, &|_, range| {
                    for part in &parts[range] {
                        let (table, ids) = &mut *part.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        cpu.level.run(
                            #[inline(always)]
                            || change_rows(table, floats, ids, ahead),
                        );
                    }
                });
                clock.elapsed().as_secs_f64()
            }
        };
        let times = if kind == Kind::Update { 2 } else { 1 };
        (times * threads * each * floats * size_of::<f32>()) as f64 / seconds
    }
}

/// Floats of the first of two halves, whole cache lines.
pub fn first_half(floats: usize) -> usize {
    floats / 2 / (LINE / size_of::<f32>()) * (LINE / size_of::<f32>())
}

/// Adds numbers up in 64 sums side by side.
#[inline(always)]
fn sum(of: &[f32]) -> f32 {
    let mut sums = [0f32; 64];
    let (blocks, _) = of.as_chunks::<64>();
    for block in blocks {
        sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum()
}

/// Adds up rows of a table, cache line by cache line.
#[inline(always)]
pub fn sum_rows(table: &[f32], floats: usize, ids: &[u32], ahead: usize) -> f32 {
    let (mut sums, mut few, mut single) = ([0f32; 16], [0f32; 4], 0f32);
    for (i, &id) in ids.iter().enumerate() {
        if ahead > 0
            && let Some(&next) = ids.get(i + ahead)
        {
            prefetch(table, next as usize * floats, floats);
        }
        let (lines, rest) = table[id as usize * floats..][..floats].as_chunks::<16>();
        for line in lines {
            sums.iter_mut().zip(line).for_each(|(sum, x)| *sum += x);
        }
        let (fours, rest) = rest.as_chunks::<4>();
        for four in fours {
            few.iter_mut().zip(four).for_each(|(sum, x)| *sum += x);
        }
        rest.iter().for_each(|x| single += x);
    }
    sums.iter().sum::<f32>() + few.iter().sum::<f32>() + single
}

/// Changes rows of a table.
#[inline(always)]
pub fn change_rows(table: &mut [f32], floats: usize, ids: &[u32], ahead: usize) {
    for (i, &id) in ids.iter().enumerate() {
        if ahead > 0
            && let Some(&next) = ids.get(i + ahead)
        {
            prefetch(table, next as usize * floats, floats);
        }
        // A few vectors at a time: a loop over single lines would become one of gathers and scatters.
        let (blocks, rest) = table[id as usize * floats..][..floats].as_chunks_mut::<64>();
        blocks.iter_mut().for_each(add);
        let (halves, rest) = rest.as_chunks_mut::<32>();
        halves.first_mut().into_iter().for_each(add);
        let (lines, rest) = rest.as_chunks_mut::<16>();
        lines.first_mut().into_iter().for_each(add);
        let (fours, rest) = rest.as_chunks_mut::<4>();
        fours.iter_mut().for_each(add);
        rest.iter_mut().for_each(|x| *x += 1e-3);
    }
}

#[inline(always)]
fn add<const N: usize>(to: &mut [f32; N]) {
    to.iter_mut().for_each(|x| *x += 1e-3);
}

/// Adds up rows of a table, a few rows side by side: the processor looks ahead in each of them.
#[inline(always)]
pub fn sum_rows_together(table: &[f32], floats: usize, ids: &[u32]) -> f32 {
    let (mut sums, mut single) = ([0f32; 16], 0f32);
    for ids in ids.chunks(TOGETHER) {
        for from in (0..floats).step_by(32) {
            let until = (from + 32).min(floats);
            for &id in ids {
                let (lines, rest) = table[id as usize * floats..][..floats][from..until].as_chunks::<16>();
                for line in lines {
                    sums.iter_mut().zip(line).for_each(|(sum, x)| *sum += x);
                }
                rest.iter().for_each(|x| single += x);
            }
        }
    }
    sums.iter().sum::<f32>() + single
}
