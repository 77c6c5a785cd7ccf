//! The transport of a rank: what the ranks agree on ([`Control`]), apart from what moves their bytes ([`Mover`]).
//!
//! Types, meters and sums are written once, above these traits. A mover has a single operation: the exchange, in which
//! every member of a group sends a range of bytes to every member and receives one from each.
//!
//! Ranks that are threads and ranks that are processes of MPI have a control and a mover each; NCCL is a mover over either. A mover that takes only some kind
//! of memory wraps another one and hands the rest to it, so that a rank always has one mover, and waits for all its exchanges at
//! once.

pub(crate) mod in_process;
pub(crate) mod nccl;
// Ranks that are threads copy device memory by the device.
#[cfg(any(feature = "mpi", test))]
pub(crate) mod staged;
// The only unsafe code of this crate: calls of a C library.
#[cfg(feature = "mpi")]
#[allow(unsafe_code)]
pub(crate) mod mpi;

use crate::{CollectiveError, CollectiveStatus, Label};
use kernels::{Bytes, Device};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Exchanges that a rank may have outstanding before its vectors grow: more than a step usually has.
pub(crate) const ROOM: usize = 64;

/// Number of a group of ranks in the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupId(pub(crate) u64);

impl GroupId {
    /// The group of all ranks.
    pub(crate) const WORLD: GroupId = GroupId(0);
}

/// Number of an outstanding exchange in this rank's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) usize);

/// A range of bytes: `len` bytes from offset `at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// Names of an exchange. Members must agree on the operation and the element type; the label is for messages.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) operation: &'static str,
    pub(crate) element: &'static str,
    pub(crate) label: Label,
}

/// An exchange that is complete: the memory of its request, and when the last byte had been sent and received.
pub(crate) struct Exchanged {
    pub(crate) send: Bytes,
    pub(crate) recv: Bytes,
    pub(crate) at: Instant,
}

/// An exchange to start in a group: the range `to[i]` of `send` goes to member `i` (ranges may overlap), and the range
/// `from[i]` of `recv` is filled by member `i`. Members meet by `sequence`: each of them uses every number once, in any
/// order. Device memory is read and written by work on the queue of `device`, behind all work that the queue has by now.
pub(crate) struct ExchangeRequest<'a> {
    pub(crate) device: &'a Device,
    pub(crate) group: GroupId,
    /// Index of this rank among the members.
    pub(crate) me: usize,
    pub(crate) sequence: u64,
    pub(crate) header: Header,
    pub(crate) send: Bytes,
    pub(crate) to: &'a [Span],
    pub(crate) recv: Bytes,
    pub(crate) from: &'a [Span],
}

/// A group whose members are about to exchange memory of the devices that they compute on.
#[derive(Clone, Copy)]
pub(crate) struct ConnectRequest<'a> {
    pub(crate) device: &'a Device,
    pub(crate) group: GroupId,
    /// Index of this rank among the members.
    pub(crate) me: usize,
    /// Number of members.
    pub(crate) size: usize,
    pub(crate) label: &'a Label,
}

/// A sum to carry out in a group: of the first `floats` floats of `vector`, over all members, in place. Members meet as in an
/// exchange. The memory is read and written by work on the queue of `device`.
pub(crate) struct SumRequest<'a> {
    pub(crate) device: &'a Device,
    pub(crate) group: GroupId,
    /// Index of this rank among the members.
    pub(crate) me: usize,
    /// Number of members.
    pub(crate) size: usize,
    pub(crate) sequence: u64,
    pub(crate) header: Header,
    pub(crate) vector: &'a mut Bytes,
    pub(crate) floats: usize,
}

/// What a rank needs of the other ranks: who is there, and how the run stands. An error of any method but [`Control::check`]
/// ends the run on all ranks.
pub(crate) trait Control: Send + Sync {
    /// Makes a group of `members`, given as world ranks. All of them call this with the same arguments; `parent`, `sequence`
    /// and `color` identify the group.
    fn create_group(
        &self,
        parent: GroupId,
        sequence: u64,
        color: usize,
        members: &[usize],
    ) -> Result<GroupId, CollectiveError>;

    /// Ends the run on all ranks because of `cause`, unless it has ended already. Returns the error to report on this rank.
    fn abort(&self, cause: CollectiveError) -> CollectiveError;

    /// Fails if the run has ended.
    fn check(&self) -> Result<(), CollectiveError>;

    /// Records that this rank has entered `phase`, for messages.
    fn enter(&self, phase: &Label);

    /// Records that this rank has started `collective` by a mover that is not this transport's own, for messages.
    fn started(&self, collective: &CollectiveStatus);
}

/// What moves bytes between this rank and the others. An error of any method ends the run on all ranks.
pub(crate) trait Mover: Send + Sync {
    /// Starts an exchange.
    fn start(&self, request: ExchangeRequest<'_>) -> Result<Ticket, CollectiveError>;

    /// Returns the memory of an exchange and ends its ticket, if the exchange is complete. Device memory may then be used by
    /// later work of the queue on which the exchange was started; the device itself may not have moved the bytes yet.
    fn test(&self, ticket: Ticket) -> Result<Option<Exchanged>, CollectiveError>;

    /// Blocks until a test of `wanted` or of one of `others` would succeed. Waiting past `deadline` for `wanted` ends
    /// the run.
    fn wait(
        &self,
        wanted: Ticket,
        others: &[Ticket],
        deadline: Option<Instant>,
    ) -> Result<(), CollectiveError>;

    /// Makes what exchanges of device memory in a group need, before the first of them, with the other members. A mover that needs
    /// nothing returns at once.
    fn connect(&self, request: ConnectRequest<'_>) -> Result<(), CollectiveError> {
        let _ = request;
        Ok(())
    }

    /// Sums floats over the members of a group in an order of the mover's own. Returns when that is in the queue of the device;
    /// `None` from a mover that does not add, or does not in this memory.
    fn sum(&self, request: SumRequest<'_>) -> Option<Result<(), CollectiveError>> {
        let _ = request;
        None
    }

    /// Blocks until the other members of all exchanges that were started can complete them without this rank.
    fn settle(&self) -> Result<(), CollectiveError> {
        Ok(())
    }
}

impl Span {
    /// Offsets of the bytes.
    pub(crate) fn range(&self) -> Range<usize> {
        self.at..self.at + self.len
    }
}

impl ExchangeRequest<'_> {
    /// Whether the host can address all memory of the exchange.
    pub(crate) fn is_on_host(&self) -> bool {
        self.send.is_on_host() && self.recv.is_on_host()
    }
}

/// Transport of one rank.
#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) control: Arc<dyn Control>,
    pub(crate) mover: Arc<dyn Mover>,
}

impl Transport {
    /// Transport whose control and mover are one value.
    pub(crate) fn of(both: &Arc<impl Control + Mover + 'static>) -> Self {
        Self { control: both.clone(), mover: both.clone() }
    }
}
