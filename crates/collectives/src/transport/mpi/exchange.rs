//! One exchange as the MPI worker sees it: its outstanding messages.
//!
//! Every member sends every other one a header, together with the data if they are short. So an exchange is complete once
//! all members have started it, and each pair of members has checked that their calls match.
//!
//! Longer data, for which MPI would wait for the other side anyway, are sent when the header of the other side has arrived
//! and matches. So a message is never longer than its receive: Open MPI 4.1.4 would report the truncation, but by then it
//! has written beyond the end of the receive (in shared memory, by its single copy).

use super::board::{Job, Vectors};
use super::messages::{Envelope, HeaderBytes, agree};
use super::native::{Comm, Fault, Request, Tester};
use std::time::Instant;

/// MPI communicator of a group, and the world ranks of its members.
pub(super) struct Group {
    pub(super) comm: Comm,
    pub(super) members: Vec<usize>,
    pub(super) me: usize,
}

/// Limits of MPI messages, by which an exchange is divided into messages.
#[derive(Clone, Copy)]
pub(super) struct MessageLimits {
    /// Longest message in bytes; MPI counts in 31 bits.
    pub(super) piece: usize,
    /// Largest tag that MPI allows.
    pub(super) largest_tag: u64,
}

impl MessageLimits {
    /// Tags of the headers and of the data of an exchange. Members use every sequence number once, and would have to be
    /// millions of exchanges apart to reuse a tag.
    fn tags(&self, sequence: u64) -> (i32, i32) {
        let tag = 2 * (sequence % self.largest_tag.div_ceil(2)) as i32;
        (tag, tag + 1)
    }

    /// Offsets and lengths of the messages for `len` bytes. The messages share a tag, and MPI keeps their order.
    fn pieces(&self, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let piece = self.piece;
        (0..len).step_by(piece).map(move |at| (at, piece.min(len - at)))
    }
}

/// Outstanding messages of an exchange. The value is reused for the sake of its vectors.
pub(super) struct Exchange {
    job: Option<Job>,
    requests: Vec<Request>,
    /// Member and part of the exchange that each request belongs to.
    parts: Vec<(usize, Part)>,
    /// Number of requests that have not completed or are still to be made.
    open: usize,
    /// Members whose header has just arrived.
    ready: Vec<usize>,
    /// Whether the header of each member has arrived and matches.
    arrived: Vec<bool>,
    posted: Option<Instant>,
}

/// Part of an exchange that a request belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Data,
    Sent,
}

/// Why an exchange cannot go on.
pub(super) enum Trouble {
    /// The call of this member does not match.
    Mismatch(usize),
    /// A call of MPI failed; with this member, if it is known.
    Fault(Option<usize>, Fault),
}

impl Exchange {
    /// Exchange with capacity for a group of `size` members. Which spare exchange carries out which job depends on timing, so
    /// each has capacity for the largest group: otherwise one could grow long after warm-up.
    pub(super) fn with_room(size: usize) -> Self {
        Self {
            job: None,
            requests: Vec::with_capacity(4 * size),
            parts: Vec::with_capacity(4 * size),
            open: 0,
            ready: Vec::with_capacity(size),
            arrived: Vec::with_capacity(size),
            posted: None,
        }
    }

    /// Starts all messages of a job.
    pub(super) fn post(&mut self, job: Job, group: &Group, limits: MessageLimits) -> Result<(), Trouble> {
        let size = group.members.len();
        self.requests.clear();
        self.parts.clear();
        self.ready.clear();
        self.arrived.clear();
        self.arrived.resize(size, false);
        self.arrived[group.me] = true;
        self.posted = Some(Instant::now());
        let job = self.job.insert(job);
        let (header, data) = limits.tags(job.sequence);
        let (recv, short) = (job.recv.as_mut_ptr(), job.short);
        let Vectors { to, from, outgoing, incoming } = &mut job.vectors;
        let (outgoing, incoming) = (outgoing.as_ptr(), incoming.as_mut_ptr());
        // Each member begins with its right neighbour, so that not all send to the same one at once. Receives come first:
        // then data that arrives need not be buffered.
        let others = || (group.me + 1..size).chain(0..group.me);
        let comm = &group.comm;
        for member in others() {
            let failed = |fault| Trouble::Fault(Some(member), fault);
            let len = size_of::<Envelope>();
            // SAFETY: `incoming` has one envelope for each member, and belongs to the job, which is kept untouched until
            // all requests are complete, and never freed if they are not (see `drop`).
            let request = unsafe { comm.receive(incoming.add(member).cast(), len, Some(member), header) };
            self.requests.push(request.map_err(failed)?);
            self.parts.push((member, Part::Header));
            for (at, len) in limits.pieces(long(from[member].len, short)) {
                // SAFETY: the span lies inside `recv`, which was checked when the job was made; then as above.
                let place = unsafe { recv.add(from[member].at + at) };
                // SAFETY: as above.
                let request = unsafe { comm.receive(place, len, Some(member), data) };
                self.requests.push(request.map_err(failed)?);
                self.parts.push((member, Part::Data));
            }
        }
        let mut later = 0;
        for member in others() {
            let len = Envelope::len(to[member].len, short);
            // SAFETY: as for `incoming`; nobody changes it.
            let request = unsafe { comm.send(outgoing.add(member).cast(), len, member, header) };
            self.requests.push(request.map_err(|fault| Trouble::Fault(Some(member), fault))?);
            self.parts.push((member, Part::Sent));
            later += limits.pieces(long(to[member].len, short)).count();
        }
        self.open = self.requests.len() + later;
        Ok(())
    }

