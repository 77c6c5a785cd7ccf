//! Products of panels by the vector instructions for bf16 (AVX-512-BF16), where a core has no matrix units.
#![allow(unsafe_code)]

use super::amx::{BLOCK, Block};
use std::arch::x86_64::*;

/// Rows whose sums are in registers at a time, two vectors each.
const ROWS: usize = 8;
/// Numbers of a tile, and of one of its lines.
const TILE: usize = 512;
const LINE: usize = 32;

/// Adds `Σ a·b` over the steps of a block to its sums. Operands are not split.
///
/// # Safety
/// The processor must have AVX-512 with instructions for bf16, and the pointers of `block` must be valid as its fields say.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn run(block: &Block) {
    assert!(!block.split);
    for first in (0..BLOCK).step_by(ROWS) {
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        // SAFETY: the panels have two tiles for each step, `from` and `to` 32 rows: the caller's promise.
        unsafe {
            if !block.from.is_null() {
                for (i, sums) in sums.iter_mut().enumerate() {
                    let from = block.from.add((first + i) * block.from_stride);
                    *sums = [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16))];
                }
            }
            let rows = block.a.add(first / 16 * TILE + first % 16 * LINE);
            for step in 0..block.steps {
                let (a, b) = (rows.add(step * 2 * TILE), block.b.add(step * 2 * TILE));
                for pair in 0..16 {
                    let b = [load(b.add(pair * LINE)), load(b.add(TILE + pair * LINE))];
                    for (i, sums) in sums.iter_mut().enumerate() {
                        let a = a.add(i * LINE + 2 * pair).cast::<i32>().read_unaligned();
                        let a = std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(a));
                        sums[0] = _mm512_dpbf16_ps(sums[0], a, b[0]);
                        sums[1] = _mm512_dpbf16_ps(sums[1], a, b[1]);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                let to = block.to.add((first + i) * block.stride);
                _mm512_storeu_ps(to, sums[0]);
                _mm512_storeu_ps(to.add(16), sums[1]);
            }
        }
    }
}

/// # Safety
/// `from` must be readable for 32 numbers.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
unsafe fn load(from: *const u16) -> __m512bh {
    // SAFETY: the caller's promise; two names of the same register.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_maskz_loadu_epi32(u16::MAX, from.cast())) }
}

/// Runs `count` times 24 instructions on registers alone, for the peak rate, and returns the FLOPs of one time.
///
/// # Safety
/// The processor must have AVX-512 with instructions for bf16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn peak(count: usize) -> f64 {
    let ones = std::hint::black_box(_mm512_set1_epi32(0x3f80_3f80));
    // SAFETY: two names of the same register.
    let ones = unsafe { std::mem::transmute::<__m512i, __m512bh>(ones) };
    let mut sums = [_mm512_setzero_ps(); 24];
    for _ in 0..count {
        for sum in &mut sums {
            *sum = _mm512_dpbf16_ps(*sum, ones, ones);
        }
    }
    std::hint::black_box(sums);
    (2 * 32 * 24) as f64
}
