//! Queues of work on a card, and points in them.

use super::gpu::failed;
use super::memory::Place;
use super::work::{Point, Queue, Work};
use crate::KernelError;
use cudarc::driver::{result, sys};
use std::time::Duration;

/// A queue: what is put into it runs in order, beside the other queues.
#[derive(Debug)]
pub(crate) struct Stream {
    place: Place,
    raw: sys::CUstream,
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
        place.gpu.queues().push(Queue::of(raw));
        Ok(Self { place: place.clone(), raw })
    }

    /// Later work of the queue begins after `event`.
    pub(crate) fn wait(&self, event: &CardEvent) -> Result<(), KernelError> {
        self.place.put(Work::Wait { queue: self.queue(), point: event.point() })
    }

    /// The queue as a value.
    pub(crate) fn queue(&self) -> Queue {
        Queue::of(self.raw)
    }

    /// Copies bytes within the card, between cards, or to and from page-locked memory.
    pub(crate) fn copy(&self, to: u64, from: u64, len: usize) -> Result<(), KernelError> {
        if len == 0 {
            return Ok(());
        }
        self.place.of_rank.counters.launched();
        self.place.put(Work::Copy { queue: self.queue(), to, from, len })
    }

    /// Sets bytes of the card.
    pub(crate) fn fill(&self, to: u64, value: u8, len: usize) -> Result<(), KernelError> {
        if len == 0 {
            return Ok(());
        }
        self.place.of_rank.counters.launched();
        self.place.put(Work::Fill { queue: self.queue(), to, value, len })
    }

    /// Waits until the queue is empty.
    pub(crate) fn synchronise(&self) -> Result<(), KernelError> {
        self.place.flush()?;
        self.place.of_rank.counters.waited();
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.raw) }.map_err(|error| failed("cuStreamSynchronize", error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let empty = self.place.gpu.synchronise();
        let queue = self.queue();
        self.place.gpu.queues().retain(|&other| other != queue);
        if empty.is_ok() {
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
    for_host: bool,
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
        Ok(Self { place: place.clone(), raw, for_host: true })
    }

    /// An event that is recorded only where work is put into queues piece by piece: the host does not wait for it.
    pub(crate) fn between_queues(place: &Place) -> Result<Self, KernelError> {
        let mut event = Self::new(place)?;
        event.for_host = false;
        Ok(event)
    }

    fn point(&self) -> Point {
        Point::of(self.raw)
    }

    /// The event is past once all work so far of `stream` is done. Both are of one rank.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), KernelError> {
        let (queue, point, for_host) = (stream.queue(), self.point(), self.for_host);
        self.place.put(Work::Record { queue, point, for_host })
    }

    pub(crate) fn is_past(&self) -> Result<bool, KernelError> {
        self.flush()?;
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.raw) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(failed("cuEventQuery", error)),
        }
    }

    pub(crate) fn synchronise(&self) -> Result<(), KernelError> {
        self.flush()?;
        self.place.of_rank.counters.waited();
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.raw) }.map_err(|error| failed("cuEventSynchronize", error))
    }

    /// Lets the event come up, if it is among work that was only collected.
    fn flush(&self) -> Result<(), KernelError> {
        self.place.gpu.bind()?;
        self.place.of_rank.replay.flush_point(&self.place.gpu, self.point())
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
        // A list that was only collected would name an event that is gone.
        if self.flush().is_ok() {
            // SAFETY: the driver keeps what is needed of an event that a queue still waits for.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
