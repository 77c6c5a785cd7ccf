//! Operands of products in bf16, in the order in which matrix units read them.
//!
//! A panel holds 32 indices of an operand (rows of the left one, columns of the right one) and all of its terms, in steps of 32
//! terms: for each step two tiles of 16 indices, 1 KB each, and behind them two of lower parts where operands are split. A tile
//! of the left operand has a line for each index with its 32 terms side by side; one of the right operand has a line for each
//! pair of terms with the pairs of its 16 indices side by side. Zeros stand for indices and terms past the end.
#![allow(unsafe_code)]

use super::amx::BLOCK;
use super::level::Level;
use super::pack::{Operand, add_lines, transposed};
use super::values::{Kept, Values};
use crate::buffer::PANEL;
use std::arch::x86_64::*;
use std::ops::Range;

/// Terms of a step.
pub(crate) const STEP: usize = 32;
/// Numbers of a tile.
const TILE: usize = 512;
// Buffers store panels as products read them.
const _: () = assert!(BLOCK == PANEL && STEP == PANEL);

/// Operand of a product that a panel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Form of the panels of an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Number of terms.
    pub terms: usize,
    /// Whether each number is split into two, an upper and a lower part.
    pub split: bool,
}

impl Form {
    /// Steps of a panel.
    pub(crate) fn steps(self) -> usize {
        self.terms.div_ceil(STEP)
    }

    /// Numbers of a panel's step.
    pub(crate) fn step(self) -> usize {
        2 * TILE * if self.split { 2 } else { 1 }
    }

    /// Numbers of a panel.
    pub(crate) fn panel(self) -> usize {
        self.steps() * self.step()
    }

    /// Numbers of the panels of `count` indices.
    pub(crate) fn panels(self, count: usize) -> usize {
        count.div_ceil(BLOCK) * self.panel()
    }
}

/// Packs the panels of `indices`, with the terms from `from` on, for one side of a product.
///
/// # Safety
/// The processor must have AVX-512 with instructions for words and for bf16.
pub(crate) unsafe fn pack(
    operand: &Operand,
    indices: Range<usize>,
    from: usize,
    form: Form,
    side: Side,
    to: &mut [u16],
) {
    let to = &mut to[..form.panels(indices.len())];
    let terms = from..from + form.terms;
    let data = match operand.data {
        Values::Plain(data) => data,
        Values::Kept(kept) => {
            assert!(operand.by_k && form.split == kept.split(), "sums over rows of bf16");
            // SAFETY: the instructions exist, says the caller.
            return unsafe { pack_kept(kept, indices, terms, form, side, to, None) };
        }
    };
    let outer = if operand.by_k { [&terms, &indices] } else { [&indices, &terms] };
    let reach = outer[0].end.saturating_sub(1) * operand.stride + outer[1].end;
    assert!(indices.is_empty() || terms.is_empty() || reach <= data.len());
    let (panels, steps) = (indices.len().div_ceil(BLOCK), form.steps());
    let mut pack = |panel: usize, step: usize| {
        let (first, term) = (indices.start + panel * BLOCK, terms.start + step * STEP);
        let indices = first..(first + BLOCK).min(indices.end);
        let terms = term..(term + STEP).min(terms.end);
        let to = &mut to[panel * form.panel() + step * form.step()..][..form.step()];
        // SAFETY: the instructions exist, says the caller; the operand has all of these elements, as just checked.
        unsafe { pack_step((operand, data), indices, terms, form.split, side, to) }
    };
    // Along the rows of the source.
    if operand.by_k {
        (0..steps).for_each(|step| (0..panels).for_each(|panel| pack(panel, step)));
    } else {
        (0..panels).for_each(|panel| (0..steps).for_each(|step| pack(panel, step)));
    }
}

/// Packs the two tiles of at most 32 indices and 32 terms, and those of lower parts.
///
/// # Safety
/// The operand must have all of these elements.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pack_step(
    (operand, data): (&Operand, &[f32]),
    indices: Range<usize>,
    terms: Range<usize>,
    split: bool,
    side: Side,
    to: &mut [u16],
) {
    let (upper, lower) = to.split_at_mut(2 * TILE);
    for half in 0..2 {
        let first = (indices.start + half * 16).min(indices.end);
        let at = if operand.by_k {
            terms.start * operand.stride + first
        } else {
            first * operand.stride + terms.start
        };
        let source = Source {
            start: data.as_ptr().wrapping_add(at),
            stride: operand.stride,
            indices: (indices.end - first).min(16),
            terms: terms.len(),
        };
        let upper = &mut upper[half * TILE..][..TILE];
        // SAFETY: the caller's promise.
        unsafe {
            tile_for::<false>(operand.by_k, side, source, upper);
            if split {
                tile_for::<true>(operand.by_k, side, source, &mut lower[half * TILE..][..TILE]);
            }
        }
    }
}

