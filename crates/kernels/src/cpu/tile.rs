//! The innermost product: a tile of `c (+)= a·b` held in registers.
//!
//! `c[i, j] = act([c[i, j] +] Σₖ a[k·a_stride + i] · b[k·b_stride + j] [+ bias[j]])`, k ascending; `act` is nothing, a
//! ReLU, or zero where a mask is not positive. A cross layer also stores `out = x0 ⊙ c + x`.
//!
//! Each element of `c` goes through the same operations wherever it lies in a tile, so that results do not depend on
//! how a matrix is cut into tiles.
#![allow(unsafe_code)]

pub(crate) mod size;

use super::level::Level;
pub(crate) use size::TileSize;
use size::{MOST_ROWS, WIDE};

/// Operands of one tile.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    /// Rows of `c` to write, at most those of a [`TileSize`].
    pub rows: usize,
    /// Columns of `c` to write, at most those of the same [`TileSize`].
    pub columns: usize,
    /// Length of the sums.
    pub depth: usize,
    /// `a[k·a_stride + i]`; the tile may read up to i = rows of a full tile.
    pub a: *const f32,
    /// Distance from k to k + 1; a tile of three vectors has lines of 8 in `a` and of 48 in `b`.
    pub a_stride: usize,
    /// `b[k·b_stride + j]`; the tile may read up to j = the next multiple of a vector's floats.
    pub b: *const f32,
    /// Distance from k to k + 1.
    pub b_stride: usize,
    /// What is read soon, of which the tile asks for [`Tile::floats_ahead`] floats; `None` to ask for no more than the operands.
    pub ahead: Option<*const f32>,
    /// Address of the tile in the result.
    pub c: *mut f32,
    /// Distance from one row of `c` to the next.
    pub c_stride: usize,
    /// Whether `c` is added to.
    pub add: bool,
    /// Added to each row, `columns` floats; null for none.
    pub bias: *const f32,
    /// Whether negative results become zero.
    pub relu: bool,
    /// Laid out as `c`: results become zero where it is not positive; null for none.
    pub mask: *const f32,
    /// `x0`, `x` and `out` of a cross layer, laid out as `c`.
    pub cross: Option<(*const f32, *const f32, *mut f32)>,
}

/// Floats of a cache line.
const LINE: usize = 16;

impl Tile {
    /// Floats of [`Tile::ahead`] that a tile with sums of this length asks for.
    pub(crate) fn floats_ahead(depth: usize) -> usize {
        depth / UNROLLED * LINE
    }

    /// Computes the tile.
    ///
    /// # Safety
    /// The operands must be readable as their comments say, the tile of `c` writable and nobody else's.
    // A call would copy the operands of every tile.
    #[inline(always)]
    pub(crate) unsafe fn run(self, level: Level) {
        let lanes = level.lanes();
        if self.columns.is_multiple_of(lanes) {
            // SAFETY: the caller's promise.
            return unsafe { self.vectors(level) };
        }
        // A ragged edge is computed aside, then finished one by one.
        let mut edge = [0f32; MOST_ROWS * WIDE.columns];
        let columns = self.columns.next_multiple_of(lanes);
        let (c, c_stride) = (edge.as_mut_ptr(), WIDE.columns);
        let null = std::ptr::null();
        let plain = Self { add: false, bias: null, relu: false, mask: null, cross: None, ..self };
        let aside = Self { columns, c, c_stride, ..plain };
        // SAFETY: `edge` has room for a full tile; the rest is the caller's promise.
        unsafe {
            aside.vectors(level);
            for i in 0..self.rows {
                for j in 0..self.columns {
                    self.finish_one(i, j, edge[i * WIDE.columns + j]);
                }
            }
        }
    }

