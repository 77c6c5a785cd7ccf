//! A queue beside that of an operation, for results that the operation itself does not need.
//!
//! Gradients of weights are needed by the optimizer alone, while gradients of inputs are a chain in which each waits for the one
//! before. Side by side, the products of one fill the multiprocessors that those of the other leave idle.

use super::Cuda;
use crate::op::Result;
use std::cell::Cell;

/// The rank's queue beside all others, during one operation.
pub(super) struct Beside<'a> {
    cuda: &'a Cuda,
    beside: Cuda,
    used: Cell<bool>,
}

impl<'a> Beside<'a> {
    /// The queue beside that of `cuda`. It must be [joined](Beside::join) before the operation ends.
    pub(super) fn new(cuda: &'a Cuda) -> Self {
        Self { cuda, beside: cuda.beside(), used: Cell::new(false) }
    }

    /// The queue, behind all work so far of the operation's own.
    pub(super) fn fork(&self) -> Result<&Cuda> {
        let (event, _) = self.cuda.forks();
        event.record(self.cuda.stream())?;
        self.beside.stream().wait(event)?;
        self.used.set(true);
        Ok(&self.beside)
    }

    /// Remembers all work so far of this queue, for [`Beside::wait`].
    pub(super) fn mark(&self) -> Result {
        let (_, join) = self.cuda.forks();
        join.record(self.beside.stream())
    }

    /// Lets the operation's own queue go on once the work that was [marked](Beside::mark) last is done.
    pub(super) fn wait(&self) -> Result {
        let (_, join) = self.cuda.forks();
        self.cuda.stream().wait(join)
    }

    /// Lets the operation's own queue go on once this one is done.
    pub(super) fn join(self) -> Result {
        if !self.used.get() {
            return Ok(());
        }
        let (_, join) = self.cuda.forks();
        join.record(self.beside.stream())?;
        self.cuda.stream().wait(join)
    }
}
