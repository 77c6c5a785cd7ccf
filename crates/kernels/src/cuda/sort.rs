//! Ids grouped by row: `kernels/sort.cu`, a stable radix sort of ten bits and one launch a pass.

use super::Cuda;
use super::arrays::Scratch;
use super::memory::Pointer;
use super::tables::{BLOCK, Span, TableCall, spans, tiles};
use crate::op::{Result, need};
use crate::{BagIndex, Buffer, SortedIds, Table};

/// Keys of a tile.
const TILE_KEYS: usize = 4096;
/// Threads of a block that sorts a tile.
const THREADS: u32 = 512;
/// The most passes: their first bits are bytes of a word.
const PASSES: usize = 8;
/// The most keys: places are 31 bits.
const MOST_KEYS: usize = i32::MAX as usize;
/// Bits and values of a digit.
const DIGIT: u32 = 10;
const DIGITS: usize = 1 << DIGIT;
/// Bits of a key before its row.
const ROW: u32 = 32;

pub(super) fn sort_ids(
    cuda: &Cuda,
    tables: &[Table],
    index: &BagIndex,
    values: &Buffer<u32>,
    sorted: &mut SortedIds,
) -> Result {
    let (places, count) = (&index.places, index.tables);
    need("sort_ids", "places of the index", count, places.counts.len())?;
    need("sort_ids", "places of the index", count * index.samples, places.firsts.len())?;
    let SortedIds { keys, bounds, samples } = sorted;
    bounds.clear();
    bounds.push(0);
    let mut total = 0;
    bounds.extend(places.counts[..count].iter().map(|count| {
        total += count;
        total
    }));
    need("sort_ids", "31-bit places of keys", total, MOST_KEYS)?;
    keys.resize(total)?;
    samples.resize(values.len())?;
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_values(values.len());
    if total == 0 {
        return Ok(());
    }
    if !places.ordered {
        cuda.stream().fill(samples.card_address().0, 0, values.len() * size_of::<u32>())?;
    }
    let most = tables[..count].iter().map(|table| table.rows).max().unwrap_or(0);
    let by_value = if places.ordered { 0 } else { passes(values.len()) };
    let shifts: Vec<u32> = (0..by_value).map(|pass| DIGIT * pass).chain(row_shifts(most)).collect();
    let parts = Sort::parts(bounds.iter().copied().zip(bounds[1..].iter().copied()));
    let sort = Sort::new(cuda, &parts, places.vary)?;
    let spare = cuda.scratch(Scratch::Keys, total * size_of::<u64>())?;
    let sorted = keys.card_address();
    let first = if shifts.len().is_multiple_of(2) { sorted } else { spare };
    let calls: Vec<_> =
        tables[..count].iter().enumerate().map(|(t, table)| TableCall::new(table, t, 0, 0)).collect();
    // Threads for each bag, by what an average bag holds.
    let lanes = match total / (count * index.samples) {
        0..=2 => 1,
        3..=16 => 4,
        _ => 32,
    };
    cuda.kernel("emit_keys")
        .grid3([index.samples.div_ceil(BLOCK / lanes), count, 1])
        .arg(cuda.constant(&calls)?)
        .arg(&index.starts)
        .arg(&index.lengths)
        .arg(&places.firsts)
        .arg(index.samples)
        .arg(lanes as u32)
        .arg(values)
        .arg(values.len())
        .arg(first)
        .arg(total)
        .arg(samples)
        .arg(u32::from(!places.ordered))
        .arg(cuda.faults())
        .launch()?;
    sort.passes(&shifts, sorted, spare)
}

/// Passes that order all numbers up to `most`, and behind them keys that name no row: these are ones all over.
fn passes(most: usize) -> u32 {
    (usize::BITS - most.leading_zeros()).min(u32::BITS).div_ceil(DIGIT)
}

/// First bits of the digits that order rows up to `most`.
pub(super) fn row_shifts(most: usize) -> impl Iterator<Item = u32> {
    (0..passes(most)).map(|pass| ROW + DIGIT * pass)
}

/// A sort of keys, part by part.
pub(super) struct Sort<'a> {
    cuda: &'a Cuda,
    spans: Pointer,
    parts: usize,
    /// The tiles of all parts, and the most of one.
    tiles: (usize, usize),
}

impl<'a> Sort<'a> {
    /// A sort of the keys of `bounds`, which change from step to step or repeat.
    pub(super) fn new(cuda: &'a Cuda, parts: &[Span], change: bool) -> Result<Self> {
        let tiles = tiles(parts, TILE_KEYS);
        Ok(Self { cuda, spans: cuda.array(change, parts)?, parts: parts.len(), tiles })
    }

    /// The parts on the card.
    pub(super) fn spans(&self) -> Pointer {
        self.spans
    }

    /// Parts of the keys between `bounds`.
    pub(super) fn parts(bounds: impl Iterator<Item = (usize, usize)>) -> Vec<Span> {
        spans(bounds, TILE_KEYS)
    }

    /// Sorts by the digits that begin at the bits `shifts`, the last counting most. The keys are in `keys`, or in `spare` where the
    /// number of passes is odd; in the end they are in `keys`.
    pub(super) fn passes(&self, shifts: &[u32], keys: Pointer, spare: Pointer) -> Result {
        let passes = shifts.len();
        if passes == 0 {
            return Ok(());
        }
        assert!(passes <= PASSES, "a key has 64 bits");
        let (all, most) = self.tiles;
        // For each pass: a word for two digits of each tile, how often each digit occurs in each part, and a number for each part.
        let (known, totals) = (all * DIGITS / 2 * size_of::<u64>(), self.parts * DIGITS * size_of::<u32>());
        let tickets = self.parts * size_of::<u32>();
        let bytes = passes * (known + totals + tickets);
        let room = self.cuda.scratch(Scratch::Histogram, bytes)?;
        self.cuda.stream().fill(room.0, 0, bytes)?;
        let known_of = |pass: usize| room.plus(pass * known);
        let totals_of = |pass: usize| room.plus(passes * known + pass * totals);
        let tickets_of = |pass: usize| room.plus(passes * (known + totals) + pass * tickets);
        let (grid, even) = ([most, self.parts, 1], passes.is_multiple_of(2));
        let (mut from, mut to) = if even { (keys, spare) } else { (spare, keys) };
        let first_bits = shifts.iter().rev().fold(0u64, |word, &shift| word << 8 | u64::from(shift));
        let count = self.cuda.kernel("sort_count").block(THREADS).grid3(grid).arg(self.spans).arg(from);
        count.arg(first_bits).arg(passes as u32).arg(totals_of(0)).launch()?;
        for (pass, &shift) in shifts.iter().enumerate() {
            let kernel = self.cuda.kernel("sort_pass").block(THREADS).grid3(grid);
            let kernel = kernel.arg(self.spans).arg(from).arg(to).arg(shift);
            kernel.arg(totals_of(pass)).arg(tickets_of(pass)).arg(known_of(pass)).launch()?;
            (from, to) = (to, from);
        }
        Ok(())
    }
}
