//! Memory of a card, and page-locked memory of the host that the card reads and writes by itself.

use super::counters::Counters;
use super::gpu::{Gpu, failed};
use super::replay::Replay;
use super::work::Work;
use crate::KernelError;
use cudarc::driver::{result, sys};
use std::fmt;
use std::sync::Arc;

/// Address in the memory of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer(pub u64);

impl Pointer {
    pub(crate) const NULL: Pointer = Pointer(0);

    /// Address `bytes` further on.
    pub(crate) fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// Where memory is made and work is queued: a card, and what the rank that asks has there.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) of_rank: Arc<OfRank>,
    pub(crate) gpu: Gpu,
}

/// What all work and memory of a rank share.
#[derive(Debug, Default)]
pub(crate) struct OfRank {
    pub(crate) counters: Counters,
    pub(crate) replay: Replay,
}

impl Place {
    pub(crate) fn new(gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), of_rank: Arc::default() }
    }

    /// Collects a piece of work that is no kernel, or puts it into its queue at once.
    pub(crate) fn put(&self, work: Work) -> Result<(), KernelError> {
        self.of_rank.replay.put(&self.gpu, work)
    }

    /// Puts all work that was only collected into the queues.
    pub(crate) fn flush(&self) -> Result<(), KernelError> {
        self.of_rank.replay.flush(&self.gpu)
    }

    /// Waits for all work on the card, that which was only collected included.
    fn synchronise(&self) -> Result<(), KernelError> {
        self.flush()?;
        self.gpu.synchronise()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gpu.fmt(f)
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.gpu.is(&other.gpu)
    }
}

impl Eq for Place {}

/// Owned bytes on a card, aligned to 256 bytes. Keeps its capacity when it shrinks.
#[derive(Debug)]
pub(crate) struct CardMemory {
    place: Place,
    address: Pointer,
    len: usize,
    capacity: usize,
}

impl CardMemory {
    pub(crate) fn empty(place: &Place) -> Self {
        Self { place: place.clone(), address: Pointer::NULL, len: 0, capacity: 0 }
    }

    /// Bytes whose values are unspecified.
    pub(crate) fn allocate(place: &Place, len: usize) -> Result<Self, KernelError> {
        if len == 0 {
            return Ok(Self::empty(place));
        }
        place.gpu.bind()?;
        place.of_rank.counters.allocated();
        // SAFETY: the memory is freed once, when this value is dropped.
        let address = unsafe { result::malloc_sync(len) }.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => KernelError::OutOfMemory { bytes: len },
            _ => failed("cuMemAlloc", error),
        })?;
        Ok(Self { place: place.clone(), address: Pointer(address), len, capacity: len })
    }

    pub(crate) fn zeroed(place: &Place, len: usize) -> Result<Self, KernelError> {
        let memory = Self::allocate(place, len)?;
        memory.fill(0)?;
        Ok(memory)
    }

    /// Sets all bytes, and waits for it.
    pub(crate) fn fill(&self, value: u8) -> Result<(), KernelError> {
        if self.len == 0 {
            return Ok(());
        }
        self.synchronise()?;
        // SAFETY: the memory has `len` bytes, and nothing else is under way.
        unsafe { result::memset_d8_sync(self.address.0, value, self.len) }
            .map_err(|error| failed("cuMemsetD8", error))?;
        self.place.gpu.synchronise()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn address(&self) -> Pointer {
        self.address
    }

    pub(crate) fn resize(&mut self, len: usize) -> Result<(), KernelError> {
        if len > self.capacity {
            // Some slack, so that batches of varying id counts settle quickly.
            let mut grown = Self::allocate(&self.place, len.saturating_add(len / 4))?;
            if self.len > 0 {
                self.synchronise()?;
                // SAFETY: both have `len` bytes, and nothing else is under way.
                unsafe { result::memcpy_dtod_sync(grown.address.0, self.address.0, self.len) }
                    .map_err(|error| failed("cuMemcpyDtoD", error))?;
                self.place.gpu.synchronise()?;
            }
            grown.len = len;
            *self = grown;
        }
        self.len = len;
        Ok(())
    }

    /// Copies bytes from `at` on to the host, once all work is done.
    pub(crate) fn read(&self, at: usize, data: &mut [u8]) -> Result<(), KernelError> {
        assert!(at + data.len() <= self.len, "callers check ranges");
        if data.is_empty() {
            return Ok(());
        }
        self.synchronise()?;
        // SAFETY: the range is inside, and nothing else is under way.
        unsafe { result::memcpy_dtoh_sync(data, self.address.plus(at).0) }
            .map_err(|error| failed("cuMemcpyDtoH", error))
    }

    /// Copies bytes of the host to `at`, once all work is done.
    pub(crate) fn write(&mut self, at: usize, data: &[u8]) -> Result<(), KernelError> {
        assert!(at + data.len() <= self.len, "callers check ranges");
        if data.is_empty() {
            return Ok(());
        }
        self.synchronise()?;
        // SAFETY: the range is inside, and nothing else is under way.
        unsafe { result::memcpy_htod_sync(self.address.plus(at).0, data) }
            .map_err(|error| failed("cuMemcpyHtoD", error))?;
        // A copy from pageable memory may return before the last bytes have arrived.
        self.place.gpu.synchronise()
    }

    fn synchronise(&self) -> Result<(), KernelError> {
        self.place.of_rank.counters.waited();
        self.place.synchronise()
    }
}

