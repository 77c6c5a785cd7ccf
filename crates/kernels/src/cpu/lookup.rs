//! Pooled rows of all tables: `out[s, t] = Σᵢ weightᵢ·row(idᵢ)`.
//!
//! Rows lie anywhere in tables far larger than the caches, so they are asked for several ids ahead of their use. The ids
//! of neighbouring samples lie side by side in the values buffer: looking ahead there needs no index.
#![allow(unsafe_code)]

use super::Cpu;
use super::level::prefetch;
use super::shared::Shared;
use crate::{KernelError, Lookup, Table, reference};
use spec::Pooling;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Samples for which all tables are looked up before the next ones: their part of `out` stays near.
const SAMPLES: usize = 256;
/// Bytes of rows on their way at a time.
const AHEAD: usize = 4096;
/// Bytes of output from which on it is written past the caches: it would not stay there, and each line need not be read
/// before it is written.
const STREAMED: usize = 32 << 20;

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
    let streamed =
        samples.len() * width * size_of::<f32>() >= STREAMED && out.as_ptr().addr().is_multiple_of(64);
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
                        // Lines of `out` are written whole.
                        let streamed = streamed && width.is_multiple_of(16) && columns[t].is_multiple_of(16);
                        let bags = Bags { starts, lengths, values, weights, streamed };
                        match tables[t].dim {
                            16 => bags.pool::<16>(&tables[t], row_of),
                            32 => bags.pool::<32>(&tables[t], row_of),
                            64 => bags.pool::<64>(&tables[t], row_of),
                            128 => bags.pool::<128>(&tables[t], row_of),
                            _ => bags.pool_any(&tables[t], row_of),
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

/// Some bags of one table.
struct Bags<'a> {
    starts: &'a [u32],
    lengths: &'a [u32],
    values: &'a [u32],
    weights: Option<&'a [f32]>,
    /// Whether results go past the caches.
    streamed: bool,
}

impl Bags<'_> {
    /// Pools rows of a dimension known here: a bag's sum stays in registers.
    #[inline(always)]
    fn pool<'o, const DIM: usize>(&self, table: &Table, out: impl Fn(usize) -> &'o mut [f32]) {
        let rows = table.weights.host();
        for (s, (&start, &length)) in self.starts.iter().zip(self.lengths).enumerate() {
            let mut sum = [0f32; DIM];
            for value in start as usize..start as usize + length as usize {
                self.look_ahead(rows, DIM, value);
                let row = &rows[self.values[value] as usize * DIM..][..DIM];
                // Times one is exact, and so is zero plus the first, but for the sign of a zero.
                let weight = self.weights.map_or(1.0, |weights| weights[value]);
                sum.iter_mut().zip(row).for_each(|(sum, row)| *sum += weight * row);
            }
            if table.pooling == Pooling::Mean && length > 1 {
                sum.iter_mut().for_each(|sum| *sum /= length as f32);
            }
            store(&sum, &mut out(s)[..DIM], self.streamed);
        }
        if self.streamed {
            fence();
        }
    }

    /// Pools bags of any embedding dimension; otherwise as [`Bags::pool`].
    #[inline(always)]
    fn pool_any<'o>(&self, table: &Table, out: impl Fn(usize) -> &'o mut [f32]) {
        let (rows, dim) = (table.weights.host(), table.dim);
        for (s, (&start, &length)) in self.starts.iter().zip(self.lengths).enumerate() {
            let out = &mut out(s)[..dim];
            out.fill(0.0);
            for value in start as usize..start as usize + length as usize {
                self.look_ahead(rows, dim, value);
                let row = &rows[self.values[value] as usize * dim..][..dim];
                let weight = self.weights.map_or(1.0, |weights| weights[value]);
                out.iter_mut().zip(row).for_each(|(out, row)| *out += weight * row);
            }
            if table.pooling == Pooling::Mean && length > 1 {
                out.iter_mut().for_each(|out| *out /= length as f32);
            }
        }
    }

    /// Asks for rows that will be needed soon.
    #[inline(always)]
    fn look_ahead(&self, rows: &[f32], dim: usize, value: usize) {
        let ahead = (AHEAD / (4 * dim.max(1))).clamp(2, 32);
        if let Some(&next) = self.values.get(value + 3 * ahead) {
            // One line early brings the address translation.
            prefetch(rows, next as usize * dim, 1);
        }
        if let Some(&next) = self.values.get(value + ahead) {
            prefetch(rows, next as usize * dim, dim);
        }
    }
}

/// `to = from`, past the caches where asked.
#[inline(always)]
fn store<const DIM: usize>(from: &[f32; DIM], to: &mut [f32], streamed: bool) {
    #[cfg(target_arch = "x86_64")]
    if streamed && to.as_ptr().addr().is_multiple_of(64) && to.len() == DIM && DIM.is_multiple_of(16) {
        use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
        for i in (0..DIM).step_by(4) {
            // SAFETY: both are DIM long, a multiple of 4, and `to` is aligned to a line.
            unsafe { _mm_stream_ps(to.as_mut_ptr().add(i), _mm_loadu_ps(from.as_ptr().add(i))) };
        }
        return;
    }
    let _ = streamed;
    to.copy_from_slice(from);
}

/// Makes streamed stores visible to other threads before whatever follows.
#[inline(always)]
fn fence() {
    // SAFETY: every x86-64 has this instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

#[cfg(test)]
mod tests;
