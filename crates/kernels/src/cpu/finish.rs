//! Blocks of sums that matrix units computed, on their way to a result.
//!
//! Finished as tiles of f32 are: bias, then ReLU or mask, then the element-wise half of a cross layer. A result that is kept in panels of
//! bf16 is rounded last, and split into two parts where its panels have two. A block is finished row by row, beside the products of the next
//! one: matrix units leave the vector instructions idle. What all blocks of a product have in common, where rows go ([`Target`]) and what is
//! masked ([`Mask`]), is known while compiling: few instructions get by beside the loads of tiles.
#![allow(unsafe_code)]

use super::amx::BLOCK;
use super::gemm::Product;
use super::panels::{round, round_rest};
use super::shared::Shared;
use super::values::{SharedValues, Values};
use std::arch::x86_64::*;
use std::ops::Range;

/// Sums of a block of a result, row by row. The first of them begins with a cache line.
pub(crate) type Sums = [f32; BLOCK * BLOCK];

/// A block of a result: at most 32 rows and 32 columns of it.
pub(crate) struct Place {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Place {
    /// Whether the block is a full one.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows.len() == BLOCK && self.columns.len() == BLOCK
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

/// Vectors of a row of a block.
type Row = [__m512; 2];

/// Where the rows of blocks go.
pub(crate) trait Target {
    /// Whether rows that a block does not have are stored, as zeros.
    const FILLED: bool;

    /// The place of a block of a product; `last` unless more is to be added to it.
    fn new(place: &Place, product: &Product, last: bool) -> Self;

    /// Asks for what storing a row reads.
    fn ask_for(&self, row: usize);

    /// Stores the `lanes` of a row, with zeros in all others.
    ///
    /// # Safety
    /// The processor must have AVX-512 with instructions for words and for bf16. The operands of the product that the block is of must live,
    /// and nobody else may use the block, which has the row.
    unsafe fn store(&self, row: usize, values: Row, lanes: [__mmask16; 2]);
}

/// A result of floats.
pub(crate) struct Floats {
    first: *mut f32,
    /// Floats from row to row.
    n: usize,
    /// Whether whole rows go past the caches.
    streamed: bool,
}

impl Floats {
    /// Bytes of a result from which on it is written past the caches: it would push out what products read.
    const STREAMED: usize = 1 << 20;

    /// A block of a result. It may be written past the caches (`may_stream`) unless more is done with it soon.
    fn of(c: Shared<f32>, place: &Place, n: usize, may_stream: bool) -> Self {
        let (first, count) = (place.columns.start, place.columns.len());
        // Everything from the first element of the block to its last lies in the result.
        let (begin, end) = (place.rows.start * n + first, (place.rows.end - 1) * n + first + count);
        let _ = c.address(end);
        let first = c.address(begin);
        let lines = first.addr().is_multiple_of(64) && n.is_multiple_of(16);
        Self { first, n, streamed: may_stream && lines && c.len() * size_of::<f32>() >= Self::STREAMED }
    }

    /// # Safety
    /// As for [`Target::store`].
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn store_row(&self, row: usize, values: Row, lanes: [__mmask16; 2]) {
        let to = self.first.wrapping_add(row * self.n);
        // SAFETY: lanes stop where the block does; whole rows are whole lines where they are streamed.
        unsafe {
            if lanes != [u16::MAX; 2] {
                _mm512_mask_storeu_ps(to, lanes[0], values[0]);
                _mm512_mask_storeu_ps(to.wrapping_add(16), lanes[1], values[1]);
            } else if self.streamed {
                _mm512_stream_ps(to, values[0]);
                _mm512_stream_ps(to.wrapping_add(16), values[1]);
            } else {
                _mm512_storeu_ps(to, values[0]);
                _mm512_storeu_ps(to.wrapping_add(16), values[1]);
            }
        }
    }
}

impl Target for Floats {
    const FILLED: bool = false;

    fn new(place: &Place, product: &Product, last: bool) -> Self {
        // Lines that are added to were read, and are written where they are.
        Self::of(product.c.plain(), place, product.n, last && !product.finish.add)
    }

    #[inline(always)]
    fn ask_for(&self, _: usize) {}

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    unsafe fn store(&self, row: usize, values: Row, lanes: [__mmask16; 2]) {
        // SAFETY: the caller's promise.
        unsafe { self.store_row(row, values, lanes) };
    }
}

/// Floats `z`, and the output `x0 ⊙ z + x` of the cross layer that they are part of.
pub(crate) struct CrossFloats {
    z: Floats,
    x0: *const f32,
    x: *const f32,
    out: Floats,
}

impl Target for CrossFloats {
    const FILLED: bool = false;