    /// Finishes and stores the element (i, j).
    ///
    /// # Safety
    /// As for [`Tile::run`], and the element lies in the tile.
    #[inline]
    unsafe fn finish_one(&self, i: usize, j: usize, mut value: f32) {
        let at = i * self.c_stride + j;
        // SAFETY: the tile of `c` is ours; `bias` is null or as long as the tile is wide, `mask` null or laid out as
        // `c`, as are the operands of a cross layer.
        unsafe {
            let c = self.c.add(at);
            if self.add {
                value += *c;
            }
            if !self.bias.is_null() {
                value += *self.bias.add(j);
            }
            let off = (self.relu && value < 0.0) || (!self.mask.is_null() && *self.mask.add(at) <= 0.0);
            let value = if off { 0.0 } else { value };
            *c = value;
            if let Some((x0, x, out)) = self.cross {
                *out.add(at) = *x0.add(at) * value + *x.add(at);
            }
        }
    }

    /// # Safety
    /// As for [`Tile::run`], and `columns` is one vector, two or three.
    #[inline]
    unsafe fn vectors(self, level: Level) {
        let vectors = self.columns / level.lanes();
        // SAFETY: the caller's promise; a level's instructions exist.
        unsafe {
            match level {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => match (self.rows, vectors) {
                    (5.., 3) => avx512::<8, 3>(&self),
                    (3.., 3) => avx512::<4, 3>(&self),
                    (_, 3) => avx512::<2, 3>(&self),
                    (13.., 2) => avx512::<14, 2>(&self),
                    (9.., 2) => avx512::<12, 2>(&self),
                    (5.., 2) => avx512::<8, 2>(&self),
                    (3.., 2) => avx512::<4, 2>(&self),
                    (_, 2) => avx512::<2, 2>(&self),
                    (9.., _) => avx512::<14, 1>(&self),
                    (5.., _) => avx512::<8, 1>(&self),
                    (_, _) => avx512::<4, 1>(&self),
                },
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 if vectors == 2 => avx2::<6, 2>(&self),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => avx2::<6, 1>(&self),
                Level::Portable if vectors == 2 => portable::<8>(&self),
                Level::Portable => portable::<4>(&self),
            }
        }
    }
}

/// Steps of a sum between two jumps of the loop.
const UNROLLED: usize = 4;

/// One step of all sums of a tile of R rows and V vectors: a line of `a` times a line of `b`.
#[cfg(target_arch = "x86_64")]
macro_rules! step {
    ($sums:ident, $a:expr, $b:expr, $lanes:literal, $zero:ident, $load:ident, $splat:ident, $fma:ident) => {{
        let (a, b) = ($a, $b);
        let mut vectors = [$zero(); V];
        for v in 0..V {
            vectors[v] = $load(b.wrapping_add(v * $lanes));
        }
        for i in 0..R {
            let factor = $splat(*a.wrapping_add(i));
            for v in 0..V {
                $sums[i][v] = $fma(factor, vectors[v], $sums[i][v]);
            }
        }
    }};
}