/// As [`pack`] for the left side, with `sums[i] += Σₖ (indices.start + i, k)` over the packed terms in their order, beginning at 0 where `from`
/// is, if there are `sums`. Rows of bf16 are read once for both: where they come from memory, reading takes longer than packing.
///
/// # Safety
/// As for [`pack`].
pub(crate) unsafe fn pack_left(
    operand: &Operand,
    level: Level,
    indices: Range<usize>,
    from: usize,
    form: Form,
    to: &mut [u16],
    sums: Option<&mut [f32]>,
) {
    if let (Values::Kept(kept), Some(sums)) = (operand.data, sums.as_deref()) {
        assert!(operand.by_k && form.split == kept.split() && sums.len() == indices.len());
    }
    // SAFETY: the caller's promise.
    unsafe {
        match (operand.data, sums) {
            (Values::Kept(kept), Some(sums)) => {
                if from == 0 {
                    sums.fill(0.0);
                }
                pack_kept(kept, indices, from..from + form.terms, form, Side::Left, to, Some(sums));
            }
            (_, sums) => {
                if let Some(sums) = sums {
                    operand.add_up(level, indices.start, from, form.terms, sums);
                }
                pack(operand, indices, from, form, Side::Left, to);
            }
        }
    }
}

/// Packs columns of rows of bf16, whose terms are the rows, for one side of a product, and adds them to `sums`, if there are any.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pack_kept(
    kept: Kept,
    indices: Range<usize>,
    terms: Range<usize>,
    form: Form,
    side: Side,
    to: &mut [u16],
    mut sums: Option<&mut [f32]>,
) {
    let mut rooms = [[[0; BLOCK]; STEP]; 2];
    for (step, first) in terms.clone().step_by(STEP).enumerate() {
        let rows = first..(first + STEP).min(terms.end);
        for (panel, column) in indices.clone().step_by(BLOCK).enumerate() {
            let to = &mut to[panel * form.panel() + step * form.step()..][..form.step()];
            let (upper_to, lower_to) = to.split_at_mut(2 * TILE);
            let [upper_room, lower_room] = &mut rooms;
            let upper = kept.block(&rows, column, false, upper_room);
            let lower = form.split.then(|| kept.block(&rows, column, true, lower_room));
            turn_block(upper, side, upper_to);
            if let Some(lower) = lower {
                turn_block(lower, side, lower_to);
            }
            if let Some(sums) = &mut sums {
                let end = ((panel + 1) * BLOCK).min(sums.len());
                add_lines(&upper[..rows.len()], lower, &mut sums[panel * BLOCK..end]);
            }
        }
    }
}

/// Packs 32 rows of 32 numbers, whose terms are the rows, as two tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn turn_block(rows: &[[u16; BLOCK]; STEP], side: Side, to: &mut [u16]) {
    let (tiles, _) = to.as_chunks_mut::<TILE>();
    let (pairs, _) = rows.as_chunks::<2>();
    for (to, order) in tiles.iter_mut().zip([by_turns::<0, 32>(), by_turns::<16, 32>()]) {
        let mut tile = [_mm512_setzero_si512(); 16];
        for (line, pair) in tile.iter_mut().zip(pairs) {
            // SAFETY: rows are as large as registers.
            let [even, odd] =
                [0, 1].map(|row| unsafe { _mm512_maskz_loadu_epi32(u16::MAX, pair[row].as_ptr().cast()) });
            // Even and odd terms of an index are neighbours.
            *line = _mm512_permutex2var_epi16(even, order, odd);
        }
        if side == Side::Left {
            tile = transposed(tile);
        }
        let (lines, _) = to.as_chunks_mut::<32>();
        for (to, line) in lines.iter_mut().zip(tile) {
            // SAFETY: 32 words are as large as a register.
            unsafe { _mm512_mask_storeu_epi32(to.as_mut_ptr().cast(), u16::MAX, line) };
        }
    }
}

