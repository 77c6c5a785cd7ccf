//! Aligned host memory, on huge pages when there is enough of it to matter.
#![allow(unsafe_code)]

use crate::KernelError;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// A cache line: what SIMD and matrix units want.
pub const ALIGN: usize = 64;
/// A huge page. Tables beyond the caches are read in random rows: without huge pages every row costs a TLB miss too.
pub const HUGE: usize = 2 << 20;
/// The largest of the usual pages of operating systems.
const PAGE: usize = 64 << 10;
/// Places at which a buffer may begin in its first huge page, a power of two, and lines between them; see [`offset`].
const PLACES: usize = 64;
const APART: usize = 17;

/// Gives empty memory an aligned address.
#[repr(align(64))]
struct Line;

/// An owned allocation of zero-initialised bytes.
#[derive(Debug)]
pub struct HostMemory {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
    /// The mapping that the bytes lie in; `None` where they were allocated.
    mapping: Option<Mapping>,
}

/// Pages that were mapped.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: HostMemory owns its allocation and hands out references under the usual borrow rules only.
unsafe impl Send for HostMemory {}
// SAFETY: as above; there is no interior mutability.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(crate) const fn empty() -> Self {
        Self { start: NonNull::<Line>::dangling().cast(), len: 0, capacity: 0, mapping: None }
    }

    /// Allocates `len` zero bytes.
    pub fn zeroed(len: usize) -> Result<Self, KernelError> {
        if len == 0 {
            return Ok(Self::empty());
        }
        if len < HUGE {
            return Ok(Self { start: allocate(len)?, len, capacity: len, mapping: None });
        }
        let mapping = map(len)?;
        // SAFETY: a mapping is as long as its offset and `len` together.
        let start = unsafe { mapping.start.byte_add(offset(mapping.start)) };
        Ok(Self { start, len, capacity: len, mapping: Some(mapping) })
    }

    /// Maps `len` zero bytes of a new file, in whole huge pages: the operating system keeps those pages in memory that it sees fit. The file
    /// may have no name any more.
    pub(crate) fn mapped(file: &File, len: usize) -> Result<Self, KernelError> {
        let out = KernelError::OutOfMemory { bytes: len };
        let capacity = len.max(1).checked_next_multiple_of(HUGE).ok_or(out.clone())?;
        // Taken now: a disk that is full later would end the process without a word.
        // SAFETY: a call about a file that is open.
        let refused = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, capacity as libc::off_t) };
        if refused != 0 {
            let error = std::io::Error::from_raw_os_error(refused);
            return Err(KernelError::Device(format!(
                "a mapped file of {capacity} bytes cannot be had: {error}"
            )));
        }
        // SAFETY: a fresh mapping of a file that nobody else has, of its whole length; `drop` unmaps it. The advice changes no content.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let raw =
                libc::mmap(std::ptr::null_mut(), capacity, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
            if raw == libc::MAP_FAILED {
                return Err(out);
            }
            // Rows are looked up in no order: reading ahead would push out others.
            libc::madvise(raw, capacity, libc::MADV_RANDOM);
            NonNull::new(raw.cast()).ok_or(out)?
        };
        Ok(Self { start, len, capacity, mapping: Some(Mapping { start, len: capacity }) })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn resize(&mut self, len: usize) -> Result<(), KernelError> {
        if len > self.capacity {
            // Some slack, so that batches of varying id counts settle quickly.
            let mut grown = Self::zeroed(len.saturating_add(len / 4))?;
            grown.as_mut_slice()[..self.len].copy_from_slice(self.as_slice());
            *self = grown;
        }
        self.len = len;
        Ok(())
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: start points to `capacity ≥ len` initialised bytes that this value owns, or is aligned and len is 0.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Address of the first byte.
    pub fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the exclusive borrow makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some(Mapping { start, len }) = self.mapping {
            // SAFETY: `map` or `mapped` made this mapping; nothing refers to it any more.
            unsafe { libc::munmap(start.as_ptr().cast(), len) };
        } else if self.capacity > 0 {
            let layout = Layout::from_size_align(self.capacity, ALIGN).expect("this layout was allocated");
            // SAFETY: allocated in `allocate` with this same layout.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// Bytes that a buffer of `bytes` takes once all of it was written; one that was `grown` to its size has some slack.
///
/// ```
/// assert_eq!(kernels::resident(1000, true), 1250);
/// assert_eq!(kernels::resident(3 << 20, true), 4 << 20); // Whole huge pages, but none that nothing was written to.
/// ```
pub fn resident(bytes: u64, grown: bool) -> u64 {
    let capacity = if grown { bytes.saturating_add(bytes / 4) } else { bytes };
    if capacity < HUGE as u64 {
        return capacity;
    }
    let up = |bytes: u64, to: usize| bytes.checked_next_multiple_of(to as u64).unwrap_or(u64::MAX);
    // What lies before the first byte belongs to the same huge page, but pushes the last bytes on.
    let most = ((PLACES - 1) * APART * ALIGN) as u64;
    let touched = up(bytes.saturating_add(most), HUGE);
    let mapped = up(capacity, HUGE).max(up(capacity.saturating_add(most), PAGE));
    touched.min(mapped)
}

fn allocate(len: usize) -> Result<NonNull<u8>, KernelError> {
    let layout = Layout::from_size_align(len, ALIGN).map_err(|_| KernelError::OutOfMemory { bytes: len })?;
    // SAFETY: the caller's length is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(KernelError::OutOfMemory { bytes: len })
}

/// Bytes before the first byte of a buffer in a mapping that begins here, in whole lines.
///
/// Buffers that all began with a huge page would compete for the same sets of the caches: a loop that goes through several of them at once,
/// as the element-wise half of a cross layer does, would throw out what it is about to need, and loads would wait for stores to other buffers
/// whose addresses end in the same bits. Neighbouring mappings get different offsets.
fn offset(start: NonNull<u8>) -> usize {
    // Fibonacci hashing spreads equal distances evenly.
    let hash = ((start.addr().get() / HUGE) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let place = (hash >> (u64::BITS - PLACES.ilog2())) as usize;
    place * APART * ALIGN
}

/// Maps at least `len` bytes behind the [`offset`] of their start, in huge pages as far as they fill them, aligned to huge pages. Huge pages are
/// asked for before the first touch.
fn map(len: usize) -> Result<Mapping, KernelError> {
    let out = KernelError::OutOfMemory { bytes: len };
    let padded = len
        .checked_next_multiple_of(HUGE)
        .and_then(|size| size.checked_add(2 * HUGE))
        .filter(|&padded| padded <= isize::MAX as usize)
        .ok_or(out.clone())?;
    // SAFETY: a fresh anonymous mapping; the parts before and after the aligned middle are given back at once, and
    // the middle is what `drop` unmaps. The advice changes no content and may be declined.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let raw = libc::mmap(std::ptr::null_mut(), padded, protection, flags, -1, 0);
        if raw == libc::MAP_FAILED {
            return Err(out);
        }
        let before = raw.addr().next_multiple_of(HUGE) - raw.addr();
        let start = NonNull::new(raw.byte_add(before).cast()).ok_or(out)?;
        // A buffer that fills its huge pages ends in small ones.
        let size = len.next_multiple_of(HUGE).max((offset(start) + len).next_multiple_of(PAGE));
        if before > 0 {
            libc::munmap(raw, before);
        }
        libc::munmap(start.byte_add(size).as_ptr().cast(), padded - before - size);
        libc::madvise(start.as_ptr().cast(), size, libc::MADV_HUGEPAGE);
        Ok(Mapping { start, len: size })
    }
}
