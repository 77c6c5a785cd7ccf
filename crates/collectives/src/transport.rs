//! What moves bytes, and nothing else.
//!
//! Everything typed, counted or summed is written once, above this trait. A transport knows one operation: the
//! exchange, in which every member of a group gives a range of bytes to every member and takes one from each.

pub(crate) mod in_process;
// The only unsafe code of this crate: calls of a C library.
#[cfg(feature = "mpi")]
#[allow(unsafe_code)]
pub(crate) mod mpi;

use crate::{CollectiveError, Label};
use kernels::Bytes;
use std::time::Instant;

/// Exchanges of a rank at once before its vectors grow: more than steps usually have.
pub(crate) const ROOM: usize = 64;

/// A group of ranks, as the transport names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupId(pub(crate) u64);

impl GroupId {
    /// All ranks.
    pub(crate) const WORLD: GroupId = GroupId(0);
}

/// An exchange under way, as this rank's transport names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) usize);

/// A range of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// What an exchange is for. Members must agree on operation and element; the label is for messages.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) operation: &'static str,
    pub(crate) element: &'static str,
    pub(crate) label: Label,
}

/// An exchange that is complete: its memory, and when its last byte had come and gone.
pub(crate) struct Exchanged {
    pub(crate) send: Bytes,
    pub(crate) recv: Bytes,
    pub(crate) at: Instant,
}

/// One rank's connection to the others. Any of its errors ends the run on all ranks.
pub(crate) trait Transport: Send + Sync {
    /// Starts an exchange in a group: the range `to[i]` of `send` goes to its member `i` (ranges may overlap), the
    /// range `from[i]` of `recv` is filled by its member `i`. Members meet by `sequence`: each of them uses every
    /// number once, in any order.
    fn start(
        &self,
        group: GroupId,
        sequence: u64,
        header: Header,
        send: Bytes,
        to: &[Span],
        recv: Bytes,
        from: &[Span],
    ) -> Result<Ticket, CollectiveError>;

    /// Gives `send` and `recv` back, and ends the ticket, if the exchange is complete.
    fn test(&self, ticket: Ticket) -> Result<Option<Exchanged>, CollectiveError>;

    /// Blocks until a test of `wanted` or of one of `others` would succeed. Waiting past `deadline` for `wanted` ends
    /// the run.
    fn wait(
        &self,
        wanted: Ticket,
        others: &[Ticket],
        deadline: Option<Instant>,
    ) -> Result<(), CollectiveError>;

    /// Makes a group of `members` (world ranks). All of them call this with the same arguments; the first three say
    /// which of the many groups it is.
    fn create_group(
        &self,
        parent: GroupId,
        sequence: u64,
        color: usize,
        members: &[usize],
    ) -> Result<GroupId, CollectiveError>;

    /// Ends the run on all ranks because of `cause`, unless it has ended already. Gives what to report here.
    fn abort(&self, cause: CollectiveError) -> CollectiveError;

    /// Fails if the run has ended.
    fn check(&self) -> Result<(), CollectiveError>;

    /// Records which phase this rank is in, for messages.
    fn enter(&self, phase: &Label);
}
