//! Vector instructions of this machine, detected once.
#![allow(unsafe_code)]

use half::f16;

/// A set of vector instructions. `Avx512` and `Avx2` exist only where [`Level::detect`] found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Level {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx2 && is_x86_feature_detected!("avx512f") {
                return Level::Avx512;
            }
            if avx2 {
                return Level::Avx2;
            }
        }
        Level::Portable
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            Level::Portable => "portable",
        }
    }

    /// Runs `work` compiled for these instructions, as far as it is inlined: plain loops in it become vector loops.
    #[inline(always)]
    pub(crate) fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self {
            // SAFETY: a level is only made where its instructions were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { with_avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { with_avx2(work) },
            Level::Portable => work(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,f16c")]
fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// `to = from` in half precision, two bytes each, rounded to nearest even. Elements past the shorter of both stay as they are.
#[inline(always)]
pub(crate) fn to_f16(level: Level, from: &[f32], to: &mut [u8]) {
    let to = to.as_chunks_mut::<2>().0;
    let (mut done, len) = (0, from.len().min(to.len()));
    #[cfg(target_arch = "x86_64")]
    if level != Level::Portable {
        // SAFETY: every level but the portable one has these instructions.
        done = unsafe { to_f16_by_eight(&from[..len], &mut to[..len]) };
    }
    let _ = level;
    let rest = to[done..len].iter_mut().zip(&from[done..]);
    rest.for_each(|(to, from)| *to = f16::from_f32(*from).to_ne_bytes());
}

/// `to = from`, where `from` holds floats in half precision, two bytes each.
#[inline(always)]
pub(crate) fn from_f16(level: Level, from: &[u8], to: &mut [f32]) {
    let from = from.as_chunks::<2>().0;
    let (mut done, len) = (0, from.len().min(to.len()));
    #[cfg(target_arch = "x86_64")]
    if level != Level::Portable {
        // SAFETY: as above.
        done = unsafe { from_f16_by_eight(&from[..len], &mut to[..len]) };
    }
    let _ = level;
    let rest = to[done..len].iter_mut().zip(&from[done..]);
    rest.for_each(|(to, from)| *to = f16::from_ne_bytes(*from).to_f32());
}

/// Converts as many values as fit into groups of eight, and returns their number.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn to_f16_by_eight(from: &[f32], to: &mut [[u8; 2]]) -> usize {
    use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps};
    let eights = from.as_chunks::<8>().0;
    for (from, to) in eights.iter().zip(to.as_chunks_mut::<8>().0) {
        // SAFETY: eight elements are read and written, all of them there; neither needs to be aligned.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
            _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
        }
    }
    eights.len() * 8
}

/// The other way.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn from_f16_by_eight(from: &[[u8; 2]], to: &mut [f32]) -> usize {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    let eights = from.as_chunks::<8>().0;
    for (from, to) in eights.iter().zip(to.as_chunks_mut::<8>().0) {
        // SAFETY: as above.
        unsafe {
            let floats = _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()));
            _mm256_storeu_ps(to.as_mut_ptr(), floats);
        }
    }
    eights.len() * 8
}

/// Asks for the cache lines of `slice[at..at + len]`, as far as they exist, ahead of their use.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = slice.as_ptr().wrapping_add(at).cast::<i8>();
        for line in (0..len * size_of::<T>()).step_by(64) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at, len);
}
