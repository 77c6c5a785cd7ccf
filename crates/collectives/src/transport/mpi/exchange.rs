//! One exchange as the worker sees it: its messages under way.
//!
//! Every member sends every other one a header, with the data if they are short. So an exchange is complete once all
//! members have started it, and each pair of them has checked that their calls fit.
//!
//! Longer data, for which MPI would wait for the other side anyway, follow when the other's header is here and fits. So
//! nothing ever arrives where less is expected: Open MPI 4.1.4 would report that it was cut, but by then it has written
//! past the end of the receive (in shared memory, by its single copy).

use super::board::{Job, Vectors};
use super::native::{Comm, Fault, Request, Tester};
use super::wire::{Envelope, HeaderBytes, SHORT, agree};
use std::time::Instant;

/// A group's communicator, and its members' world ranks.
pub(super) struct Group {
    pub(super) comm: Comm,
    pub(super) members: Vec<usize>,
    pub(super) me: usize,
}

/// How exchanges become messages.
#[derive(Clone, Copy)]
pub(super) struct Cutting {
    /// The longest message; MPI counts in 31 bits.
    pub(super) piece: usize,
    /// The largest tag.
    pub(super) largest_tag: u64,
}

impl Cutting {
    /// The tags of an exchange's headers and of its data. Members use every sequence number once, and would have to be
    /// millions apart to meet a tag again.
    fn tags(&self, sequence: u64) -> (i32, i32) {
        let tag = 2 * (sequence % self.largest_tag.div_ceil(2)) as i32;
        (tag, tag + 1)
    }

    /// Offsets and lengths of the messages for `len` bytes. They share a tag, and MPI keeps their order.
    fn pieces(&self, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let piece = self.piece;
        (0..len).step_by(piece).map(move |at| (at, piece.min(len - at)))
    }
}

/// Messages under way. Reused for its vectors.
pub(super) struct Exchange {
    job: Option<Job>,
    requests: Vec<Request>,
    /// What each request is for.
    parts: Vec<(usize, Part)>,
    /// Requests that have not completed, or are still to be made.
    open: usize,
    /// Members whose header has just arrived.
    ready: Vec<usize>,
    /// By member: whether its header is here, and fits.
    arrived: Vec<bool>,
    posted: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Data,
    Sent,
}

/// Why an exchange cannot go on.
pub(super) enum Trouble {
    /// This member's call does not fit.
    Mismatch(usize),
    /// A call failed; about this member, if it is known.
    Fault(Option<usize>, Fault),
}

impl Exchange {
    /// With room for a group of this size. Which of the spare ones carries out which job is a matter of luck, so each has
    /// room for the largest: otherwise one would grow long after warm-up.
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
    pub(super) fn post(&mut self, job: Job, group: &Group, cutting: Cutting) -> Result<(), Trouble> {
        let size = group.members.len();
        self.requests.clear();
        self.parts.clear();
        self.ready.clear();
        self.arrived.clear();
        self.arrived.resize(size, false);
        self.arrived[group.me] = true;
        self.posted = Some(Instant::now());
        let job = self.job.insert(job);
        let (header, data) = cutting.tags(job.sequence);
        let recv = job.recv.as_mut_ptr();
        let Vectors { to, from, outgoing, incoming } = &mut job.vectors;
        let (outgoing, incoming) = (outgoing.as_ptr(), incoming.as_mut_ptr());
        // Each begins with its right neighbour, so that not all send to the same one at once. Receives come first:
        // what arrives for them then needs no place to wait.
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
            for (at, len) in cutting.pieces(long(from[member].len)) {
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
            let len = Envelope::len(to[member].len);
            // SAFETY: as for `incoming`; nobody changes it.
            let request = unsafe { comm.send(outgoing.add(member).cast(), len, member, header) };
            self.requests.push(request.map_err(|fault| Trouble::Fault(Some(member), fault))?);
            self.parts.push((member, Part::Sent));
            later += cutting.pieces(long(to[member].len)).count();
        }
        self.open = self.requests.len() + later;
        Ok(())
    }

    /// Starts the messages with the data for one member, if they are long.
    fn send(&mut self, member: usize, group: &Group, cutting: Cutting) -> Result<(), Trouble> {
        let Some(job) = &self.job else { return Ok(()) };
        let (span, tag) = (job.vectors.to[member], cutting.tags(job.sequence).1);
        for (at, len) in cutting.pieces(long(span.len)) {
            // SAFETY: the span lies inside `send`, which was checked when the job was made.
            let place = unsafe { job.send.as_ptr().add(span.at + at) };
            // SAFETY: as for the headers in `post`; nobody changes it.
            let request = unsafe { group.comm.send(place, len, member, tag) };
            self.requests.push(request.map_err(|fault| Trouble::Fault(Some(member), fault))?);
            self.parts.push((member, Part::Sent));
        }
        Ok(())
    }

    /// Looks at what has completed, and starts what that allows. True if anything has.
    pub(super) fn test(
        &mut self,
        tester: &mut Tester,
        groups: &[Group],
        cutting: Cutting,
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
                    if let Some(data) = theirs.data.get(..span.len) {
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
            self.send(member, group, cutting)?;
        }
        Ok(count > 0)
    }

    /// The job, if all its messages have arrived.
    pub(super) fn take(&mut self) -> Option<Job> {
        if self.open == 0 { self.job.take() } else { None }
    }

    pub(super) fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// What a member has told, once it has.
    pub(super) fn theirs(&self, member: usize) -> HeaderBytes {
        let job = self.job.as_ref().expect("asked while under way");
        // SAFETY: inside the vector. Read through a pointer, because MPI may still have others of it to write.
        unsafe { (*job.vectors.incoming.as_ptr().add(member)).header }
    }

    /// Since when its messages are under way.
    pub(super) fn posted(&self) -> Option<Instant> {
        self.posted
    }

    /// Whether this member has started the exchange too.
    pub(super) fn arrived(&self, member: usize) -> bool {
        self.arrived[member]
    }

    /// Members with which something is still to be exchanged.
    pub(super) fn missing(&self) -> Vec<usize> {
        let parts = self.requests.iter().zip(&self.parts);
        let mut missing: Vec<usize> =
            parts.filter(|(request, _)| !request.is_none()).map(|(_, &(member, _))| member).collect();
        missing.sort_unstable();
        missing.dedup();
        // Some may only be waiting for others, as this one does. Who has not even arrived is to blame.
        let absent: Vec<usize> = missing.iter().copied().filter(|&member| !self.arrived(member)).collect();
        if absent.is_empty() { missing } else { absent }
    }
}

/// How many of so many bytes travel by themselves, after the header.
fn long(len: usize) -> usize {
    if len > SHORT { len } else { 0 }
}

impl Drop for Exchange {
    /// Memory of messages under way is never freed: MPI, or another process through it, may still write there.
    fn drop(&mut self) {
        std::mem::forget(self.job.take());
    }
}
