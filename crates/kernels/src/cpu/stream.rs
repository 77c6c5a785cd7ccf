//! Writes past the caches.
//!
//! A result that is larger than the caches does not stay there. Written past them, none of its lines is read before it is
//! written, which is a third of the memory traffic of a copy, and whoever reads it later finds it no slower.
#![allow(unsafe_code)]

/// Bytes of a result from which on it is written past the caches: more than the second-level caches of a few cores.
const LARGE: usize = 8 << 20;

/// Whether a result of so many floats is written past the caches.
pub(crate) fn pays(floats: usize) -> bool {
    floats >= LARGE / size_of::<f32>()
}

/// `to = from`, past the caches as far as `to` has whole cache lines. Both must be of one length. Other threads see the copy
/// after a [`fence`].
#[inline(always)]
pub(crate) fn copy(from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len(), "copies are of one length");
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
        let head = to.as_ptr().align_offset(64).min(to.len());
        let lines = (to.len() - head) / 16 * 16;
        to[..head].copy_from_slice(&from[..head]);
        for at in (head..head + lines).step_by(4) {
            // SAFETY: four floats from `at` on lie inside both slices, in `to` at a multiple of 16 bytes.
            unsafe { _mm_stream_ps(to.as_mut_ptr().add(at), _mm_loadu_ps(from.as_ptr().add(at))) };
        }
        to[head + lines..].copy_from_slice(&from[head + lines..]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
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

#[cfg(test)]
mod tests;