/// A tile of R rows and V vectors. Every `fma` has its own accumulator: R·V of them hide its latency.
#[cfg(target_arch = "x86_64")]
macro_rules! tile {
    ($name:ident, $feature:literal, $lanes:literal, $zero:ident, $load:ident, $splat:ident, $fma:ident, $add:ident,
     $mul:ident, $max:ident, $keep:ident, $store:ident) => {
        #[target_feature(enable = $feature)]
        unsafe fn $name<const R: usize, const V: usize>(t: &Tile) {
            use std::arch::x86_64::*;
            let mut sums = [[$zero(); V]; R];
            let (mut a, mut b) = (t.a, t.b);
            // Strides that are known while compiling save instructions.
            let wide = V * $lanes == WIDE.columns;
            assert!(!wide || (t.a_stride, t.b_stride) == (WIDE.rows, WIDE.columns));
            let a_stride = if wide { WIDE.rows } else { t.a_stride };
            let b_stride = if wide { WIDE.columns } else { t.b_stride };
            // SAFETY: the operands are readable and writable as `Tile` says; prefetches may go anywhere.
            unsafe {
                let ask = |line: *const f32| _mm_prefetch::<_MM_HINT_T0>(line.cast());
                let (mut ahead, line) = t.ahead.map_or((t.b, 0), |ahead| (ahead, LINE));
                // Between the steps, row after row, what the results need is asked for: all at once would hold up the loads of the steps.
                let turns = t.depth / UNROLLED;
                let between = turns / (R + 1);
                for row in 0..=R {
                    for v in 0..V * usize::from(row < t.rows) {
                        let at = row * t.c_stride + v * $lanes;
                        ask(t.c.wrapping_add(at));
                        if let Some((x0, x, out)) = t.cross {
                            ask(x0.wrapping_add(at));
                            ask(x.wrapping_add(at));
                            ask(out.wrapping_add(at));
                        }
                    }
                    for _ in 0..if row < R { between } else { turns - R * between } {
                        for u in 0..UNROLLED {
                            let (a, b) = (a.wrapping_add(u * a_stride), b.wrapping_add(u * b_stride));
                            step!(sums, a, b, $lanes, $zero, $load, $splat, $fma);
                        }
                        a = a.wrapping_add(UNROLLED * a_stride);
                        b = b.wrapping_add(UNROLLED * b_stride);
                        _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
                        ahead = ahead.wrapping_add(line);
                    }
                }
                for u in 0..t.depth % UNROLLED {
                    let (a, b) = (a.wrapping_add(u * a_stride), b.wrapping_add(u * b_stride));
                    step!(sums, a, b, $lanes, $zero, $load, $splat, $fma);
                }
                for (i, sums) in sums.into_iter().enumerate() {
                    if i >= t.rows {
                        break;
                    }
                    for (v, mut sum) in sums.into_iter().enumerate() {
                        let at = i * t.c_stride + v * $lanes;
                        let c = t.c.add(at);
                        if t.add {
                            sum = $add(sum, $load(c));
                        }
                        if !t.bias.is_null() {
                            sum = $add(sum, $load(t.bias.add(v * $lanes)));
                        }
                        if t.relu {
                            // Of 0 and NaN this instruction gives the second.
                            sum = $max($zero(), sum);
                        }
                        if !t.mask.is_null() {
                            sum = $keep(sum, $load(t.mask.add(at)));
                        }
                        if let Some((x0, x, out)) = t.cross {
                            // Two roundings, as everywhere else: no fused multiply-add.
                            let product = $mul($load(x0.add(at)), sum);
                            $store(out.add(at), $add(product, $load(x.add(at))));
                        }
                        $store(c, sum);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tile!(
    avx512,
    "avx512f",
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_max_ps,
    keep_avx512,
    _mm512_storeu_ps
);
#[cfg(target_arch = "x86_64")]
tile!(
    avx2,
    "avx2,fma",
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_mul_ps,
    _mm256_max_ps,
    keep_avx2,
    _mm256_storeu_ps
);

/// `value` where `mask` is positive or NaN, else 0.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
fn keep_avx512(
    value: std::arch::x86_64::__m512,
    mask: std::arch::x86_64::__m512,
) -> std::arch::x86_64::__m512 {
    use std::arch::x86_64::*;
    _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLE_UQ>(mask, _mm512_setzero_ps()), value)
}

/// `value` where `mask` is positive or NaN, else 0.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn keep_avx2(value: std::arch::x86_64::__m256, mask: std::arch::x86_64::__m256) -> std::arch::x86_64::__m256 {
    use std::arch::x86_64::*;
    _mm256_and_ps(value, _mm256_cmp_ps::<_CMP_NLE_UQ>(mask, _mm256_setzero_ps()))
}

/// Computes a tile with plain loops over N columns.
unsafe fn portable<const N: usize>(t: &Tile) {
    // Stable Rust has instructions that ask for memory on x86-64 alone, so `ahead` is left here.
    let _ = t.ahead;
    let mut sums = [[0f32; N]; 4];
    for k in 0..t.depth {
        for (i, sums) in sums.iter_mut().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `a` and `b` are readable as `Tile` says.
                *sum += unsafe { *t.a.add(k * t.a_stride + i) * *t.b.add(k * t.b_stride + j) };
            }
        }
    }
    for (i, sums) in sums.iter().enumerate().take(t.rows) {
        for (j, &sum) in sums.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { t.finish_one(i, j, sum) };
        }
    }
}
