//! Writes past the caches.
//!
//! A result that is larger than the caches does not stay there. Written past them, none of its lines is read before it is
//! written, which is a third of the memory traffic of a copy, and whoever reads it later finds it no slower.
#![allow(unsafe_code)]

use super::level::Level;

/// Floats of a cache line.
const LINE: usize = 16;
/// Bytes of a result from which on it is written past the caches: more than the second-level caches of a few cores.
const LARGE: usize = 8 << 20;

/// Whether a result of so many floats is written past the caches.
pub fn pays(floats: usize) -> bool {
    floats >= LARGE / size_of::<f32>()
}

/// `to = from`, past the caches as far as `to` has whole cache lines. Both must be of one length. Other threads see the copy
/// after a [`fence`].
#[inline(always)]
pub fn copy(level: Level, from: &[f32], to: &mut [f32]) {
    assert_eq!(from.len(), to.len(), "copies are of one length");
    let head = to.as_ptr().align_offset(64).min(to.len());
    let lines = head..head + (to.len() - head) / LINE * LINE;
    to[..head].copy_from_slice(&from[..head]);
    copy_lines(level, &from[lines.clone()], &mut to[lines.clone()]);
    to[lines.end..].copy_from_slice(&from[lines.end..]);
}

/// As [`copy`], of whole cache lines.
#[inline(always)]
pub(crate) fn copy_lines(level: Level, from: &[f32], to: &mut [f32]) {
    assert!(to.is_empty() || to.as_ptr().addr().is_multiple_of(64), "whole lines");
    let ((from, rest), (to, to_rest)) = (from.as_chunks::<LINE>(), to.as_chunks_mut::<LINE>());
    assert!(rest.is_empty() && to_rest.is_empty() && from.len() == to.len(), "whole lines");
    match level {
        // SAFETY: a level is only made where its instructions were detected; lines begin where cache lines do.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { whole_lines(from, to) },
        // SAFETY: every x86-64 has these instructions; lines begin where cache lines do.
        #[cfg(target_arch = "x86_64")]
        _ => unsafe { lines_in_parts(from, to) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => to.copy_from_slice(from),
    }
}

/// `to = from`, each line by one instruction. The loop stands in here: around a function with more instructions than its caller has, it
/// would be a call for each line.
///
/// # Safety
/// `to` must begin with a cache line.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn whole_lines(from: &[[f32; LINE]], to: &mut [[f32; LINE]]) {
    use std::arch::x86_64::{_mm512_loadu_ps, _mm512_stream_ps};
    for (from, to) in from.iter().zip(to) {
        // SAFETY: both are as large as a register; the rest is the caller's promise.
        unsafe { _mm512_stream_ps(to.as_mut_ptr(), _mm512_loadu_ps(from.as_ptr())) };
    }
}

/// `to = from`, by the instructions that every x86-64 has.
///
/// # Safety
/// `to` must begin with a cache line.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn lines_in_parts(from: &[[f32; LINE]], to: &mut [[f32; LINE]]) {
    use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
    for (from, to) in
        from.as_flattened().as_chunks::<4>().0.iter().zip(to.as_flattened_mut().as_chunks_mut::<4>().0)
    {
        // SAFETY: both are as large as a register; the rest is the caller's promise.
        unsafe { _mm_stream_ps(to.as_mut_ptr(), _mm_loadu_ps(from.as_ptr())) };
    }
}

/// Makes copies past the caches visible to other threads before whatever follows.
#[inline(always)]
pub fn fence() {
    // SAFETY: every x86-64 has this instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}
