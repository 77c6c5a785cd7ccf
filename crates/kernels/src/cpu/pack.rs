//! Copies of a matrix in the order in which tiles read it: `panel[k·stride + i] = source(i, k)`.
#![allow(unsafe_code)]

use super::level::Level;
use super::values::{Kept, Values};
use crate::buffer::PANEL;
use std::ops::Range;

/// A matrix with an index `i` (a row or a column of the product) and an index `k` (summed over).
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// The elements. Products in f32 read floats alone.
    pub data: Values<'a>,
    /// Distance between neighbours along the outer index.
    pub stride: usize,
    /// Whether `k` is the outer index: the element (i, k) is `data[k·stride + i]`, else `data[i·stride + k]`.
    pub by_k: bool,
}

impl Operand<'_> {
    /// Writes panels of `width` indices each, one after another: `panel[k·width + i]` for the `k` of `sums` and `i < width`, from the
    /// elements (i, k) of `indices` and `sums`, both counted from their starts; zeros past the end of `indices`, but anything from the
    /// next multiple of 16 on. Panels of 8 rows come in pairs: there must be room for two.
    pub(crate) fn pack(
        &self,
        level: Level,
        indices: Range<usize>,
        sums: Range<usize>,
        width: usize,
        panels: &mut [f32],
    ) {
        let depth = sums.len();
        if depth == 0 {
            return;
        }
        let data = self.data.plain();
        if self.by_k && width == 8 && indices.len() == 16 {
            let source = &data[sums.start * self.stride + indices.start..];
            return level.run(
                #[inline(always)]
                || copy_pair(source, self.stride, depth, panels),
            );
        }
        #[cfg(target_arch = "x86_64")]
        if !self.by_k && width == 8 && level == Level::Avx512 {
            let source = &data[indices.start * self.stride + sums.start..];
            // SAFETY: the level's instructions exist.
            return unsafe { transpose_pair(source, self.stride, indices.len(), depth, panels) };
        }
        for (first, panel) in indices.clone().step_by(width).zip(panels.chunks_exact_mut(depth * width)) {
            let count = width.min(indices.end - first);
            if self.by_k {
                let source = &data[sums.start * self.stride + first..];
                level.run(
                    #[inline(always)]
                    || copy(source, self.stride, count, width, panel),
                );
            } else {
                let source = &data[first * self.stride + sums.start..];
                transpose(level, source, self.stride, count, depth, width, panel);
            }
        }
    }
}

impl Operand<'_> {
    /// `sums[i] += Σₖ (first + i, k)` for `from ≤ k < from + depth`, in the order of k; beginning at 0 when `from` is.
    pub(crate) fn add_up(&self, level: Level, first: usize, from: usize, depth: usize, sums: &mut [f32]) {
        assert!(self.by_k, "sums are taken of operands whose rows follow k");
        if from == 0 {
            sums.fill(0.0);
        }
        match self.data {
            Values::Plain(data) => level.run(
                #[inline(always)]
                || {
                    for k in from..from + depth {
                        for (sum, value) in sums.iter_mut().zip(&data[k * self.stride + first..]) {
                            *sum += value;
                        }
                    }
                },
            ),
            Values::Kept(kept) => level.run(
                #[inline(always)]
                || add_up_kept(kept, first, from..from + depth, sums),
            ),
        }
    }
}

/// Adds rows of bf16 to `sums`, those of the columns from `first` on, a multiple of 32.
#[inline(always)]
fn add_up_kept(kept: Kept, first: usize, rows: Range<usize>, sums: &mut [f32]) {
    let mut room = [[[0; PANEL]; PANEL]; 2];
    for (column, sums) in (first..).step_by(PANEL).zip(sums.chunks_mut(PANEL)) {
        for first in rows.clone().step_by(PANEL) {
            let some = first..(first + PANEL).min(rows.end);
            let [upper_room, lower_room] = &mut room;
            let upper = &kept.block(&some, column, false, upper_room)[..some.len()];
            let lower = kept.split().then(|| kept.block(&some, column, true, lower_room));
            add_lines(upper, lower, sums);
        }
    }
}

