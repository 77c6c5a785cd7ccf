//! Lanes in two registers of 256 bits.
#![allow(unsafe_code)]

use super::{LANES, Lanes};
use std::arch::x86_64::*;

/// Lanes of AVX2 with FMA and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// Smallest lane of `a` and largest of `b`.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn ends(a: (__m256, __m256), b: (__m256, __m256)) -> [f32; 2] {
    // SAFETY: the caller promises the instructions.
    unsafe {
        // The largest is the smallest of the negated: both are found side by side.
        let (a, b) = (_mm256_min_ps(a.0, a.1), _mm256_max_ps(b.0, b.1));
        let b = _mm256_xor_ps(b, _mm256_set1_ps(-0.0));
        let fours = _mm256_min_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
        let twos = _mm256_min_ps(fours, _mm256_permute_ps::<0b_01_00_11_10>(fours));
        let ones = _mm256_min_ps(twos, _mm256_permute_ps::<0b_10_11_00_01>(twos));
        let upper = _mm256_extractf128_ps::<1>(ones);
        [_mm256_cvtss_f32(ones), -_mm_cvtss_f32(upper)]
    }
}

/// `yes` where `a < b`, else `no`.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn if_less(a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
    // SAFETY: the caller promises the instructions.
    unsafe { _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
}

/// Largest of eight lanes.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn largest(x: __m256i) -> u32 {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let fours = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        let twos = _mm_max_epi32(fours, _mm_shuffle_epi32::<0b_01_00_11_10>(fours));
        _mm_cvtsi128_si32(_mm_max_epi32(twos, _mm_shuffle_epi32::<0b_10_11_00_01>(twos))) as u32
    }
}

/// Lowest 8 bits of each lane.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn bytes(low: __m256i, high: __m256i) -> __m128i {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let ones = _mm256_set1_epi32(0xff);
        let pairs = _mm256_packus_epi32(_mm256_and_si256(low, ones), _mm256_and_si256(high, ones));
        let pairs = _mm256_permute4x64_epi64::<0b_11_01_10_00>(pairs);
        _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs))
    }
}

/// Masks of the first lanes.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn first(lanes: usize) -> (__m256i, __m256i) {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let lanes = _mm256_set1_epi32(lanes.min(LANES) as i32);
        let (low, high) = Avx2::count();
        (_mm256_cmpgt_epi32(lanes, low), _mm256_cmpgt_epi32(lanes, high))
    }
}

