//! Points in the work of a device's queues.

use crate::KernelError;
use crate::cuda::stream::CardEvent;
use std::time::Duration;

/// A point in the work of a queue: past once everything that was queued before it is done. On devices whose operations are
/// done when they return, every event is past.
#[derive(Debug)]
pub struct Event(pub(crate) Option<CardEvent>);

impl Event {
    /// Whether everything that was queued before the event is done.
    pub fn is_past(&self) -> Result<bool, KernelError> {
        self.0.as_ref().map_or(Ok(true), CardEvent::is_past)
    }

    /// Waits on the host until the event is past.
    pub fn synchronise(&self) -> Result<(), KernelError> {
        self.0.as_ref().map_or(Ok(()), CardEvent::synchronise)
    }

    /// Time on the device since `earlier`; both events are past. `None` on devices without queues.
    pub fn since(&self, earlier: &Event) -> Result<Option<Duration>, KernelError> {
        match (&self.0, &earlier.0) {
            (Some(event), Some(earlier)) => event.since(earlier).map(Some),
            _ => Ok(None),
        }
    }
}