    fn new(place: &Place, product: &Product, last: bool) -> Self {
        let cross = product.finish.cross.expect("operands of a cross layer");
        let (n, columns) = (product.n, &place.columns);
        let all = place.rows.start * n + columns.start..(place.rows.end - 1) * n + columns.end;
        let [x0, x] = [cross.x0, cross.x].map(|of| of[all.clone()].as_ptr());
        let z = <Floats as Target>::new(place, product, last);
        Self { z, x0, x, out: Floats::of(cross.out, place, n, last) }
    }

    #[inline(always)]
    fn ask_for(&self, row: usize) {
        for of in [self.x0, self.x] {
            prefetch(of.wrapping_add(row * self.z.n));
            prefetch(of.wrapping_add(row * self.z.n + 16));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    unsafe fn store(&self, row: usize, values: Row, lanes: [__mmask16; 2]) {
        let at = row * self.z.n;
        let mut out = values;
        // SAFETY: lanes stop where the block does, which `x0` and `x` have too: the caller's promise.
        unsafe {
            for (half, (out, lanes)) in out.iter_mut().zip(lanes).enumerate() {
                let at = at + half * 16;
                // Two roundings, as everywhere else: no fused multiply-add.
                let x0 = _mm512_maskz_loadu_ps(lanes, self.x0.wrapping_add(at));
                let x = _mm512_maskz_loadu_ps(lanes, self.x.wrapping_add(at));
                *out = _mm512_add_ps(_mm512_mul_ps(x0, *out), x);
            }
            self.out.store_row(row, out, lanes);
            self.z.store_row(row, values, lanes);
        }
    }
}

/// Panels of bf16, of two parts where `SPLIT`.
pub(crate) struct KeptPanels<const SPLIT: bool>(*mut u16);

impl<const SPLIT: bool> Target for KeptPanels<SPLIT> {
    const FILLED: bool = true;

    fn new(place: &Place, product: &Product, _: bool) -> Self {
        let SharedValues::Kept(panels, layout) = product.c else { panic!("floats where panels are written") };
        assert!(product.finish.cross.is_none(), "cross layers are floats");
        assert!(place.rows.start.is_multiple_of(BLOCK) && place.columns.start.is_multiple_of(BLOCK));
        assert_eq!(layout.split, SPLIT);
        let at = layout.line(place.rows.start, place.columns.start);
        let _ = panels.address(at + layout.block());
        Self(panels.address(at))
    }

    #[inline(always)]
    fn ask_for(&self, _: usize) {}

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    unsafe fn store(&self, row: usize, values: Row, _: [__mmask16; 2]) {
        let upper = round(values[0], values[1]);
        // SAFETY: a block has 32 lines, each as large as a register, and as many of lower parts: the caller's promise.
        unsafe {
            _mm512_storeu_si512(self.0.add(row * BLOCK).cast(), upper);
            if SPLIT {
                let lower = round_rest(values[0], values[1], upper);
                _mm512_storeu_si512(self.0.add((BLOCK + row) * BLOCK).cast(), lower);
            }
        }
    }
}

/// What results of blocks are masked by.
pub(crate) trait Mask {
    /// The mask of a block of a product.
    fn new(place: &Place, product: &Product) -> Self;

    /// Asks for the mask of a row.
    fn ask_for(&self, row: usize);

    /// Those of the `lanes` of a row whose mask is positive or NaN.
    ///
    /// # Safety
    /// The mask must live, and has the row. The processor must have AVX-512 with instructions for words.
    unsafe fn kept(&self, row: usize, lanes: [__mmask16; 2]) -> [__mmask16; 2];
}

/// No mask.
pub(crate) struct Unmasked;

impl Mask for Unmasked {
    fn new(_: &Place, _: &Product) -> Self {
        Self
    }

    #[inline(always)]
    fn ask_for(&self, _: usize) {}

    #[inline(always)]
    unsafe fn kept(&self, _: usize, lanes: [__mmask16; 2]) -> [__mmask16; 2] {
        lanes
    }
}

/// A mask of floats, laid out as the result.
pub(crate) struct FloatMask {
    first: *const f32,
    n: usize,
}

impl Mask for FloatMask {
    fn new(place: &Place, product: &Product) -> Self {
        let n = product.n;
        let mask = product.finish.mask.expect("a mask").plain();
        let begin = place.rows.start * n + place.columns.start;
        let end = (place.rows.end - 1) * n + place.columns.end;
        Self { first: mask[begin..end].as_ptr(), n }
    }

    #[inline(always)]
    fn ask_for(&self, row: usize) {
        prefetch(self.first.wrapping_add(row * self.n));
        prefetch(self.first.wrapping_add(row * self.n + 16));
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn kept(&self, row: usize, lanes: [__mmask16; 2]) -> [__mmask16; 2] {
        let (first, zero) = (self.first.wrapping_add(row * self.n), _mm512_setzero_ps());
        // SAFETY: lanes stop where the block does, which the mask has: the caller's promise.
        unsafe {
            let values = [
                _mm512_maskz_loadu_ps(lanes[0], first),
                _mm512_maskz_loadu_ps(lanes[1], first.wrapping_add(16)),
            ];
            [
                _mm512_mask_cmp_ps_mask::<_CMP_NLE_UQ>(lanes[0], values[0], zero),
                _mm512_mask_cmp_ps_mask::<_CMP_NLE_UQ>(lanes[1], values[1], zero),
            ]
        }
    }
}

/// A mask in panels of bf16: the first line of the block's.
pub(crate) struct PanelMask(*const u16);

impl Mask for PanelMask {
    fn new(place: &Place, product: &Product) -> Self {
        let Some(Values::Kept(mask)) = product.finish.mask else { panic!("no panels of a mask") };
        // Lines of a block lie one after another.
        let lines = mask.left(&place.rows, place.columns.start).0;
        Self(lines[..BLOCK * BLOCK].as_ptr())
    }

    #[inline(always)]
    fn ask_for(&self, row: usize) {
        prefetch(self.0.wrapping_add(row * BLOCK));
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    unsafe fn kept(&self, row: usize, lanes: [__mmask16; 2]) -> [__mmask16; 2] {
        // SAFETY: a block has 32 lines: the caller's promise.
        let line = unsafe { _mm512_loadu_si512(self.0.wrapping_add(row * BLOCK).cast()) };
        // Read as signed words, everything negative is at most minus infinity, but for NaN; zero, which is greater, is tested for apart.
        const INFINITY: i16 = 0xff80_u16 as i16;
        let kept =
            _mm512_cmpgt_epi16_mask(line, _mm512_set1_epi16(INFINITY)) & _mm512_test_epi16_mask(line, line);
        [kept as __mmask16 & lanes[0], (kept >> 16) as __mmask16 & lanes[1]]
    }
}

/// A block of sums that is to be finished.
pub(crate) struct Finishing<T, M> {
    sums: *const f32,
    /// Rows of the block.
    rows: usize,
    /// Lanes of both vectors of a row.
    lanes: [__mmask16; 2],
    /// What is added to every row; negative zeros change nothing.
    bias: [f32; BLOCK],
    /// What is smaller becomes this.
    least: f32,
    mask: M,
    target: T,
}

impl<T: Target, M: Mask> Finishing<T, M> {
    /// The block at `place`, whose `sums` are floats in rows of 32; `last` unless more is to be added to it.
    pub(crate) fn new(sums: *const f32, place: &Place, product: &Product, last: bool) -> Self {
        let mut bias = [-0.0; BLOCK];
        if let Some(all) = product.finish.bias {
            bias[..place.columns.len()].copy_from_slice(&all[place.columns.clone()]);
        }
        Self {
            sums,
            rows: place.rows.len(),
            lanes: place.masks(),
            bias,
            least: if product.finish.relu { 0.0 } else { f32::NEG_INFINITY },
            mask: M::new(place, product),
            target: T::new(place, product, last),
        }
    }

    /// Asks for what finishing a row reads.
    #[inline(always)]
    pub(crate) fn ask_for(&self, row: usize) {
        self.mask.ask_for(row);
        self.target.ask_for(row);
    }

    /// Finishes a row and stores it in the result.
    ///
    /// # Safety
    /// The processor must have AVX-512 with instructions for words and for bf16. The operands of the product that this was made of must live,
    /// and nobody else may use the block. `row` is one of 32.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    pub(crate) unsafe fn row(&self, row: usize) {
        let lanes = match row < self.rows {
            true => self.lanes,
            false if T::FILLED => [0; 2],
            false => return,
        };
        let least = _mm512_set1_ps(self.least);
        // SAFETY: sums have 32 rows, and target and mask have this one as far as lanes go: the caller's promise.
        unsafe {
            let kept = self.mask.kept(row, lanes);
            let finished = |half: usize| {
                let sum = _mm512_loadu_ps(self.sums.wrapping_add(row * BLOCK + half * 16));
                let sum = _mm512_add_ps(sum, _mm512_loadu_ps(self.bias[half * 16..][..16].as_ptr()));
                // Of 0 and NaN this instruction gives the second.
                _mm512_maskz_mov_ps(kept[half], _mm512_max_ps(least, sum))
            };
            self.target.store(row, [finished(0), finished(1)], lanes);
        }
    }
}

/// Asks for a cache line.
#[inline(always)]
fn prefetch<T>(line: *const T) {
    // SAFETY: a prefetch of any address is harmless.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}
