//! Writes past the caches.
//!
//! A result that is larger than the caches does not stay there. Written past them, none of its lines is read before it is
//! written, which is a third of the memory traffic of a copy, and whoever reads it later finds it no slower.
#![allow(unsafe_code)]

use super::level::Level;

/// Bytes of a result from which on it is written past the caches: more than the second-level caches of a few cores.
const LARGE: usize = 8 << 20;

/// Whether a result of so many floats is written past the caches.
pub(crate) fn pays(floats: usize) -> bool {
    floats >= LARGE / size_of::<f32>()
}

/// `to = from`, past the caches as far as `to` has whole cache lines. Both must be of one length. Whoever is done with
/// copies calls [`fence`].
#[inline]
pub(crate) fn copy(level: Level, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len(), "copies are of one length");
    // SAFETY: the lengths are equal, and a level's instructions exist.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => copy_avx512(from, to),
            #[cfg(target_arch = "x86_64")]
            _ => copy_sse(from, to),
            #[cfg(not(target_arch = "x86_64"))]
            _ => to.copy_from_slice(from),
        }
    }
}

/// Makes copies past the caches visible to other threads before whatever follows.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: every x86-64 has this instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! copy {
    ($name:ident, $feature:literal, $load:ident, $stream:ident, $lanes:literal) => {
        /// # Safety
        /// Both slices must be of one length.
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: &[f32], to: &mut [f32]) {
            use std::arch::x86_64::*;
            let head = to.as_ptr().align_offset(64).min(to.len());
            let lines = (to.len() - head) / 16 * 16;
            to[..head].copy_from_slice(&from[..head]);
            for at in (head..head + lines).step_by($lanes) {
                // SAFETY: the vector lies inside both slices, and in `to` at a multiple of its size.
                unsafe { $stream(to.as_mut_ptr().add(at), $load(from.as_ptr().add(at))) };
            }
            to[head + lines..].copy_from_slice(&from[head + lines..]);
        }
    };
}

#[cfg(target_arch = "x86_64")]
copy!(copy_avx512, "avx512f", _mm512_loadu_ps, _mm512_stream_ps, 16);
#[cfg(target_arch = "x86_64")]
copy!(copy_sse, "sse", _mm_loadu_ps, _mm_stream_ps, 4);

#[cfg(test)]
mod tests;