/// Packs a tile of upper or lower parts for one side of a product.
///
/// # Safety
/// The elements of `source` must be readable.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn tile_for<const LOWER: bool>(by_k: bool, side: Side, source: Source, to: &mut [u16]) {
    let whole = source.indices == 16 && source.terms == 32;
    // SAFETY: the caller's promise.
    unsafe {
        match (by_k, side, whole) {
            (false, Side::Left, true) => tile::<false, false, LOWER, true>(source, to),
            (false, Side::Left, false) => tile::<false, false, LOWER, false>(source, to),
            (false, Side::Right, true) => tile::<false, true, LOWER, true>(source, to),
            (false, Side::Right, false) => tile::<false, true, LOWER, false>(source, to),
            (true, Side::Left, true) => tile::<true, true, LOWER, true>(source, to),
            (true, Side::Left, false) => tile::<true, true, LOWER, false>(source, to),
            (true, Side::Right, true) => tile::<true, false, LOWER, true>(source, to),
            (true, Side::Right, false) => tile::<true, false, LOWER, false>(source, to),
        }
    }
}

/// Elements of an operand that become a tile: at most 16 indices and 32 terms.
#[derive(Clone, Copy)]
struct Source {
    start: *const f32,
    stride: usize,
    indices: usize,
    terms: usize,
}

/// Packs a tile of upper parts, or of `LOWER` ones. Lines are those of indices, or pairs of lines `BY_K`; then the tile is
/// transposed if it `TURNS`. A `WHOLE` source has 16 indices and 32 terms.
///
/// # Safety
/// The elements of `source` must be readable.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn tile<const BY_K: bool, const TURNS: bool, const LOWER: bool, const WHOLE: bool>(
    source: Source,
    to: &mut [u16],
) {
    let Source { start, stride, .. } = source;
    let (indices, terms) = if WHOLE { (16, 32) } else { (source.indices, source.terms) };
    let mut tile = [_mm512_setzero_si512(); 16];
    #[allow(clippy::needless_range_loop, reason = "loops of known length keep the tile in registers")]
    for i in 0..16 {
        // Lines that are not there are read nowhere: their masks are empty.
        let (lines, lanes) = if BY_K {
            let lanes = |term: usize| if term < terms { indices } else { 0 };
            ([2 * i, 2 * i + 1], [lanes(2 * i), lanes(2 * i + 1)])
        } else {
            let there = if i < indices { terms } else { 0 };
            ([i, i], [there.min(16), there.saturating_sub(16)])
        };
        let skip = if BY_K { 0 } else { 16 };
        // SAFETY: the masks stop where indices and terms end.
        let (first, second) = unsafe {
            (
                _mm512_maskz_loadu_ps(first_lanes(lanes[0]), start.wrapping_add(lines[0] * stride)),
                _mm512_maskz_loadu_ps(first_lanes(lanes[1]), start.wrapping_add(lines[1] * stride + skip)),
            )
        };
        let mut rounded = round(first, second);
        if LOWER {
            rounded = round_rest(first, second, rounded);
        }
        // Even and odd terms of an index are neighbours.
        tile[i] = if BY_K { _mm512_permutexvar_epi16(by_turns::<0, 16>(), rounded) } else { rounded };
    }
    if TURNS {
        tile = transposed(tile);
    }
    let (lines, _) = to.as_chunks_mut::<32>();
    assert!(lines.len() == 16);
    for i in 0..16 {
        // SAFETY: 32 words are as large as a register.
        unsafe { _mm512_mask_storeu_epi32(lines[i].as_mut_ptr().cast(), u16::MAX, tile[i]) };
    }
}

/// Mask of the first `count` lanes, at most 16.
#[inline(always)]
fn first_lanes(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

/// Order that takes by turns words from `FIRST` on and words that lie `APART` behind them; those of a second register begin with 32.
#[target_feature(enable = "avx512f")]
#[inline]
fn by_turns<const FIRST: usize, const APART: usize>() -> __m512i {
    let order: [u16; 32] = const {
        let mut order = [0; 32];
        let mut i = 0;
        while i < 32 {
            order[i] = (FIRST + i / 2 + i % 2 * APART) as u16;
            i += 1;
        }
        order
    };
    // SAFETY: 32 words are as large as a register.
    unsafe { _mm512_maskz_loadu_epi32(u16::MAX, order.as_ptr().cast()) }
}

/// Rounds to the nearest bf16, an even one of two; `first` in the lower half.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
pub(crate) fn round(first: __m512, second: __m512) -> __m512i {
    // SAFETY: two names of the same register.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) }
}

/// Rounds what `rounded`, as [`round`] gives it, leaves of two vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
pub(crate) fn round_rest(first: __m512, second: __m512, rounded: __m512i) -> __m512i {
    let low = _mm512_sub_ps(first, widened(_mm512_castsi512_si256(rounded)));
    let high = _mm512_sub_ps(second, widened(_mm512_extracti64x4_epi64::<1>(rounded)));
    round(low, high)
}

/// Numbers in bf16 as f32.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn widened(values: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(values)))
}
