//! Vector instructions of this machine, detected once.
#![allow(unsafe_code)]

/// A set of vector instructions. `Avx512` and `Avx2` exist only where [`Level::detect`] found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2, with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every machine has.
    Portable,
}

impl Level {
    /// The most that this machine has.
    pub fn detect() -> Self {
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
            Level::Portable => portable(work),
        }
    }
}

impl Level {
    /// Runs `work` as [`Level::run`] does, and does not compile it for the portable level.
    ///
    /// # Panics
    /// At the portable level.
    #[inline(always)]
    pub(crate) fn run_vectors<R>(self, work: impl FnOnce() -> R) -> R {
        match self {
            // SAFETY: a level is only made where its instructions were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { with_avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { with_avx2(work) },
            Level::Portable => unreachable!("work for vector instructions at the portable level"),
        }
    }
}

/// Apart from its caller, as the others are: work of three levels in one function takes long to compile.
#[inline(never)]
fn portable<R>(work: impl FnOnce() -> R) -> R {
    work()
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

/// Asks for the cache lines of `slice[at..at + len]`, as far as they exist, ahead of their use.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = slice.as_ptr().wrapping_add(at).cast::<i8>();
        let bytes = len * size_of::<T>();
        for line in (0..bytes).step_by(64) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line)) };
        }
        if !bytes.is_multiple_of(64) {
            // Elements that do not begin with a line may reach into one line more: asking for it costs less than finding out.
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(bytes).wrapping_sub(1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at, len);
}

/// Asks for the cache lines of `len` elements from `start[at]` on, which will be written, ahead of their use. Other threads may be
/// writing there.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(start: *const T, at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        let first = start.wrapping_add(at).cast::<i8>();
        let bytes = len * size_of::<T>();
        for line in (0..bytes).step_by(64) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(first.wrapping_add(line)) };
        }
        if !bytes.is_multiple_of(64) {
            // Elements that do not begin with a line may reach into one line more.
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(first.wrapping_add(bytes).wrapping_sub(1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, at, len);
}