/// Adds lines of bf16 to at most 32 `sums`, one after another, each with its lower part where there is one.
#[inline(always)]
pub(crate) fn add_lines(upper: &[[u16; PANEL]], lower: Option<&[[u16; PANEL]; PANEL]>, sums: &mut [f32]) {
    let float = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    // In registers until all lines are added.
    let mut all = [0f32; PANEL];
    all[..sums.len()].copy_from_slice(sums);
    match lower {
        Some(lower) => {
            for (upper, lower) in upper.iter().zip(lower) {
                for i in 0..PANEL {
                    all[i] += float(upper[i]) + float(lower[i]);
                }
            }
        }
        None => {
            for upper in upper {
                for i in 0..PANEL {
                    all[i] += float(upper[i]);
                }
            }
        }
    }
    sums.copy_from_slice(&all[..sums.len()]);
}

/// Rounds to the nearest bf16, and to an even one of two.
pub(crate) fn round(level: Level, values: &mut [f32]) {
    level.run(
        #[inline(always)]
        || {
            for value in values {
                let bits = value.to_bits();
                let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
                // The sum would carry a NaN away.
                *value = f32::from_bits(if value.is_nan() { bits | 0x40_0000 } else { rounded });
            }
        },
    );
}

#[inline(always)]
fn copy(source: &[f32], stride: usize, count: usize, width: usize, panel: &mut [f32]) {
    match (count, width) {
        (48, 48) => copy_lines::<48>(source, stride, panel),
        (32, 32) => copy_lines::<32>(source, stride, panel),
        (14, 14) => copy_lines::<14>(source, stride, panel),
        (8, 8) => copy_lines::<8>(source, stride, panel),
        _ => {
            for (k, line) in panel.chunks_exact_mut(width).enumerate() {
                line[..count].copy_from_slice(&source[k * stride..][..count]);
                line[count..].fill(0.0);
            }
        }
    }
}

/// Two panels of 8 from lines of 16: each line of the source comes from memory once.
#[inline(always)]
fn copy_pair(source: &[f32], stride: usize, depth: usize, panels: &mut [f32]) {
    let (low, high) = panels.split_at_mut(8 * depth);
    for (k, (low, high)) in low.chunks_exact_mut(8).zip(high.chunks_exact_mut(8)).enumerate() {
        let line = &source[k * stride..][..16];
        low.copy_from_slice(&line[..8]);
        high.copy_from_slice(&line[8..]);
    }
}

/// Whole lines, of a length that is known while compiling.
#[inline(always)]
fn copy_lines<const N: usize>(source: &[f32], stride: usize, panel: &mut [f32]) {
    for (k, line) in panel.chunks_exact_mut(N).enumerate() {
        line.copy_from_slice(&source[k * stride..][..N]);
    }
}

/// `to[k·width + i] = from[i·stride + k]` for `i < count`, `k < depth`; columns of `to` up to the next multiple of 16, or
/// up to `width`, become zero.
pub(crate) fn transpose(
    level: Level,
    from: &[f32],
    stride: usize,
    count: usize,
    depth: usize,
    width: usize,
    to: &mut [f32],
) {
    assert!(count == 0 || from.len() >= (count - 1) * stride + depth);
    assert!(count <= width && to.len() >= depth * width);
    for i in (0..count).step_by(16) {
        let (rows, columns) = ((count - i).min(16), (width - i).min(16));
        for k in (0..depth).step_by(16) {
            let depth = (depth - k).min(16);
            match level {
                // SAFETY: rows i..i + rows of `from` hold k + depth elements and `to` the transposed block, as
                // asserted above; the instructions exist.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => unsafe {
                    let (from, to) = (from.as_ptr().add(i * stride + k), to.as_mut_ptr().add(k * width + i));
                    block_avx512(from, stride, rows, depth, to, width, columns);
                },
                _ => {
                    for d in 0..depth {
                        let line = &mut to[(k + d) * width + i..][..columns];
                        for (r, value) in line.iter_mut().enumerate() {
                            *value = if r < rows { from[(i + r) * stride + k + d] } else { 0.0 };
                        }
                    }
                }
            }
        }
    }
}

