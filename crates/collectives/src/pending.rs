//! Operations that were started and not yet waited for.

use crate::CollectiveError;
use crate::progress::Endpoint;
use kernels::{Buffer, Bytes, Element};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

/// A collective that was started. `Pending` owns the buffers; [`Pending::wait`] returns them.
///
/// Several operations may be outstanding at once. Each rank may wait for them in an order of its own. While a rank waits
/// for one operation it also advances all its others. A `Pending` that is dropped abandons its operation: the rank still
/// takes part in it, whenever it next calls into one of its communicators or finishes, and the buffers are lost when the
/// operation ends.
#[must_use = "an operation that is not waited for keeps its buffers"]
pub struct Pending<O: Output> {
    endpoint: Arc<Endpoint>,
    operation: Option<usize>,
    output: PhantomData<fn() -> O>,
}

/// Completion of an operation: its time, and the bytes that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Time at which the transport completed the last exchange of the operation, as precisely as the transport knows; the
    /// start of the operation if it needed no exchange. If the exchange was one of device memory between threads, the last
    /// member had arrived at that time, and the device may have moved the bytes later.
    pub at: Instant,
    /// Bytes that this rank sent to other ranks.
    pub sent: u64,
}

impl<O: Output> Pending<O> {
    pub(crate) fn new(endpoint: Arc<Endpoint>, operation: usize) -> Self {
        Self { endpoint, operation: Some(operation), output: PhantomData }
    }

    /// Blocks until the operation is complete, and returns its buffers. Buffers on a GPU are ready for later work of the queue on
    /// which the operation was started; work of other queues must wait for an event of that queue.
    pub fn wait(self) -> Result<O, CollectiveError> {
        Ok(self.wait_timed()?.0)
    }

    /// Blocks until the operation is complete, and returns its buffers and when the transport completed it, which may have
    /// been long before.
    pub fn wait_timed(mut self) -> Result<(O, Completion), CollectiveError> {
        let operation = self.operation.take().expect("only wait and drop take it, and both end this value");
        let (send, recv, completion) = self.endpoint.wait(operation)?;
        Ok((O::from_bytes(sealed::Token, send, recv), completion))
    }

    /// Advances this and all other outstanding operations of the rank as far as possible without blocking. Returns true if
    /// [`wait`](Self::wait) would not block.
    pub fn progress(&mut self) -> Result<bool, CollectiveError> {
        let operation = self.operation.expect("only wait and drop take it, and both end this value");
        self.endpoint.progress(operation)
    }
}

impl<O: Output> Drop for Pending<O> {
    fn drop(&mut self) {
        if let Some(operation) = self.operation.take() {
            self.endpoint.abandon(operation);
        }
    }
}

impl<O: Output> fmt::Debug for Pending<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("operation", &self.operation).finish_non_exhaustive()
    }
}

pub(crate) mod sealed {
    /// Token that only this crate can make: it alone turns raw memory into the output of an operation.
    #[derive(Debug)]
    pub struct Token;
}

/// Value that an operation returns: `(send, recv)`, one buffer, or nothing. The trait is sealed: no other crate can
/// implement it.
pub trait Output {
    #[doc(hidden)]
    fn from_bytes(token: sealed::Token, send: Bytes, recv: Bytes) -> Self;
}

impl<T: Element> Output for (Buffer<T>, Buffer<T>) {
    fn from_bytes(_: sealed::Token, send: Bytes, recv: Bytes) -> Self {
        (send.into_buffer(), recv.into_buffer())
    }
}

impl<T: Element> Output for Buffer<T> {
    fn from_bytes(_: sealed::Token, _: Bytes, recv: Bytes) -> Self {
        recv.into_buffer()
    }
}

impl Output for () {
    fn from_bytes(_: sealed::Token, _: Bytes, _: Bytes) -> Self {}
}
