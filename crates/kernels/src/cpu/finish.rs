//! Blocks of sums that matrix units computed, on their way to a result.
//!
//! Finished as tiles of f32 are: bias, then ReLU or mask, then the element-wise half of a cross layer. A result that is kept in panels of
//! bf16 is rounded last, and split into two parts where its panels have two.
#![allow(unsafe_code)]

use super::amx::BLOCK;
use super::gemm::Product;
use super::panels::{round, round_rest};
use super::shared::Shared;
use super::values::{SharedValues, Values};
use crate::buffer::PanelLayout;
use std::arch::x86_64::*;
use std::ops::Range;

/// Sums of a block of a result, row by row. The first of them begins with a cache line.
pub(crate) type Sums = [f32; BLOCK * BLOCK];

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

    /// Asks for the lines of the mask that the block is going to read, and for those of a result of floats where `result`.
    #[inline]
    pub(crate) fn prefetch(&self, product: &Product, result: bool) {
        for row in self.rows.clone() {
            let at = row * product.n + self.columns.start;
            if let (SharedValues::Plain(c), true) = (&product.c, result) {
                super::level::prefetch_for_write(c.address(at), 0, self.columns.len());
            }
            match product.finish.mask {
                Some(Values::Plain(mask)) => super::level::prefetch(mask, at, BLOCK),
                Some(Values::Kept(mask)) => {
                    super::level::prefetch(mask.line(row, self.columns.start), 0, BLOCK)
                }
                None => {}
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
    let (masks, c) = (place.masks(), product.c.plain());
    for (row, sums) in place.rows.clone().zip(sums.as_chunks_mut::<BLOCK>().0) {
        let at = row * product.n + place.columns.start;
        // Both ends of the row lie in the result.
        let (from, _) = (c.address(at), c.address(at + place.columns.len()));
        for (half, mask) in masks.into_iter().enumerate() {
            // SAFETY: the mask stops where the row ends.
            let values = unsafe { _mm512_maskz_loadu_ps(mask, from.wrapping_add(half * 16)) };
            // SAFETY: half a row of sums is as large as a register.
            unsafe { _mm512_mask_storeu_ps(sums[half * 16..][..16].as_mut_ptr(), u16::MAX, values) };
        }
    }
}

/// Finishes the sums and stores them in the result; only stores them where more is to be added. `next` is the distance to the block that
/// comes next: operands of a cross layer are asked for there, since they come from memory and a block is computed in less time.
///
/// # Safety
/// The processor must have AVX-512 with instructions for words and for bf16, and nobody else may use the block.
pub(crate) unsafe fn store(sums: &Sums, place: &Place, product: &Product, last: bool, next: isize) {
    if place.rows.is_empty() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match product.c {
            SharedValues::Plain(c) => store_floats(sums, place, product, (c, next), last),
            SharedValues::Kept(panels, layout) if layout.split => {
                keep::<true>(sums, place, product, panels, layout);
            }
            SharedValues::Kept(panels, layout) => keep::<false>(sums, place, product, panels, layout),
        }
    }
}

/// Mask of a block.
#[derive(Clone, Copy)]
enum MaskAt {
    None,
    /// First element of the block.
    Plain(*const f32),
    /// First line of the block.
    Kept(*const u16),
}

impl MaskAt {
    /// The mask of a product, where its block at `place` begins.
    fn new(place: &Place, product: &Product) -> Self {
        let first = place.columns.start;
        match product.finish.mask {
            None => Self::None,
            Some(Values::Plain(mask)) => {
                let begin = place.rows.start * product.n + first;
                let end = (place.rows.end - 1) * product.n + place.columns.end;
                Self::Plain(mask[begin..end].as_ptr())
            }
            Some(Values::Kept(mask)) => {
                // Lines of a block lie one after another.
                let lines = mask.left(&place.rows, first).0;
                Self::Kept(lines[..BLOCK * BLOCK].as_ptr())
            }
        }
    }

    /// Lanes of `row` from `half` on whose mask is positive or NaN.
    ///
    /// # Safety
    /// The row lies in the block; rows of floats are `n` apart and have `lanes` from `half` on.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    unsafe fn kept(self, row: usize, n: usize, half: usize, lanes: __mmask16) -> __mmask16 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::None => lanes,
                Self::Plain(mask) => {
                    let mask = _mm512_maskz_loadu_ps(lanes, mask.wrapping_add(row * n + half));
                    _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(mask, _mm512_setzero_ps())
                }
                Self::Kept(mask) => {
                    let words = _mm256_loadu_si256(mask.wrapping_add(row * BLOCK + half).cast());
                    let floats = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(words));
                    _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(_mm512_castsi512_ps(floats), _mm512_setzero_ps())
                }
            }
        }
    }
}