/// Transposes a block of at most 16 × 16; `columns` ≥ rows of the result are written, those past `rows` as zeros.
///
/// # Safety
/// `from` must be readable for `rows` rows of `depth`, `to` writable for `depth` rows of `columns`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn block_avx512(
    from: *const f32,
    stride: usize,
    rows: usize,
    depth: usize,
    to: *mut f32,
    width: usize,
    columns: usize,
) {
    use std::arch::x86_64::*;
    let mask = ((1u32 << columns) - 1) as __mmask16;
    // SAFETY: the caller's promise.
    let r = unsafe { load_transposed(from, stride, rows, depth) };
    for (k, r) in r.iter().enumerate().take(depth) {
        // SAFETY: row k of the result holds `columns` elements, the mask stops there.
        unsafe { _mm512_mask_storeu_ps(to.add(k * width), mask, _mm512_castsi512_ps(*r)) };
    }
}

/// Transposes at most 16 rows into two panels of 8: `to[k·8 + i]` for `i < 8`, then the same of the rows from 8 on. Zeros stand for rows that
/// are missing.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn transpose_pair(from: &[f32], stride: usize, count: usize, depth: usize, to: &mut [f32]) {
    use std::arch::x86_64::*;
    assert!(count == 0 || from.len() >= (count - 1) * stride + depth);
    assert!(count <= 16 && to.len() >= 16 * depth);
    let (low, high) = to.split_at_mut(8 * depth);
    for k in (0..depth).step_by(16) {
        let some = (depth - k).min(16);
        // SAFETY: `count` rows hold `k + some` elements, as asserted above.
        let r = unsafe { load_transposed(from.as_ptr().wrapping_add(k), stride, count, some) };
        for ((r, low), high) in
            r.iter().zip(low[k * 8..].chunks_exact_mut(8)).zip(high[k * 8..].chunks_exact_mut(8))
        {
            // SAFETY: both lines hold 8 floats.
            unsafe {
                _mm256_storeu_si256(low.as_mut_ptr().cast(), _mm512_castsi512_si256(*r));
                _mm256_storeu_si256(high.as_mut_ptr().cast(), _mm512_extracti64x4_epi64::<1>(*r));
            }
        }
    }
}

/// The transposed block of at most 16 × 16, zeros where rows or elements are missing.
///
/// # Safety
/// `from` must be readable for `rows` rows of `depth`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn load_transposed(
    from: *const f32,
    stride: usize,
    rows: usize,
    depth: usize,
) -> [std::arch::x86_64::__m512i; 16] {
    use std::arch::x86_64::*;
    let mask = ((1u32 << depth) - 1) as __mmask16;
    let mut r = [_mm512_setzero_si512(); 16];
    for (i, r) in r.iter_mut().enumerate() {
        if i < rows {
            // SAFETY: row i holds `depth` elements, the mask stops there.
            *r = unsafe { _mm512_castps_si512(_mm512_maskz_loadu_ps(mask, from.add(i * stride))) };
        }
    }
    transposed(r)
}

/// Transposes 16 × 16 words of 32 bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn transposed(mut r: [std::arch::x86_64::__m512i; 16]) -> [std::arch::x86_64::__m512i; 16] {
    use std::arch::x86_64::*;
    // Pairs of rows interleaved, then fours, then quarters of registers exchanged twice.
    let mut s = r;
    for i in 0..8 {
        s[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        s[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for i in 0..4 {
        r[4 * i] = _mm512_unpacklo_epi64(s[4 * i], s[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(s[4 * i], s[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(s[4 * i + 1], s[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(s[4 * i + 1], s[4 * i + 3]);
    }
    for i in 0..4 {
        s[i] = _mm512_shuffle_i32x4::<0x88>(r[i], r[i + 4]);
        s[i + 4] = _mm512_shuffle_i32x4::<0xdd>(r[i], r[i + 4]);
        s[i + 8] = _mm512_shuffle_i32x4::<0x88>(r[i + 8], r[i + 12]);
        s[i + 12] = _mm512_shuffle_i32x4::<0xdd>(r[i + 8], r[i + 12]);
    }
    for i in 0..8 {
        r[i] = _mm512_shuffle_i32x4::<0x88>(s[i], s[i + 8]);
        r[i + 8] = _mm512_shuffle_i32x4::<0xdd>(s[i], s[i + 8]);
    }
    r
}
