//! The ids of a step grouped by row: `row << 32 | value index`, ascending, table by table.
//!
//! Keys are laid out in the order of their values, so a stable radix sort by row alone gives the order of the whole keys.
//! An index may number blocks of samples in another order than their ids arrived in: then the blocks are taken by
//! their first value. Threads divide the tables.
#![allow(unsafe_code)]

use super::Cpu;
use super::shared::Shared;
use crate::{BagIndex, Buffer, KernelError, SortedIds, Table, reference};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The most bits that one pass of the radix sort looks at.
const MOST_BITS: u32 = 11;

pub(crate) fn sort_ids(
    cpu: &Cpu,
    tables: &[Table],
    index: &BagIndex,
    ids: &Buffer<u32>,
    sorted: &mut SortedIds,
) -> Result<(), KernelError> {
    let values = ids.host();
    let SortedIds { keys, bounds, samples } = sorted;
    let (starts, lengths) = (index.starts.host(), index.lengths.host());
    let (mut total, mut largest) = (0, 0);
    bounds.clear();
    bounds.push(0);
    for t in 0..index.tables {
        let bags = &lengths[t * index.samples..][..index.samples];
        let count: usize = bags.iter().map(|&length| length as usize).sum();
        (total, largest) = (total + count, largest.max(count));
        bounds.push(total);
    }
    // A bag that reaches past the values must be refused before anything of its size is asked for.
    let mut bags = starts.iter().zip(lengths).take(index.tables * index.samples);
    let inside = bags.all(|(&start, &length)| start as usize + length as usize <= values.len());
    let room = if inside { keys.resize(total).and_then(|()| samples.resize(values.len())) } else { Ok(()) };
    let (refused, full) = (AtomicBool::new(!inside), AtomicBool::new(room.is_err()));
    if inside && room.is_ok() {
        let (keys, samples) = (Shared::new(keys.host_mut()), atomic(samples.host_mut()));
        cpu.divide_finely(index.tables, 1, &|piece, which| {
            let Ok(mut scratch) = cpu.scratch(piece, largest * size_of::<u64>()) else {
                return full.store(true, Ordering::Relaxed);
            };
            for t in which {
                // SAFETY: the keys of different tables do not overlap.
                let keys = unsafe { keys.piece(bounds[t]..bounds[t + 1]) };
                let bags = t * index.samples..(t + 1) * index.samples;
                let (starts, lengths) = (&starts[bags.clone()], &lengths[bags]);
                let spare = &mut scratch.of::<u64>()[..keys.len()];
                if !sort_table(tables[t].rows, starts, lengths, values, samples, keys, spare) {
                    return refused.store(true, Ordering::Relaxed);
                }
            }
        });
    }
    if refused.into_inner() {
        // The reference finds the bag or the id at fault, and leaves no bounds behind.
        return reference::embedding::sort_ids(tables, index, ids, sorted);
    }
    if full.into_inner() {
        bounds.clear();
        return Err(KernelError::OutOfMemory { bytes: (total + largest) * size_of::<u64>() });
    }
    Ok(())
}

/// The slice as atomics: bags of a hand-made index may overlap, and then two threads write the same sample.
fn atomic(samples: &mut [u32]) -> &[AtomicU32] {
    // SAFETY: same size and alignment, and the borrow is exclusive for as long as the atomics live.
    unsafe { &*(std::ptr::from_mut(samples) as *const [AtomicU32]) }
}

/// Fills and sorts the keys of one table; false if an id is past its end.
fn sort_table(
    rows: usize,
    starts: &[u32],
    lengths: &[u32],
    values: &[u32],
    samples: &[AtomicU32],
    keys: &mut [u64],
    spare: &mut [u64],
) -> bool {
    let bits = rows.saturating_sub(1).checked_ilog2().map_or(0, |top| top + 1).min(32);
    let small = keys.len() < 64;
    // Few keys do not pay for large histograms.
    let passes = if small { 0 } else { bits.div_ceil(if keys.len() < 8192 { 8 } else { MOST_BITS }) };
    let (mut from, mut to) = if passes % 2 == 0 { (&mut *keys, spare) } else { (spare, &mut *keys) };
    let (mut at, mut ascending, mut largest) = (0, true, 0);
    let mut next = 0;
    for (sample, (&start, &length)) in starts.iter().zip(lengths).enumerate() {
        if length == 0 {
            continue;
        }
        ascending &= start >= next;
        next = start + length;
        for value in start..next {
            let id = values[value as usize];
            largest = largest.max(id);
            samples[value as usize].store(sample as u32, Ordering::Relaxed);
            from[at] = (id as u64) << 32 | value as u64;
            at += 1;
        }
    }
    if at > 0 && largest as usize >= rows {
        return false;
    }
    if !small && !ascending {
        ascending = fill_by_value(starts, lengths, values, from, to);
    }
    if small || !ascending {
        if passes % 2 == 1 {
            to.copy_from_slice(from);
        }
        keys.sort_unstable();
        return true;
    }
    let digit = if passes == 0 { 0 } else { bits.div_ceil(passes) };
    for pass in 0..passes {
        scatter(32 + pass * digit, digit, from, to);
        (from, to) = (to, from);
    }
    true
}

/// Fills `keys` in the order of the values. Bags that lie without a gap one behind another make a block of values, and
/// the blocks are taken by their first; `blocks` is room for as many as there are keys. False if blocks overlap, as those
/// of a hand-made index may: then all keys are there, but not in order.
fn fill_by_value(
    starts: &[u32],
    lengths: &[u32],
    values: &[u32],
    keys: &mut [u64],
    blocks: &mut [u64],
) -> bool {
    let (mut count, mut first, mut next) = (0, 0, 0);
    let mut close = |first: u32, next: u32| {
        if first < next {
            blocks[count] = (first as u64) << 32 | next as u64;
            count += 1;
        }
    };
    for (&start, &length) in starts.iter().zip(lengths).filter(|(_, length)| **length > 0) {
        if start != next {
            close(first, next);
            first = start;
        }
        next = start + length;
    }
    close(first, next);
    let blocks = &mut blocks[..count];
    blocks.sort_unstable();
    let (mut rest, mut next, mut ascending) = (keys, 0, true);
    for block in blocks {
        let (first, end) = ((*block >> 32) as u32, *block as u32);
        ascending &= first >= next;
        next = end;
        let (keys, behind) = rest.split_at_mut((end - first) as usize);
        for ((key, value), &id) in keys.iter_mut().zip(first..).zip(&values[first as usize..end as usize]) {
            *key = (id as u64) << 32 | value as u64;
        }
        rest = behind;
    }
    ascending
}

/// One stable pass: the keys in order of the `bits` bits from `shift` on.
fn scatter(shift: u32, bits: u32, from: &[u64], to: &mut [u64]) {
    let mut places = [0u32; 1 << MOST_BITS];
    let places = &mut places[..1 << bits];
    let mask = places.len() - 1;
    for key in from {
        places[(key >> shift) as usize & mask] += 1;
    }
    let mut before = 0;
    for place in places.iter_mut() {
        before += std::mem::replace(place, before);
    }
    for &key in from {
        let place = &mut places[(key >> shift) as usize & mask];
        to[*place as usize] = key;
        *place += 1;
    }
}