// Every block below is one operation.
// SAFETY of all of them: lanes are used where their instructions were detected. Arrays and registers of one size hold any bits; they
// change by value, since loads through addresses are checked, and slow, in builds with debug assertions.
impl Lanes for Avx2 {
    type F = (__m256, __m256);
    type I = (__m256i, __m256i);

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self::F {
        let [low, high]: [__m256; 2] = bytemuck::cast(*from);
        (low, high)
    }
    #[inline(always)]
    fn store(x: Self::F, to: &mut [f32; LANES]) {
        *to = bytemuck::cast([x.0, x.1]);
    }
    #[inline(always)]
    fn load_some(from: &[f32], with: Self::F) -> Self::F {
        // SAFETY: as above; no lane past the slice is read.
        unsafe {
            let (low, high) = first(from.len());
            let x = _mm256_maskload_ps(from.as_ptr(), low);
            let y = _mm256_maskload_ps(from.as_ptr().wrapping_add(8), high);
            let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
            (_mm256_blendv_ps(with.0, x, low), _mm256_blendv_ps(with.1, y, high))
        }
    }
    #[inline(always)]
    fn store_some(x: Self::F, to: &mut [f32]) {
        // SAFETY: as above; no lane past the slice is written.
        unsafe {
            let (low, high) = first(to.len());
            _mm256_maskstore_ps(to.as_mut_ptr(), low, x.0);
            _mm256_maskstore_ps(to.as_mut_ptr().wrapping_add(8), high, x.1);
        }
    }
    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn div(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
    }
    #[inline(always)]
    fn min(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_min_ps(a.0, b.0), _mm256_min_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn max(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn if_less(a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { (if_less(a.0, b.0, yes.0, no.0), if_less(a.1, b.1, yes.1, no.1)) }
    }
    #[inline(always)]
    fn all_numbers(x: Self::F) -> bool {
        // SAFETY: as above.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x.0, x.1)) == 0 }
    }
    #[inline(always)]
    fn ends(a: Self::F, b: Self::F) -> [f32; 2] {
        // SAFETY: as above.
        unsafe { ends(a, b) }
    }
    #[inline(always)]
    fn bits(x: Self::F) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_castps_si256(x.0), _mm256_castps_si256(x.1)) }
    }
    #[inline(always)]
    fn of_bits(x: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_castsi256_ps(x.0), _mm256_castsi256_ps(x.1)) }
    }
    #[inline(always)]
    fn floats(x: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { (_mm256_cvtepi32_ps(x.0), _mm256_cvtepi32_ps(x.1)) }
    }
    #[inline(always)]
    fn splat_bits(x: u32) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_set1_epi32(x as i32), _mm256_set1_epi32(x as i32)) }
    }
    #[inline(always)]
    fn count() -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set_epi32(15, 14, 13, 12, 11, 10, 9, 8)) }
    }
    #[inline(always)]
    fn add_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_add_epi32(a.0, b.0), _mm256_add_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn sub_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_sub_epi32(a.0, b.0), _mm256_sub_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn mul_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_mullo_epi32(a.0, b.0), _mm256_mullo_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn and(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_and_si256(a.0, b.0), _mm256_and_si256(a.1, b.1)) }
    }
    #[inline(always)]
    fn or(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_or_si256(a.0, b.0), _mm256_or_si256(a.1, b.1)) }
    }
    #[inline(always)]
    fn xor(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_xor_si256(a.0, b.0), _mm256_xor_si256(a.1, b.1)) }
    }
    #[inline(always)]
    fn left<const BY: u32>(x: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe {
            let by = _mm_cvtsi32_si128(BY as i32);
            (_mm256_sll_epi32(x.0, by), _mm256_sll_epi32(x.1, by))
        }
    }
    #[inline(always)]
    fn right<const BY: u32>(x: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe {
            let by = _mm_cvtsi32_si128(BY as i32);
            (_mm256_srl_epi32(x.0, by), _mm256_srl_epi32(x.1, by))
        }
    }
    #[inline(always)]
    fn min_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_min_epi32(a.0, b.0), _mm256_min_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn max_bits(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { (_mm256_max_epi32(a.0, b.0), _mm256_max_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn largest(x: Self::I) -> u32 {
        // SAFETY: as above.
        unsafe { largest(_mm256_max_epi32(x.0, x.1)) }
    }
    #[inline(always)]
    fn if_more(a: Self::I, b: Self::I, yes: Self::I, no: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe {
            (
                _mm256_blendv_epi8(no.0, yes.0, _mm256_cmpgt_epi32(a.0, b.0)),
                _mm256_blendv_epi8(no.1, yes.1, _mm256_cmpgt_epi32(a.1, b.1)),
            )
        }
    }
    #[inline(always)]
    fn bytes(x: Self::I) -> [u8; 16] {
        // SAFETY: as above.
        unsafe { bytemuck::cast(bytes(x.0, x.1)) }
    }
    #[inline(always)]
    fn nibbles(x: Self::I) -> [u8; 8] {
        // SAFETY: as above.
        unsafe {
            // A byte holds one lane: the lower of two lanes, and the upper four bits further on.
            let pairs = bytes(x.0, x.1);
            let pairs = _mm_or_si128(pairs, _mm_srli_epi16::<4>(pairs));
            let pairs = _mm_and_si128(pairs, _mm_set1_epi16(0xff));
            bytemuck::cast(_mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)))
        }
    }
    #[inline(always)]
    fn quarters(x: Self::I) -> [u8; 4] {
        // SAFETY: as above.
        unsafe {
            let fours = bytes(x.0, x.1);
            let fours = _mm_or_si128(fours, _mm_srli_epi32::<6>(fours));
            let fours = _mm_or_si128(fours, _mm_srli_epi32::<12>(fours));
            let lowest = _mm_shuffle_epi8(fours, _mm_set1_epi32(0x0c08_0400));
            _mm_cvtsi128_si32(lowest).to_ne_bytes()
        }
    }
    #[inline(always)]
    fn of_bytes(from: &[u8; 16]) -> Self::I {
        // SAFETY: as above.
        unsafe {
            let [low, high]: [i64; 2] = bytemuck::cast(*from);
            (_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(low)), _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(high)))
        }
    }
    #[inline(always)]
    fn of_nibbles(from: &[u8; 8]) -> Self::I {
        // SAFETY: as above.
        unsafe {
            let pairs = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(i64::from_ne_bytes(*from)));
            let pairs = _mm_or_si128(pairs, _mm_slli_epi16::<4>(pairs));
            let pairs = _mm_and_si128(pairs, _mm_set1_epi8(15));
            (_mm256_cvtepu8_epi32(pairs), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(pairs, pairs)))
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
            (_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)))
        }
    }
    #[inline(always)]
    fn halves(x: Self::F) -> [u8; 32] {
        // SAFETY: as above.
        unsafe {
            let low = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.0);
            let high = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.1);
            bytemuck::cast([low, high])
        }
    }
    #[inline(always)]
    fn of_halves(from: &[u8; 32]) -> Self::F {
        // SAFETY: as above.
        unsafe {
            let [low, high]: [__m128i; 2] = bytemuck::cast(*from);
            (_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
        }
    }
}
