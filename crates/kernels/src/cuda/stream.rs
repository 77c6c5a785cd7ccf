//! Queues of work on a card, and points in them.

use super::gpu::failed;
use super::memory::Place;
use crate::KernelError;
use cudarc::driver::{result, sys};
use std::time::Duration;

/// A queue: what is put into it runs in order, beside the other queues.
#[derive(Debug)]
pub(crate) struct Stream {
    place: Place,
    pub(crate) raw: sys::CUstream,
}

// SAFETY: streams are handles that the driver lets every thread use.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(place: &Place) -> Result<Self, KernelError> {
        place.gpu.bind()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|error| failed("cuStreamCreate", error))?;
        Ok(Self { place: place.clone(), raw })
    }

    /// Later work of the queue begins after `event`.
    pub(crate) fn wait(&self, event: &CardEvent) -> Result<(), KernelError> {
        self.place.gpu.bind()?;
        // SAFETY: both handles are alive.
        let waits = unsafe {
            result::stream::wait_event(self.raw, event.raw, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
        };
        waits.map_err(|error| failed("cuStreamWaitEvent", error))
    }

    /// Copies bytes within the card, between cards, or to and from page-locked memory.
    pub(crate) fn copy(&self, to: u64, from: u64, len: usize) -> Result<(), KernelError> {
        if len == 0 {
            return Ok(());
        }
        self.place.gpu.bind()?;
        self.place.counters.launched();
        // SAFETY: callers checked both ranges, and keep the memory until the copy is done.
        unsafe { sys::cuMemcpyAsync(to, from, len, self.raw) }
            .result()
            .map_err(|error| failed("cuMemcpyAsync", error))
    }

    /// Sets bytes of the card.
    pub(crate) fn fill(&self, to: u64, value: u8, len: usize) -> Result<(), KernelError> {
        if len == 0 {
            return Ok(());
        }
        self.place.gpu.bind()?;
        self.place.counters.launched();
        // SAFETY: as above.
        unsafe { result::memset_d8_async(to, value, len, self.raw) }
            .map_err(|error| failed("cuMemsetD8Async", error))
    }

    /// Waits until the queue is empty.
    pub(crate) fn synchronise(&self) -> Result<(), KernelError> {
        self.place.gpu.bind()?;
        self.place.counters.waited();
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.raw) }.map_err(|error| failed("cuStreamSynchronize", error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.place.gpu.synchronise().is_ok() {
            // SAFETY: the stream is empty and not used any more.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// A point in the work of a queue.
#[derive(Debug)]
pub(crate) struct CardEvent {
    place: Place,
    raw: sys::CUevent,
}

// SAFETY: events are handles that the driver lets every thread use.
unsafe impl Send for CardEvent {}
// SAFETY: as above.
unsafe impl Sync for CardEvent {}

impl CardEvent {
    pub(crate) fn new(place: &Place) -> Result<Self, KernelError> {
        place.gpu.bind()?;
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|error| failed("cuEventCreate", error))?;
        Ok(Self { place: place.clone(), raw })
    }

    /// The event is past once all work so far of `stream` is done.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), KernelError> {
        self.place.gpu.bind()?;
        // SAFETY: both handles are alive.
        unsafe { result::event::record(self.raw, stream.raw) }.map_err(|error| failed("cuEventRecord", error))
    }

    pub(crate) fn is_past(&self) -> Result<bool, KernelError> {
        self.place.gpu.bind()?;
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.raw) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(failed("cuEventQuery", error)),
        }
    }

    pub(crate) fn synchronise(&self) -> Result<(), KernelError> {
        self.place.gpu.bind()?;
        self.place.counters.waited();
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.raw) }.map_err(|error| failed("cuEventSynchronize", error))
    }

    /// Time since `earlier`; both are past.
    pub(crate) fn since(&self, earlier: &CardEvent) -> Result<Duration, KernelError> {
        self.place.gpu.bind()?;
        // SAFETY: both events are alive.
        let ms = unsafe { result::event::elapsed(earlier.raw, self.raw) }
            .map_err(|error| failed("cuEventElapsedTime", error))?;
        Ok(Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3))
    }
}

impl Drop for CardEvent {
    fn drop(&mut self) {
        if self.place.gpu.bind().is_ok() {
            // SAFETY: the driver keeps what is needed of an event that a queue still waits for.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
