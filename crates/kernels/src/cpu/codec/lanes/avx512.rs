//! Lanes in one register of 512 bits.
#![allow(unsafe_code)]

use super::{LANES, Lanes};
use std::arch::x86_64::*;
use std::mem::transmute;

/// Lanes of AVX-512.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// Smallest lane of `a` and largest of `b`: both at once, since the largest is the smallest of the negated.
///
/// # Safety
/// The machine has AVX-512.
#[inline(always)]
unsafe fn ends(a: __m512, b: __m512) -> [f32; 2] {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let negated =
            _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(b), _mm512_set1_epi32(i32::MIN)));
        // Quarters of `a` and of what is negated, side by side.
        let low = _mm512_shuffle_f32x4::<0b_01_00_01_00>(a, negated);
        let high = _mm512_shuffle_f32x4::<0b_11_10_11_10>(a, negated);
        let eights = _mm512_min_ps(low, high);
        let fours = _mm512_min_ps(eights, _mm512_shuffle_f32x4::<0b_10_11_00_01>(eights, eights));
        let twos = _mm512_min_ps(fours, _mm512_permute_ps::<0b_01_00_11_10>(fours));
        let ones = _mm512_min_ps(twos, _mm512_permute_ps::<0b_10_11_00_01>(twos));
        let upper = _mm512_extractf32x4_ps::<2>(ones);
        [_mm512_cvtss_f32(ones), -_mm_cvtss_f32(upper)]
    }
}

/// Mask of the first lanes.
#[inline(always)]
fn first(lanes: usize) -> __mmask16 {
    ((1u32 << lanes.min(LANES)) - 1) as __mmask16
}

// Every block below is one operation.
// SAFETY of all of them: lanes are used where their instructions were detected. Arrays and registers of one size hold any bits; they
// change by value, since loads through addresses are checked, and slow, in builds with debug assertions.
impl Lanes for Avx512 {
    type F = __m512;
    type I = __m512i;

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self::F {
        // SAFETY: as above.
        unsafe { transmute::<[f32; LANES], __m512>(*from) }
    }
    #[inline(always)]
    fn store(x: Self::F, to: &mut [f32; LANES]) {
        // SAFETY: as above.
        unsafe { *to = transmute::<__m512, [f32; LANES]>(x) }
    }
    #[inline(always)]
    fn load_some(from: &[f32], with: Self::F) -> Self::F {
        // SAFETY: as above; no lane past the slice is read.
        unsafe { _mm512_mask_loadu_ps(with, first(from.len()), from.as_ptr()) }
    }
    #[inline(always)]
    fn store_some(x: Self::F, to: &mut [f32]) {
        // SAFETY: as above; no lane past the slice is written.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), first(to.len()), x) }
    }
    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn min(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn max(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn if_less(a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes) }
    }
    #[inline(always)]
    fn all_numbers(x: Self::F) -> bool {
        // SAFETY: as above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x) == 0 }
    }
    #[inline(always)]
    fn ends(a: Self::F, b: Self::F) -> [f32; 2] {
        // SAFETY: as above.
        unsafe { ends(a, b) }
    }
    #[inline(always)]
    fn bits(x: Self::F) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_castps_si512(x) }
    }
    #[inline(always)]
    fn of_bits(x: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_castsi512_ps(x) }
    }
    #[inline(always)]
    fn floats(x: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi32_ps(x) }
    }
    #[inline(always)]
    fn splat_bits(x: u32) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_set1_epi32(x as i32) }
    }
    #[inline(always)]
    fn count() -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0) }
    }
    #[inline(always)]
    fn add_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn mul_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_mullo_epi32(a, b) }
    }
    #[inline(always)]
    fn and(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn or(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn xor(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn left<const BY: u32>(x: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_slli_epi32::<BY>(x) }
    }
    #[inline(always)]
    fn right<const BY: u32>(x: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_srli_epi32::<BY>(x) }
    }
    #[inline(always)]
    fn min_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_min_epi32(a, b) }
    }
    #[inline(always)]
    fn max_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_max_epi32(a, b) }
    }
    #[inline(always)]
    fn largest(x: Self::I) -> u32 {
        // SAFETY: as above.
        unsafe { _mm512_reduce_max_epi32(x) as u32 }
    }
    #[inline(always)]
    fn if_more(a: Self::I, b: Self::I, yes: Self::I, no: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, b), no, yes) }
    }
    #[inline(always)]
    fn bytes(x: Self::I) -> [u8; 16] {
        // SAFETY: as above.
        unsafe { bytemuck::cast(_mm512_cvtepi32_epi8(x)) }
    }
    #[inline(always)]
    fn nibbles(x: Self::I) -> [u8; 8] {
        // SAFETY: as above.
        unsafe {
            bytemuck::cast(_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(_mm512_or_si512(
                x,
                _mm512_srli_epi64::<28>(x),
            ))))
        }
    }
    #[inline(always)]
    fn quarters(x: Self::I) -> [u8; 4] {
        // SAFETY: as above.
        unsafe {
            let fours = _mm512_cvtepi32_epi8(x);
            let fours = _mm_or_si128(fours, _mm_srli_epi32::<6>(fours));
            let fours = _mm_or_si128(fours, _mm_srli_epi32::<12>(fours));
            let lowest = _mm_shuffle_epi8(fours, _mm_set1_epi32(0x0c08_0400));
            _mm_cvtsi128_si32(lowest).to_ne_bytes()
        }
    }
    #[inline(always)]
    fn of_bytes(from: &[u8; 16]) -> Self::I {
        // SAFETY: as above.
        unsafe { _mm512_cvtepu8_epi32(transmute::<[u8; 16], __m128i>(*from)) }
    }
    #[inline(always)]
    fn of_nibbles(from: &[u8; 8]) -> Self::I {
        // SAFETY: as above.
        unsafe {
            let pairs = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_ne_bytes(*from)));
            let pairs = _mm512_or_si512(pairs, _mm512_slli_epi64::<28>(pairs));
            _mm512_and_si512(pairs, _mm512_set1_epi32(15))
        }
    }
    #[inline(always)]
    fn of_quarters(from: &[u8; 4]) -> Self::I {
        // SAFETY: as above.
        unsafe {
            let fours = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(i32::from_ne_bytes(*from)));
            let fours = _mm_or_si128(fours, _mm_slli_epi32::<12>(fours));
            let fours = _mm_and_si128(fours, _mm_set1_epi32(0x000f_000f));
            let bytes = _mm_or_si128(fours, _mm_slli_epi32::<6>(fours));
            let bytes = _mm_and_si128(bytes, _mm_set1_epi32(0x0303_0303));
            _mm512_cvtepu8_epi32(bytes)
        }
    }
    #[inline(always)]
    fn halves(x: Self::F) -> [u8; 32] {
        // SAFETY: as above.
        unsafe {
            transmute::<__m256i, [u8; 32]>(
                _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x),
            )
        }
    }
    #[inline(always)]
    fn of_halves(from: &[u8; 32]) -> Self::F {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(transmute::<[u8; 32], __m256i>(*from)) }
    }
}
