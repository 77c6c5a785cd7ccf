//! Vectors of one sample, rounded to bf16, as tiles of panels. Panels are filled with zeros before their first use; numbers
//! past the end of an operand are never written, so that they stay zeros.
#![allow(unsafe_code)]

use crate::cpu::pack::transposed;
use crate::cpu::panels::{Form, STEP};
use std::arch::x86_64::*;

/// Lines of a tile.
const LINES: usize = 16;
/// Floats whose memory a line of a tile takes.
const LINE: usize = 16;
/// Floats whose memory a tile takes.
const TILE: usize = LINES * LINE;

/// Tiles of a left operand: a line for each row of `rows`, which begin `stride` apart, with 32 of its terms. At most `stride`
/// of a form's terms are read of a row. What lies behind `rows` is asked for: the rows of the next sample.
///
/// # Safety
/// The processor must have AVX-512 with instructions for words and for bf16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn lines(rows: &[f32], stride: usize, form: Form, to: &mut [f32]) {
    let steps = form.steps();
    assert!(
        form.terms <= stride
            && to.len() >= rows.len().div_ceil(stride).div_ceil(2 * LINES) * steps * 2 * TILE
    );
    for (i, row) in rows.chunks_exact(stride).enumerate() {
        let (panel, line) = (i / (2 * LINES), i % (2 * LINES));
        for step in 0..steps {
            let (first, terms) = (step * STEP, (form.terms - step * STEP).min(STEP));
            let at = ((panel * steps + step) * 2 + line / LINES) * TILE + line % LINES * LINE;
            // SAFETY: the masks stop where the terms end, and the line lies in `to`, as checked above; prefetches may go anywhere.
            unsafe {
                let from = row.as_ptr().add(first);
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(rows.len()).cast());
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(rows.len() + 16).cast());
                let low = _mm512_maskz_loadu_ps(lanes(terms), from);
                let high = _mm512_maskz_loadu_ps(lanes(terms.saturating_sub(16)), from.wrapping_add(16));
                _mm512_storeu_ps(to.as_mut_ptr().add(at), rounded(low, high));
            }
        }
    }
}

/// Tiles of a right operand from those of a left one with the same indices and terms: `to` becomes `from`, each tile transposed.
///
/// # Safety
/// The processor must have AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn turn(from: &[f32], to: &mut [f32]) {
    for (from, to) in from.chunks_exact(TILE).zip(to.chunks_exact_mut(TILE)) {
        let mut tile = [_mm512_setzero_si512(); LINES];
        for (i, line) in tile.iter_mut().enumerate() {
            // SAFETY: a tile has 16 lines of 16 floats.
            *line = unsafe { _mm512_loadu_si512(from.as_ptr().add(i * LINE).cast()) };
        }
        for (i, line) in transposed(tile).into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(i * LINE).cast(), line) };
        }
    }
}

/// Tiles of a right operand whose terms are the `form.terms` vectors of `dim` numbers in `rows`: a line for each pair of vectors,
/// with 16 numbers of both. What lies behind `rows` is asked for: the vectors of the next sample.
///
/// Where `earlier` is given, vectors that were computed before are copied past the caches between the loads: from its first slice, which is
/// near, to its second one, which begins a cache line. Both hold `form.terms` vectors of `dim` numbers, and `dim` is a multiple of 16. The
/// copies are in order with other stores only after [`stream::fence`](crate::cpu::stream::fence).
///
/// # Safety
/// The processor must have AVX-512 with instructions for words and for bf16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pairs(
    rows: &[f32],
    dim: usize,
    form: Form,
    to: &mut [f32],
    mut earlier: Option<(&[f32], &mut [f32])>,
) {
    let (steps, count) = (form.steps(), form.terms);
    assert!(rows.len() >= count * dim && to.len() >= dim.div_ceil(2 * LINES) * steps * 2 * TILE);
    if let Some((from, to)) = &earlier {
        assert!(from.len() == count * dim && to.len() == from.len() && dim.is_multiple_of(LINE));
        assert!(to.as_ptr().addr().is_multiple_of(64));
    }
    // SAFETY: an array of 32 words is as large as a register.
    let order: __m512i = unsafe {
        std::mem::transmute::<[u16; 32], __m512i>(std::array::from_fn(|i| (i / 2 + i % 2 * 16) as u16))
    };
    for pair in 0..count.div_ceil(2) {
        let (step, line) = (pair / LINES, pair % LINES);
        for half in 0..dim.div_ceil(LINE) {
            let column = half * LINE;
            let mask = lanes(dim - column);
            let second = if 2 * pair + 1 < count { mask } else { 0 };
            let at = ((half / 2 * steps + step) * 2 + half % 2) * TILE + line * LINE;
            // SAFETY: the masks stop where vectors and their numbers end, and the line lies in `to`, as checked above; so do lines of
            // `earlier`, whose vectors are whole lines. Prefetches may go anywhere.
            unsafe {
                let from = rows.as_ptr().add(2 * pair * dim + column);
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(rows.len()).cast());
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(rows.len() + dim).cast());
                let even = _mm512_maskz_loadu_ps(mask, from);
                let odd = _mm512_maskz_loadu_ps(second, from.wrapping_add(dim));
                let both = _mm512_castps_si512(rounded(even, odd));
                let line = _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, both));
                _mm512_storeu_ps(to.as_mut_ptr().add(at), line);
                // Two lines at a time get by beside the loads; all of them at once would hold those up.
                if let Some((from, to)) = &mut earlier {
                    for vector in 2 * pair..(2 * pair + 2).min(count) {
                        let at = vector * dim + column;
                        _mm512_stream_ps(to.as_mut_ptr().add(at), _mm512_loadu_ps(from.as_ptr().add(at)));
                    }
                }
            }
        }
    }
}

/// Mask of the first `count` lanes, or of all.
fn lanes(count: usize) -> __mmask16 {
    ((1u32 << count.min(16)) - 1) as __mmask16
}

/// Rounds to the nearest bf16, an even one of two; `first` in the lower half.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn rounded(first: __m512, second: __m512) -> __m512 {
    // SAFETY: two names of the same register.
    unsafe { std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(second, first)) }
}