impl Drop for CardMemory {
    fn drop(&mut self) {
        // Work that still uses the memory ends first: freeing does not promise to wait.
        if self.address != Pointer::NULL && self.place.synchronise().is_ok() {
            // SAFETY: the memory was allocated by this value, and nothing uses it any more.
            let _ = unsafe { result::free_sync(self.address.0) };
        }
    }
}

/// Page-locked bytes of the host.
#[derive(Debug)]
pub(crate) struct PinnedMemory {
    place: Place,
    start: *mut u8,
    len: usize,
    capacity: usize,
}

// SAFETY: the value owns its bytes.
unsafe impl Send for PinnedMemory {}
// SAFETY: shared references only read.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    pub(crate) fn empty(place: &Place) -> Self {
        // Aligned for every element type, and never followed.
        Self { place: place.clone(), start: std::ptr::without_provenance_mut(64), len: 0, capacity: 0 }
    }

    pub(crate) fn zeroed(place: &Place, len: usize) -> Result<Self, KernelError> {
        if len == 0 {
            return Ok(Self::empty(place));
        }
        place.gpu.bind()?;
        place.of_rank.counters.allocated();
        // SAFETY: the memory is freed once, when this value is dropped; all of it is written before it is read.
        let start = unsafe {
            let start = result::malloc_host(len, sys::CU_MEMHOSTALLOC_PORTABLE)
                .map_err(|error| match error.0 {
                    sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => KernelError::OutOfMemory { bytes: len },
                    _ => failed("cuMemHostAlloc", error),
                })?
                .cast::<u8>();
            start.write_bytes(0, len);
            start
        };
        Ok(Self { place: place.clone(), start, len, capacity: len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn resize(&mut self, len: usize) -> Result<(), KernelError> {
        if len > self.capacity {
            let mut grown = Self::zeroed(&self.place, len.saturating_add(len / 4))?;
            // Copies into this memory may be under way.
            self.place.synchronise()?;
            grown.as_mut_slice()[..self.len].copy_from_slice(self.as_slice());
            grown.len = len;
            *self = grown;
        }
        self.len = len;
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: start points to `capacity ≥ len` initialised bytes that this value owns, or len is 0.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the exclusive borrow makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // Copies that are still under way end first.
        if self.capacity > 0 && self.place.synchronise().is_ok() {
            // SAFETY: the memory was allocated by this value, and nothing uses it any more.
            let _ = unsafe { result::free_host(self.start.cast()) };
        }
    }
}
