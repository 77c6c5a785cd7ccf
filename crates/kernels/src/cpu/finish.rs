//! Blocks of sums that matrix units computed, on their way to a result.
//!
//! Finished as tiles of f32 are: bias, then ReLU or mask, then the element-wise half of a cross layer.
#![allow(unsafe_code)]

use super::amx::BLOCK;
use super::gemm::Product;
use std::arch::x86_64::*;
use std::ops::Range;

/// Sums of a block of a result, row by row.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Sums(pub [f32; BLOCK * BLOCK]);

/// A block of a result: at most 32 rows and 32 columns of it.
#[derive(Clone)]
pub(crate) struct Place {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Place {
    /// Whether the block is a full one.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows.len() == BLOCK && self.columns.len() == BLOCK
    }

    /// Asks for the lines of the result, and of its mask, that the block is going to touch.
    #[inline]
    pub(crate) fn prefetch(&self, product: &Product) {
        for row in self.rows.clone() {
            let at = row * product.n + self.columns.start;
            let c = product.c.address(at).cast::<i8>();
            // SAFETY: a prefetch of any address is harmless.
            unsafe {
                _mm_prefetch::<_MM_HINT_ET0>(c);
                _mm_prefetch::<_MM_HINT_ET0>(c.wrapping_add(64));
            }
            if let Some(mask) = product.finish.mask {
                super::level::prefetch(mask, at, BLOCK);
            }
        }
    }

    /// Masks of both vectors of a row.
    fn masks(&self) -> [__mmask16; 2] {
        let mask = (1u64 << self.columns.len()) - 1;
        [mask as __mmask16, (mask >> 16) as __mmask16]
    }
}

/// Fills `sums` with what the result holds, so that a product is added to it.
///
/// # Safety
/// The processor must have AVX-512, and nobody else may write the block.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn load(sums: &mut Sums, place: &Place, product: &Product) {
    let masks = place.masks();
    for (row, sums) in place.rows.clone().zip(sums.0.as_chunks_mut::<BLOCK>().0) {
        let at = row * product.n + place.columns.start;
        // Both ends of the row lie in the result.
        let (from, _) = (product.c.address(at), product.c.address(at + place.columns.len()));
        for (half, mask) in masks.into_iter().enumerate() {
            // SAFETY: the mask stops where the row ends.
            let values = unsafe { _mm512_maskz_loadu_ps(mask, from.wrapping_add(half * 16)) };
            // SAFETY: half a row of sums is as large as a register.
            unsafe { _mm512_mask_storeu_ps(sums[half * 16..][..16].as_mut_ptr(), u16::MAX, values) };
        }
    }
}

/// Finishes the sums and stores them in the result; only stores them where more is to be added.
///
/// # Safety
/// The processor must have AVX-512, and nobody else may use the block.
pub(crate) unsafe fn store(sums: &Sums, place: &Place, product: &Product, last: bool) {
    if place.rows.is_empty() {
        return;
    }
    let finish = product.finish;
    let (n, first, count) = (product.n, place.columns.start, place.columns.len());
    // Everything from the first element of the block to its last lies in the operand.
    let (begin, end) = (place.rows.start * n + first, (place.rows.end - 1) * n + first + count);
    let pointer = |values: Option<&[f32]>| {
        values.filter(|_| last).map_or(std::ptr::null(), |values| values[begin..end].as_ptr())
    };
    let _ = product.c.address(end);
    let cross = finish.cross.filter(|_| last);
    let work = Finishing {
        sums: sums.0.as_ptr(),
        c: product.c.address(begin),
        n,
        rows: place.rows.len(),
        masks: place.masks(),
        bias: finish
            .bias
            .filter(|_| last)
            .map_or(std::ptr::null(), |bias| bias[first..first + count].as_ptr()),
        mask: pointer(finish.mask),
        x0: pointer(cross.map(|cross| cross.x0)),
        x: pointer(cross.map(|cross| cross.x)),
        out: cross.map_or(std::ptr::null_mut(), |cross| {
            let _ = cross.out.address(end);
            cross.out.address(begin)
        }),
    };
    let relu = finish.relu && last;
    // SAFETY: all pointers were just checked, or are null; the rest is the caller's promise.
    unsafe {
        match (relu, work.mask.is_null(), work.out.is_null()) {
            (false, true, true) => work.run::<false, false, false>(),
            (true, true, true) => work.run::<true, false, false>(),
            (false, false, true) => work.run::<false, true, false>(),
            (true, false, true) => work.run::<true, true, false>(),
            (false, true, false) => work.run::<false, false, true>(),
            (true, true, false) => work.run::<true, false, true>(),
            (false, false, false) => work.run::<false, true, true>(),
            (true, false, false) => work.run::<true, true, true>(),
        }
    }
}

/// Operands of a block's end, each at the block's first element; bias, mask and the rest may be null.
struct Finishing {
    sums: *const f32,
    c: *mut f32,
    n: usize,
    rows: usize,
    masks: [__mmask16; 2],
    bias: *const f32,
    mask: *const f32,
    x0: *const f32,
    x: *const f32,
    out: *mut f32,
}

impl Finishing {
    /// # Safety
    /// The pointers that are not null must reach the last element of the block; `mask` must not be null with `MASK`, nor `x0`, `x`
    /// and `out` with `CROSS`.
    #[target_feature(enable = "avx512f")]
    unsafe fn run<const RELU: bool, const MASK: bool, const CROSS: bool>(&self) {
        let zero = _mm512_setzero_ps();
        for (half, lanes) in [(0, self.masks[0]), (16, self.masks[1])] {
            // SAFETY: masks stop where rows end; the rest is the caller's promise.
            unsafe {
                // Adding a negative zero changes nothing.
                let bias = if self.bias.is_null() {
                    _mm512_set1_ps(-0.0)
                } else {
                    _mm512_maskz_loadu_ps(lanes, self.bias.wrapping_add(half))
                };
                for row in 0..self.rows {
                    let at = row * self.n + half;
                    let sum = _mm512_maskz_loadu_ps(u16::MAX, self.sums.wrapping_add(row * BLOCK + half));
                    let mut value = _mm512_add_ps(sum, bias);
                    if RELU {
                        // Of 0 and NaN this instruction gives the second.
                        value = _mm512_max_ps(zero, value);
                    }
                    if MASK {
                        let mask = _mm512_maskz_loadu_ps(lanes, self.mask.wrapping_add(at));
                        value = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLE_UQ>(mask, zero), value);
                    }
                    _mm512_mask_storeu_ps(self.c.wrapping_add(at), lanes, value);
                    if CROSS {
                        // Two roundings, as everywhere else: no fused multiply-add.
                        let x0 = _mm512_maskz_loadu_ps(lanes, self.x0.wrapping_add(at));
                        let x = _mm512_maskz_loadu_ps(lanes, self.x.wrapping_add(at));
                        let crossed = _mm512_add_ps(_mm512_mul_ps(x0, value), x);
                        _mm512_mask_storeu_ps(self.out.wrapping_add(at), lanes, crossed);
                    }
                }
            }
        }
    }
}
