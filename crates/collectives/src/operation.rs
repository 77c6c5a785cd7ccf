//! An operation: an exchange, or a program with several; and the pool of memory that operations borrow from.

use crate::running::Running;
use crate::transport::{GroupId, Span, Ticket};
use crate::{CollectiveError, Label};
use kernels::{Bytes, Device, KernelError, Space};
use spec::codec::Row;
use spec::program::Move;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Membership of one rank in a group.
pub(crate) struct Membership {
    pub(crate) group: GroupId,
    /// World ranks, in group order.
    pub(crate) members: Vec<usize>,
    /// Index of this rank among the members.
    pub(crate) me: usize,
    /// Number of the next exchange in the group.
    pub(crate) sequence: AtomicU64,
}

/// A collective that this rank has started and not yet ended.
pub(crate) struct Operation {
    /// Device on whose queue everything of the operation is done, whichever call on whichever communicator goes on with it.
    pub(crate) device: Device,
    pub(crate) group: Arc<Membership>,
    pub(crate) label: Label,
    /// Index of the label in the meter.
    pub(crate) metered: usize,
    /// Number of the operation's first exchange. Later exchanges have the following numbers, so that ranks agree on them in
    /// whatever order they start them.
    pub(crate) sequence: u64,
    pub(crate) started: Instant,
    /// Completion of the operation's last exchange so far; the start of the operation if it needs no exchange.
    pub(crate) completed: Instant,
    /// Bytes sent to other ranks.
    pub(crate) sent: u64,
    pub(crate) stage: Stage,
    /// Exchange that the stage waits for.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) abandoned: bool,
    /// Memory of the pool. The pool gets it back only when the operation is waited for: then the size of the pool depends
    /// on the program alone, not on timing, and a step after warm-up allocates nothing.
    pub(crate) scratch: [Bytes; 2],
}

/// Stage of an operation: the exchange it waits for, and what to do with the result.
#[allow(clippy::large_enum_variant, reason = "a box would be allocated for every operation")]
pub(crate) enum Stage {
    /// A single exchange.
    Exchange,
    /// The single exchange of a broadcast on its root, whose send buffer is what the operation returns.
    Root,
    /// A program, one of whose exchanges is under way.
    Program(Running),
    /// The operation is complete.
    Done { send: Bytes, recv: Bytes },
    /// The operation has failed.
    Failed(CollectiveError),
}

impl Stage {
    /// Takes the stage out, to be replaced by the next.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Stage::Exchange)
    }
}

/// First stage of an operation, and its memory.
pub(crate) struct Setup {
    pub(crate) stage: Stage,
    pub(crate) send: Bytes,
    pub(crate) recv: Bytes,
    /// Memory of the pool that a program needs.
    pub(crate) scratch: [Bytes; 2],
}

impl Setup {
    /// Setup of an operation that is a single exchange.
    pub(crate) fn exchange(send: Bytes, recv: Bytes) -> Self {
        let scratch = [(); 2].map(|()| Bytes::new(send.space()));
        Self { stage: Stage::Exchange, send, recv, scratch }
    }

    /// Setup of an operation that needs no exchange.
    pub(crate) fn done(send: Bytes, recv: Bytes) -> Self {
        let [nothing, neither, first, second] = [(); 4].map(|()| Bytes::new(recv.space()));
        let (stage, scratch) = (Stage::Done { send, recv }, [first, second]);
        Self { stage, send: nothing, recv: neither, scratch }
    }
}

/// What carrying out a step of a program needs for a moment. The vectors are reused.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) spans: Spans,
    pub(crate) rows: Vec<Row>,
}

/// Byte ranges of an exchange that is about to start. The vectors are reused for the next exchange.
#[derive(Default)]
pub(crate) struct Spans {
    pub(crate) to: Vec<Span>,
    pub(crate) from: Vec<Span>,
}

impl Spans {
    pub(crate) fn clear(&mut self) {
        self.to.clear();
        self.from.clear();
    }

    /// Sets the ranges of an exchange among `members` members.
    pub(crate) fn set(&mut self, members: usize, sends: &[Move], receives: &[Move]) {
        self.clear();
        for (spans, moves) in [(&mut self.to, sends), (&mut self.from, receives)] {
            spans.resize(members, Span::default());
            moves.iter().for_each(|part| spans[part.member] = Span { at: part.at, len: part.len });
        }
    }
}

/// Appends to `spans` the consecutive byte ranges of `counts` elements of `size` bytes each. Returns the number of elements
/// in all, or `None` on overflow.
pub(crate) fn lay_out(counts: &[usize], size: usize, spans: &mut Vec<Span>) -> Option<usize> {
    let mut total = 0usize;
    for &count in counts {
        spans.push(Span { at: total.checked_mul(size)?, len: count.checked_mul(size)? });
        total = total.checked_add(count)?;
    }
    total.checked_mul(size).map(|_| total)
}

/// Pool of memory for the stages of operations. Pieces never shrink, so the length of a piece is its capacity.
#[derive(Default)]
pub(crate) struct Pool {
    pieces: Vec<Bytes>,
}

impl Pool {
    /// Takes a piece of at least `len` bytes: the smallest that is large enough, or else a new one in `space`, where all pieces
    /// of the pool are, in place of the largest.
    pub(crate) fn take(&mut self, space: &Space, len: usize) -> Result<Bytes, KernelError> {
        if len == 0 {
            return Ok(Bytes::new(space));
        }
        let len = len.checked_next_multiple_of(64).ok_or(KernelError::OutOfMemory { bytes: len })?;
        let fits = |piece: &Bytes| piece.len() >= len;
        let pieces = self.pieces.iter().enumerate();
        match pieces.clone().filter(|(_, p)| fits(p)).min_by_key(|(_, p)| p.len()) {
            Some((index, _)) => Ok(self.pieces.swap_remove(index)),
            None => {
                // The largest piece is replaced rather than resized, which would copy contents that nobody needs.
                if let Some((index, _)) = pieces.max_by_key(|(_, p)| p.len()) {
                    self.pieces.swap_remove(index);
                }
                Bytes::zeroed(space, len)
            }
        }
    }

    /// Returns a piece to the pool.
    pub(crate) fn give_back(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.pieces.push(piece);
        }
    }
}