/// # Safety
/// As for [`store`].
unsafe fn store_floats(
    sums: &Sums,
    place: &Place,
    product: &Product,
    (c, next): (Shared<f32>, isize),
    last: bool,
) {
    let finish = product.finish;
    let (n, first, count) = (product.n, place.columns.start, place.columns.len());
    // Everything from the first element of the block to its last lies in the operand.
    let (begin, end) = (place.rows.start * n + first, (place.rows.end - 1) * n + first + count);
    let pointer =
        |values: Option<&[f32]>| values.map_or(std::ptr::null(), |values| values[begin..end].as_ptr());
    let _ = c.address(end);
    let cross = finish.cross.filter(|_| last);
    let work = Finishing {
        sums: sums.as_ptr(),
        c: c.address(begin),
        n,
        rows: place.rows.len(),
        masks: place.masks(),
        bias: finish
            .bias
            .filter(|_| last)
            .map_or(std::ptr::null(), |bias| bias[first..first + count].as_ptr()),
        mask: if last { MaskAt::new(place, product) } else { MaskAt::None },
        x0: pointer(cross.map(|cross| cross.x0)),
        x: pointer(cross.map(|cross| cross.x)),
        out: cross.map_or(std::ptr::null_mut(), |cross| {
            let _ = cross.out.address(end);
            cross.out.address(begin)
        }),
        next,
    };
    let relu = finish.relu && last;
    let masked = !matches!(work.mask, MaskAt::None);
    // SAFETY: all pointers were just checked, or are null; the rest is the caller's promise.
    unsafe {
        match (relu, masked, work.out.is_null()) {
            (false, false, true) => work.run::<false, false, false>(),
            (true, false, true) => work.run::<true, false, false>(),
            (false, true, true) => work.run::<false, true, false>(),
            (true, true, true) => work.run::<true, true, false>(),
            (false, false, false) => work.run::<false, false, true>(),
            (true, false, false) => work.run::<true, false, true>(),
            (false, true, false) => work.run::<false, true, true>(),
            (true, true, false) => work.run::<true, true, true>(),
        }
    }
}

/// Finishes the sums of all terms and stores them as a block of panels of bf16, with zeros past the last row and the last column.
///
/// # Safety
/// As for [`store`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn keep<const SPLIT: bool>(
    sums: &Sums,
    place: &Place,
    product: &Product,
    panels: Shared<u16>,
    layout: PanelLayout,
) {
    let finish = product.finish;
    assert!(finish.cross.is_none() && !finish.add, "panels of bf16 are not added to");
    assert!(place.rows.start.is_multiple_of(BLOCK) && place.columns.start.is_multiple_of(BLOCK));
    let at = layout.line(place.rows.start, place.columns.start);
    // SAFETY: the block belongs to this thread, says the caller.
    let (lines, _) = unsafe { panels.piece(at..at + layout.block()) }.as_chunks_mut::<BLOCK>();
    let (lines, lower_lines) = lines.split_at_mut(BLOCK);
    assert_eq!(lower_lines.len(), if SPLIT { BLOCK } else { 0 });
    let (masks, mask, zero) = (place.masks(), MaskAt::new(place, product), _mm512_setzero_ps());
    let bias = finish.bias.map(|bias| &bias[place.columns.clone()]);
    let bias = [0, 16].map(|half| match bias {
        // SAFETY: the mask stops where the row ends.
        Some(bias) => unsafe { _mm512_maskz_loadu_ps(masks[half / 16], bias.as_ptr().wrapping_add(half)) },
        None => _mm512_set1_ps(-0.0),
    });
    let (sums, _) = sums.as_chunks::<BLOCK>();
    for (row, (line, sums)) in lines.iter_mut().zip(sums).enumerate() {
        let mut values = [zero; 2];
        if row < place.rows.len() {
            for (v, value) in values.iter_mut().enumerate() {
                // SAFETY: half a row of sums is as large as a register; the mask has this row.
                let (sum, kept) = unsafe {
                    let sum = _mm512_maskz_loadu_ps(u16::MAX, sums[v * 16..][..16].as_ptr());
                    (sum, mask.kept(row, product.n, v * 16, masks[v]))
                };
                let mut sum = _mm512_add_ps(sum, bias[v]);
                if finish.relu {
                    // Of 0 and NaN this instruction gives the second.
                    sum = _mm512_max_ps(zero, sum);
                }
                *value = _mm512_maskz_mov_ps(kept & masks[v], sum);
            }
        }
        let upper = round(values[0], values[1]);
        // SAFETY: a line is as large as a register.
        unsafe { _mm512_mask_storeu_epi32(line.as_mut_ptr().cast(), u16::MAX, upper) };
        if SPLIT {
            let lower = round_rest(values[0], values[1], upper);
            // SAFETY: as above.
            unsafe { _mm512_mask_storeu_epi32(lower_lines[row].as_mut_ptr().cast(), u16::MAX, lower) };
        }
    }
}

/// Operands of a block's end, each at the block's first element; bias, `x0`, `x` and `out` may be null.
struct Finishing {
    sums: *const f32,
    c: *mut f32,
    n: usize,
    rows: usize,
    masks: [__mmask16; 2],
    bias: *const f32,
    mask: MaskAt,
    x0: *const f32,
    x: *const f32,
    out: *mut f32,
    /// Distance to the block that comes next.
    next: isize,
}

impl Finishing {
    /// # Safety
    /// The pointers that are not null must reach the last element of the block; `x0`, `x` and `out` must not be null with `CROSS`.
    #[target_feature(enable = "avx512f,avx512bw")]
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
                        value = _mm512_maskz_mov_ps(self.mask.kept(row, self.n, half, lanes), value);
                    }
                    if CROSS {
                        let next = at.wrapping_add_signed(self.next);
                        _mm_prefetch::<_MM_HINT_T0>(self.x0.wrapping_add(next).cast());
                        _mm_prefetch::<_MM_HINT_T0>(self.x.wrapping_add(next).cast());
                        _mm_prefetch::<_MM_HINT_ET0>(self.out.wrapping_add(next).cast());
                        // Two roundings, as everywhere else: no fused multiply-add.
                        let x0 = _mm512_maskz_loadu_ps(lanes, self.x0.wrapping_add(at));
                        let x = _mm512_maskz_loadu_ps(lanes, self.x.wrapping_add(at));
                        let crossed = _mm512_add_ps(_mm512_mul_ps(x0, value), x);
                        _mm512_mask_storeu_ps(self.out.wrapping_add(at), lanes, crossed);
                    }
                    _mm512_mask_storeu_ps(self.c.wrapping_add(at), lanes, value);
                }
            }
        }
    }
}
