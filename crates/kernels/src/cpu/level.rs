//! Vector instructions of this machine, detected once.
#![allow(unsafe_code)]

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
            // Such rows reach into one line more, or do not: asking always costs less than finding out.
            // SAFETY: as above.
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
            // The last line, where the first element does not begin with one.
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(first.wrapping_add(bytes).wrapping_sub(1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, at, len);
}

/// `to = from`, both of one length, past the caches as far as `to` consists of whole 16-byte vectors. Other threads see the
/// stores after a [`fence`].
#[inline(always)]
pub(crate) fn store_streamed(to: &mut [f32], from: &[f32]) {
    assert_eq!(to.len(), from.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
        let whole = if to.as_ptr().addr().is_multiple_of(16) { to.len() / 4 * 4 } else { 0 };
        for i in (0..whole).step_by(4) {
            // SAFETY: both slices have four floats from `i` on, and `to` is aligned to 16 bytes.
            unsafe { _mm_stream_ps(to.as_mut_ptr().add(i), _mm_loadu_ps(from.as_ptr().add(i))) };
        }
        to[whole..].copy_from_slice(&from[whole..]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

/// Makes streamed stores visible to other threads before whatever follows.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: every x86-64 has this instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}
