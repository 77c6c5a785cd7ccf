//! Ids grouped by row: `kernels/sort.cu`, a stable radix sort of ten bits a pass.

use super::Cuda;
use super::arrays::Scratch;
use super::memory::Pointer;
use super::tables::{BLOCK, Span, TableCall, spans, tiles};
use crate::op::{Result, need};
use crate::{BagIndex, Buffer, SortedIds, Table};

/// Keys of a tile.
const TILE_KEYS: usize = 2048;
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
    need("sort_ids", "32-bit places of keys", total, u32::MAX as usize)?;
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
    /// The most tiles of a part.
    tiles: usize,
    counts: Pointer,
}

impl<'a> Sort<'a> {
    /// A sort of the keys of `bounds`, which change from step to step or repeat.
    pub(super) fn new(cuda: &'a Cuda, parts: &[Span], change: bool) -> Result<Self> {
        let (all, most) = tiles(parts, TILE_KEYS);
        let counts = cuda.scratch(Scratch::Histogram, all * DIGITS * size_of::<u32>())?;
        Ok(Self { cuda, spans: cuda.array(change, parts)?, parts: parts.len(), tiles: most, counts })
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
        let grid = [self.tiles, self.parts, 1];
        let (mut from, mut to) = if shifts.len().is_multiple_of(2) { (keys, spare) } else { (spare, keys) };
        for &shift in shifts {
            let count = self.cuda.kernel("sort_count").grid3(grid).arg(self.spans).arg(from).arg(shift);
            count.arg(self.counts).launch()?;
            let places = self.cuda.kernel("sort_places").block(1024).grid(self.parts).arg(self.spans);
            places.arg(self.counts).launch()?;
            let scatter = self.cuda.kernel("sort_scatter").grid3(grid).arg(self.spans).arg(from).arg(to);
            scatter.arg(shift).arg(self.counts).launch()?;
            (from, to) = (to, from);
        }
        Ok(())
    }
}
