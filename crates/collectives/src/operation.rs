//! Operations as sequences of exchanges, and the memory they borrow.

use crate::transport::{GroupId, Span, Ticket};
use crate::{CollectiveError, Label};
use kernels::{Buffer, Bytes, Device, KernelError};
use spec::wire::Format;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// One rank's place in a group.
pub(crate) struct Membership {
    pub(crate) group: GroupId,
    /// World ranks, in group order.
    pub(crate) members: Vec<usize>,
    /// This rank's index among them.
    pub(crate) me: usize,
    /// The number of the next exchange.
    pub(crate) sequence: AtomicU64,
}

/// An operation under way.
pub(crate) struct Operation {
    pub(crate) group: Arc<Membership>,
    pub(crate) label: Label,
    /// The label's place in the meter.
    pub(crate) metered: usize,
    /// The number of its first exchange; later ones follow, so that ranks agree on them in whatever order they get
    /// there.
    pub(crate) sequence: u64,
    pub(crate) started: Instant,
    /// When its last exchange so far was complete; its start where it needs none.
    pub(crate) completed: Instant,
    /// Bytes given to other ranks.
    pub(crate) sent: u64,
    pub(crate) stage: Stage,
    /// The exchange that the stage waits for.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) abandoned: bool,
    /// Memory of the pool. It goes back only when the operation is waited for: then what the pool must hold depends on
    /// the program alone, not on timing, and a step after warm-up allocates nothing.
    pub(crate) scratch: [Bytes; 2],
}

/// What is under way, hence what follows.
pub(crate) enum Stage {
    /// One exchange and no more.
    Exchange,
    /// One exchange and no more, in which this rank gives what the operation returns: the root of a broadcast.
    Root,
    /// Blocks of `len` floats arrive to be summed into `into`.
    ReduceScatter { into: Buffer<f32>, len: usize },
    /// As above, into the second scratch, for this rank's share of an all-reduce of `total` floats; the all-gather
    /// follows.
    AllReduce { total: usize },
    /// The shares of an all-reduce arrive.
    Gather,
    /// Encoded blocks of `len` floats arrive to be summed into `into`; `send` is the caller's.
    EncodedScatter { wire: Format, send: Buffer<f32>, into: Buffer<f32>, len: usize },
    /// Encoded blocks of this rank's share of `buffer` arrive, to be summed there; the gather follows.
    EncodedReduce { wire: Format, buffer: Buffer<f32> },
    /// All of `into` arrives encoded; `send` is the caller's.
    EncodedGather { wire: Format, send: Buffer<f32>, into: Buffer<f32> },
    /// Complete.
    Done { send: Bytes, recv: Bytes },
    /// Refused on the way.
    Failed(CollectiveError),
}

/// What an operation begins with.
pub(crate) struct Setup {
    pub(crate) stage: Stage,
    pub(crate) send: Bytes,
    pub(crate) recv: Bytes,
    /// Memory of the pool that a later stage needs.
    pub(crate) scratch: Bytes,
}

impl Setup {
    /// An exchange and no more.
    pub(crate) fn exchange(send: Bytes, recv: Bytes) -> Self {
        let scratch = Bytes::new(send.space());
        Self { stage: Stage::Exchange, send, recv, scratch }
    }

    /// Nothing to exchange.
    pub(crate) fn done(send: Bytes, recv: Bytes) -> Self {
        let [nothing, neither, scratch] = [(); 3].map(|()| Bytes::new(recv.space()));
        Self { stage: Stage::Done { send, recv }, send: nothing, recv: neither, scratch }
    }
}

/// Ranges of an exchange about to start; reused from one to the next.
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
}

/// Appends consecutive ranges of `counts` elements of `size` bytes. Gives the elements in all, or nothing on overflow.
pub(crate) fn lay_out(counts: &[usize], size: usize, spans: &mut Vec<Span>) -> Option<usize> {
    let mut total = 0usize;
    for &count in counts {
        spans.push(Span { at: total.checked_mul(size)?, len: count.checked_mul(size)? });
        total = total.checked_add(count)?;
    }
    total.checked_mul(size).map(|_| total)
}

/// Memory for stages between exchanges. Pieces never shrink, so that a piece's length is what it can hold.
#[derive(Default)]
pub(crate) struct Pool {
    pieces: Vec<Bytes>,
}

impl Pool {
    /// At least `len` bytes: the smallest piece that holds them, or the largest, grown.
    pub(crate) fn take(&mut self, device: &Device, len: usize) -> Result<Bytes, KernelError> {
        if len == 0 {
            return Ok(Bytes::new(device.for_exchange()));
        }
        let len = len.checked_next_multiple_of(64).ok_or(KernelError::OutOfMemory { bytes: len })?;
        let fits = |piece: &Bytes| piece.len() >= len;
        let pieces = self.pieces.iter().enumerate();
        match pieces.clone().filter(|(_, p)| fits(p)).min_by_key(|(_, p)| p.len()) {
            Some((index, _)) => Ok(self.pieces.swap_remove(index)),
            None => {
                // Its old contents are of no use, so it is replaced rather than resized, which would copy them.
                if let Some((index, _)) = pieces.max_by_key(|(_, p)| p.len()) {
                    self.pieces.swap_remove(index);
                }
                Bytes::zeroed(device.for_exchange(), len)
            }
        }
    }

    pub(crate) fn give_back(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.pieces.push(piece);
        }
    }
}