    /// Starts the messages with the data for one member, if they are long.
    fn send(&mut self, member: usize, group: &Group, limits: MessageLimits) -> Result<(), Trouble> {
        let Some(job) = &self.job else { return Ok(()) };
        let (span, tag) = (job.vectors.to[member], limits.tags(job.sequence).1);
        for (at, len) in limits.pieces(long(span.len, job.short)) {
            // SAFETY: the span lies inside `send`, which was checked when the job was made.
            let place = unsafe { job.send.as_ptr().add(span.at + at) };
            // SAFETY: as for the headers in `post`; nobody changes it.
            let request = unsafe { group.comm.send(place, len, member, tag) };
            self.requests.push(request.map_err(|fault| Trouble::Fault(Some(member), fault))?);
            self.parts.push((member, Part::Sent));
        }
        Ok(())
    }

    /// Handles the requests that have completed, and starts the messages that this allows. Returns whether any has completed.
    pub(super) fn test(
        &mut self,
        tester: &mut Tester,
        groups: &[Group],
        limits: MessageLimits,
    ) -> Result<bool, Trouble> {
        let Self { job: Some(job), requests, parts, open, ready, arrived, .. } = self else {
            return Ok(false);
        };
        let group = &groups[job.group];
        let (incoming, recv) = (job.vectors.incoming.as_ptr(), job.recv.as_mut_ptr());
        let mut trouble = None;
        let tested = tester.test(requests, |index, outcome| {
            *open -= 1;
            let (member, part) = parts[index];
            match outcome {
                Ok(()) if part == Part::Header => {
                    // SAFETY: the request for this envelope is complete: MPI is done with it. Looked at through a pointer,
                    // because others of the same vector are still to be written.
                    let theirs = unsafe { &*incoming.add(member) };
                    if !agree(&job.vectors.outgoing[member].header, &theirs.header) {
                        trouble = Some(Trouble::Mismatch(member));
                        return;
                    }
                    let span = job.vectors.from[member];
                    if let Some(data) =
                        theirs.data[..job.short].get(..span.len).filter(|data| !data.is_empty())
                    {
                        // SAFETY: the span lies inside `recv`, and MPI was not told of it: short data come only this way.
                        unsafe { recv.add(span.at).copy_from_nonoverlapping(data.as_ptr(), data.len()) };
                    }
                    arrived[member] = true;
                    ready.push(member);
                }
                Ok(()) => {}
                Err(fault) => trouble = trouble.take().or(Some(Trouble::Fault(Some(member), fault))),
            }
        });
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        let count = tested.map_err(|fault| Trouble::Fault(None, fault))?;
        while let Some(member) = self.ready.pop() {
            self.send(member, group, limits)?;
        }
        Ok(count > 0)
    }

    /// Returns the job, if all its messages are complete.
    pub(super) fn take(&mut self) -> Option<Job> {
        if self.open == 0 { self.job.take() } else { None }
    }

    /// The job of this exchange, while it is outstanding.
    pub(super) fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// Header of a member that has arrived.
    pub(super) fn theirs(&self, member: usize) -> HeaderBytes {
        let job = self.job.as_ref().expect("asked while under way");
        // SAFETY: inside the vector. Read through a pointer, because MPI may still have others of it to write.
        unsafe { (*job.vectors.incoming.as_ptr().add(member)).header }
    }

    /// Time at which the messages were started.
    pub(super) fn posted(&self) -> Option<Instant> {
        self.posted
    }

    /// Whether this member has started the exchange.
    pub(super) fn arrived(&self, member: usize) -> bool {
        self.arrived[member]
    }

    /// Members with which messages are outstanding: those that have not started the exchange, if there are any.
    pub(super) fn missing(&self) -> Vec<usize> {
        let parts = self.requests.iter().zip(&self.parts);
        let mut missing: Vec<usize> =
            parts.filter(|(request, _)| !request.is_none()).map(|(_, &(member, _))| member).collect();
        missing.sort_unstable();
        missing.dedup();
        // Some members may only be waiting for others, as this one does. Those that have not arrived are the cause.
        let absent: Vec<usize> = missing.iter().copied().filter(|&member| !self.arrived(member)).collect();
        if absent.is_empty() { missing } else { absent }
    }
}

/// Bytes of data that are sent separately, after the header, when there are `len` bytes in all and up to `short` go with it.
fn long(len: usize, short: usize) -> usize {
    if len > short { len } else { 0 }
}

impl Drop for Exchange {
    /// Leaks the memory of outstanding messages: MPI, or another process through it, may still write there.
    fn drop(&mut self) {
        std::mem::forget(self.job.take());
    }
}
