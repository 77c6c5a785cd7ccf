//! Operations under way.

use crate::CollectiveError;
use crate::progress::Rank;
use kernels::{Buffer, Bytes, Element};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

/// A started operation. It owns its buffers; [`Pending::wait`] gives them back.
///
/// Several may be outstanding at once and be waited for in any order, a different one on each rank. While a rank waits
/// for one it also takes the next step of all its others. A pending operation that is dropped is abandoned: the rank
/// still plays its part in it, whenever it next calls into any of its communicators or finishes, and its buffers are
/// lost when the operation ends.
#[must_use = "an operation that is not waited for keeps its buffers"]
pub struct Pending<O: Output> {
    rank: Arc<Rank>,
    operation: Option<usize>,
    output: PhantomData<fn() -> O>,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When the transport had its last exchange done, as far as the transport tells; its start where there was none.
    pub at: Instant,
    /// Bytes that this rank sent to others.
    pub sent: u64,
}

impl<O: Output> Pending<O> {
    pub(crate) fn new(rank: Arc<Rank>, operation: usize) -> Self {
        Self { rank, operation: Some(operation), output: PhantomData }
    }

    /// Blocks until the operation is complete and gives its buffers back.
    pub fn wait(self) -> Result<O, CollectiveError> {
        Ok(self.wait_timed()?.0)
    }

    /// As [`wait`](Self::wait), and says when the transport had it done, which may have been long before.
    pub fn wait_timed(mut self) -> Result<(O, Completion), CollectiveError> {
        let operation = self.operation.take().expect("only wait and drop take it, and both end this value");
        let (send, recv, completion) = self.rank.wait(operation)?;
        Ok((O::from_bytes(sealed::Token, send, recv), completion))
    }

    /// Takes the next step of this and all other outstanding operations of the rank, if it can be taken without
    /// blocking. True when a wait would not block.
    pub fn progress(&mut self) -> Result<bool, CollectiveError> {
        let operation = self.operation.expect("only wait and drop take it, and both end this value");
        self.rank.progress(operation)
    }
}

impl<O: Output> Drop for Pending<O> {
    fn drop(&mut self) {
        if let Some(operation) = self.operation.take() {
            self.rank.abandon(operation);
        }
    }
}

impl<O: Output> fmt::Debug for Pending<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("operation", &self.operation).finish_non_exhaustive()
    }
}

pub(crate) mod sealed {
    /// Only this crate turns raw memory into an operation's output.
    #[derive(Debug)]
    pub struct Token;
}

/// What an operation gives back: `(send, recv)`, one buffer, or nothing. Not for implementing elsewhere.
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
