//! Rows of 16-bit floats by instructions that convert eight at a time, which every [`Level`] but the portable one has.
#![allow(unsafe_code)]

use super::level::Level;
use crate::half_float::{Bf16, F16, Half, StoredWeight, decode};

/// Bits of an `H`, on a processor with the instructions: made by [`rows`] alone.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Fast<H>(H);

/// `halves` as 16-bit floats of a processor that has the instructions; `None` where it has not.
pub(super) fn rows<H: Convert>(level: Level, halves: &[u16]) -> Option<&[Fast<H>]> {
    if level == Level::Portable {
        return None;
    }
    // SAFETY: a transparent wrapper of a transparent wrapper of u16 has the layout of u16, and all bits are a value.
    Some(unsafe { std::slice::from_raw_parts(halves.as_ptr().cast(), halves.len()) })
}

/// 16-bit floats of which eight are converted at a time; each is a transparent wrapper of `u16`.
pub(super) trait Convert: StoredWeight {
    /// Eight floats of a row.
    ///
    /// # Safety
    /// The processor has the instructions of AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn floats(row: &[Fast<Self>; 8]) -> std::arch::x86_64::__m256;
}

impl<H: Convert> StoredWeight for Fast<H> {
    #[inline(always)]
    fn float(self) -> f32 {
        self.0.float()
    }

    #[inline(always)]
    fn add(weight: f32, row: &[Self], sum: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: values of this type exist only where the instructions were detected.
        unsafe {
            eights::add(weight, row, sum);
        }
        #[cfg(not(target_arch = "x86_64"))]
        for (sum, row) in sum.iter_mut().zip(row) {
            *sum += weight * row.float();
        }
    }
}

/// As [`decode`], by the instructions where the level has them.
#[inline(always)]
pub fn decode_row(level: Level, half: Half, from: &[u16], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if half == Half::F16
        && let Some(from) = rows::<F16>(level, from)
    {
        // SAFETY: `rows` gives them only where the instructions were detected.
        return unsafe { eights::decode(from, to) };
    }
    let _ = level;
    decode(half, from, to);
}

/// `sum += weight·row` as lookups add a row, by the instructions; false, and nothing done, where the level has none. For
/// tests alone.
pub fn add_row(level: Level, half: Half, weight: f32, row: &[u16], sum: &mut [f32]) -> bool {
    let added = match half {
        Half::F16 => rows::<F16>(level, row).map(|row| Fast::add(weight, row, sum)),
        Half::Bf16 => rows::<Bf16>(level, row).map(|row| Fast::add(weight, row, sum)),
    };
    added.is_some()
}

#[cfg(target_arch = "x86_64")]
mod eights {
    use super::{Bf16, Convert, F16, Fast, StoredWeight};
    use std::arch::x86_64::*;

    impl Convert for F16 {
        #[inline]
        #[target_feature(enable = "avx2,f16c")]
        unsafe fn floats(row: &[Fast<Self>; 8]) -> __m256 {
            // SAFETY: eight values of two bytes are sixteen bytes; the load needs no alignment.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(row.as_ptr().cast())) }
        }
    }

    impl Convert for Bf16 {
        #[inline]
        #[target_feature(enable = "avx2,f16c")]
        unsafe fn floats(row: &[Fast<Self>; 8]) -> __m256 {
            // SAFETY: as above.
            let wide = unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(row.as_ptr().cast())) };
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }

    /// `sum += weight·row`.
    ///
    /// # Safety
    /// As for [`Convert::floats`].
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub unsafe fn add<H: Convert>(weight: f32, row: &[Fast<H>], sum: &mut [f32]) {
        let ((row, row_rest), (sum, sum_rest)) = (row.as_chunks::<8>(), sum.as_chunks_mut::<8>());
        let factor = _mm256_set1_ps(weight);
        for (sum, row) in sum.iter_mut().zip(row) {
            // SAFETY: as the caller promises; eight floats are read and written where they are.
            unsafe {
                let product = _mm256_mul_ps(factor, H::floats(row));
                _mm256_storeu_ps(sum.as_mut_ptr(), _mm256_add_ps(_mm256_loadu_ps(sum.as_ptr()), product));
            }
        }
        for (sum, row) in sum_rest.iter_mut().zip(row_rest) {
            *sum += weight * row.float();
        }
    }

    /// The numbers that `from` stands for.
    ///
    /// # Safety
    /// As for [`Convert::floats`].
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub unsafe fn decode<H: Convert>(from: &[Fast<H>], to: &mut [f32]) {
        let ((from, from_rest), (to, to_rest)) = (from.as_chunks::<8>(), to.as_chunks_mut::<8>());
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: as the caller promises; eight floats are written where they are.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), H::floats(from)) };
        }
        for (to, from) in to_rest.iter_mut().zip(from_rest) {
            *to = from.float();
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Convert for F16 {}
#[cfg(not(target_arch = "x86_64"))]
impl Convert for Bf16 {}
