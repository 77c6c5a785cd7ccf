//! The ids of a step grouped by row: `row << 32 | value index`, ascending, table by table.
//!
//! Keys are laid out in the order of their values, so a stable radix sort by row alone gives the order of the whole keys.
//! An index may number blocks of samples in another order than their ids arrived in: then the blocks are taken by
//! their first value. The first pass makes keys of the ids where they lie, and all passes count their digits in one go. Threads divide the
//! tables.
#![allow(unsafe_code)]

use super::Cpu;
use super::level::prefetch_for_write;
use super::shared::Shared;
use crate::{BagIndex, Buffer, KernelError, SortedIds, Table, reference};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The most bits that one pass of the radix sort looks at: the lines that a pass writes to stay in the first-level cache.
const MOST_BITS: u32 = 8;
/// The most passes of the radix sort.
const MOST_PASSES: usize = (u32::BITS / MOST_BITS) as usize;
/// Numbers of keys by digit, or the places of the next ones.
type Digits = [u32; 1 << MOST_BITS];
/// Keys between one that is written and the place that is asked for, in each digit's part.
const AHEAD: usize = 16;
/// Keys of a table that are sorted by comparing.
const FEW: usize = 64;

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
    let bags = starts.iter().zip(lengths).take(index.tables * index.samples);
    let end = bags.fold(0, |end, (&start, &length)| u64::max(end, start as u64 + length as u64));
    let inside = end <= values.len() as u64;
    let room = if inside { keys.resize(total).and_then(|()| samples.resize(values.len())) } else { Ok(()) };
    let (refused, full) = (AtomicBool::new(!inside), AtomicBool::new(room.is_err()));
    if inside && room.is_ok() {
        let (keys, samples) = (Shared::new(keys.host_mut()), atomic(samples.host_mut()));
        let pieces = if cpu.threads == 1 { 1 } else { cpu.scratch.len().min(index.tables) };
        // Room for all pieces, though few keys may make fewer of them today.
        if (0..pieces).any(|piece| cpu.scratch(piece, largest * size_of::<u64>()).is_err()) {
            full.store(true, Ordering::Relaxed);
        }
        // By keys: a table belongs to the piece in which its keys begin. There are no more pieces than tables.
        let grain = total.div_ceil(index.tables.max(1)).max(1);
        cpu.divide_finely(total, grain, &|piece, range| {
            let first = |key: usize| bounds[..index.tables].partition_point(|&bound| bound < key);
            let which = first(range.start)..first(range.end);
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
    let bags = Bags::new(starts, lengths, samples);
    let bits = rows.saturating_sub(1).checked_ilog2().map_or(0, |top| top + 1).min(u32::BITS);
    let passes = bits.div_ceil(MOST_BITS);
    let digit = if passes == 0 { 0 } else { bits.div_ceil(passes) };
    let (mut largest, mut counts) = (0, [[0; 1 << MOST_BITS]; MOST_PASSES]);
    bags.blocks(|block| {
        let ids = &values[block];
        largest = ids.iter().fold(largest, |largest, &id| u32::max(largest, id));
        match passes {
            0 => (),
            1 => count::<1>(ids, digit, &mut counts),
            2 => count::<2>(ids, digit, &mut counts),
            3 => count::<3>(ids, digit, &mut counts),
            _ => count::<4>(ids, digit, &mut counts),
        }
    });
    if !keys.is_empty() && largest as usize >= rows {
        return false;
    }
    if keys.len() < FEW || passes == 0 {
        let mut at = 0;
        bags.blocks(|block| at = fill(keys, at, block, values));
        keys.sort_unstable();
        return true;
    }
    let (mut to, mut from) = if passes % 2 == 1 { (keys, spare) } else { (spare, keys) };
    if bags.ascending {
        let places = places(&mut counts[0]);
        bags.blocks(|block| {
            for (value, &id) in (block.start as u64..).zip(&values[block]) {
                put(id, (id as u64) << 32 | value, digit, places, to);
            }
        });
    } else {
        if !fill_by_value(starts, lengths, values, from, to) {
            if passes % 2 == 1 {
                to.copy_from_slice(from);
                from = to;
            }
            from.sort_unstable();
            return true;
        }
        scatter(32, digit, from, places(&mut counts[0]), to);
    }
    for pass in 1..passes {
        (to, from) = (from, to);
        scatter(32 + pass * digit, digit, from, places(&mut counts[pass as usize]), to);
    }
    true
}

/// Bags of one table.
struct Bags<'a> {
    starts: &'a [u32],
    lengths: &'a [u32],
    /// Whether values ascend from bag to bag.
    ascending: bool,
    /// All values, if the bags lie without a gap one behind another.
    whole: Option<Range<usize>>,
}

impl<'a> Bags<'a> {
    /// Looks at all bags, and writes the samples of their values.
    fn new(starts: &'a [u32], lengths: &'a [u32], samples: &[AtomicU32]) -> Self {
        let mut filled = starts.iter().zip(lengths).filter(|(_, length)| **length > 0);
        let first = filled.next().map_or(0, |(&start, _)| start as usize);
        let follows = |right: bool, (&start, i): (&u32, usize)| right & (start as usize == first + i);
        let ones = lengths.iter().fold(true, |right, &length| right & (length == 1));
        if ones && starts.iter().zip(0..).fold(true, follows) {
            let whole = first..first + starts.len();
            for (at, sample) in samples[whole.clone()].iter().zip(0..) {
                at.store(sample, Ordering::Relaxed);
            }
            return Self { starts, lengths, ascending: true, whole: Some(whole) };
        }
        let (mut next, mut ascending, mut gaps) = (first as u32, true, false);
        for (sample, (&start, &length)) in starts.iter().zip(lengths).enumerate() {
            if length == 0 {
                continue;
            }
            ascending &= start >= next;
            gaps |= start != next;
            next = start + length;
            for at in &samples[start as usize..next as usize] {
                at.store(sample as u32, Ordering::Relaxed);
            }
        }
        let whole = (!gaps).then_some(first..next as usize);
        Self { starts, lengths, ascending, whole }
    }

    /// Gives the values of all bags to `work`, those of bags that lie without a gap one behind another at once.
    fn blocks(&self, mut work: impl FnMut(Range<usize>)) {
        if let Some(whole) = &self.whole {
            return work(whole.clone());
        }
        let mut block = 0..0;
        for (&start, &length) in self.starts.iter().zip(self.lengths).filter(|(_, length)| **length > 0) {
            let start = start as usize;
            if start != block.end {
                work(std::mem::replace(&mut block, start..start));
            }
            block.end += length as usize;
        }
        work(block);
    }
}

/// Counts the first `PASSES` digits of all ids.
#[inline(always)]
fn count<const PASSES: usize>(ids: &[u32], digit: u32, counts: &mut [Digits; MOST_PASSES]) {
    for &id in ids {
        for (pass, counts) in counts.iter_mut().enumerate().take(PASSES) {
            counts[lowest(id >> (pass as u32 * digit), digit)] += 1;
        }
    }
}

/// Writes keys of a block of values from `at` on; gives the place behind them.
fn fill(keys: &mut [u64], at: usize, block: Range<usize>, values: &[u32]) -> usize {
    let end = at + block.len();
    for ((key, value), &id) in keys[at..end].iter_mut().zip(block.start as u64..).zip(&values[block]) {
        *key = (id as u64) << 32 | value;
    }
    end
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

/// The lowest `bits` bits, of which there are at most [`MOST_BITS`].
#[inline(always)]
fn lowest(of: u32, bits: u32) -> usize {
    (of as u8 & ((1u32 << bits) - 1) as u8) as usize
}

/// Makes places of the first key of each digit of numbers of keys.
fn places(counts: &mut Digits) -> &mut Digits {
    let mut before = 0;
    for count in counts.iter_mut() {
        before += std::mem::replace(count, before);
    }
    counts
}

/// One stable pass: the keys in order of the `bits` bits from `shift` on.
fn scatter(shift: u32, bits: u32, from: &[u64], places: &mut Digits, to: &mut [u64]) {
    for &key in from {
        put((key >> shift) as u32, key, bits, places, to);
    }
}

/// Writes a key behind those of the same digit, the lowest `bits` bits of `digits`. Lines that are not in a cache must be there when
/// their turn comes.
#[inline(always)]
fn put(digits: u32, key: u64, bits: u32, places: &mut Digits, to: &mut [u64]) {
    let place = &mut places[lowest(digits, bits)];
    prefetch_for_write(to.as_ptr(), *place as usize + AHEAD, 1);
    to[*place as usize] = key;
    *place += 1;
}
