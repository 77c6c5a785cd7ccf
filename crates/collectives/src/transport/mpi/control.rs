//! What ranks say to each other outside any collective: that they leave, or that the run has ended.

use super::native::{Comm, Request, Result, Tester};
use super::wire::{LONGEST, Message};

const TAG: i32 = 0;

/// A communicator of its own, on which every worker listens all the time.
///
/// The memory of its messages is leaked on purpose: one place to receive in, and the one or two messages that a rank
/// sends in its life. So nothing can dangle however the run ends.
pub(super) struct Control {
    comm: Comm,
    rank: usize,
    size: usize,
    place: *mut u8,
    receive: Request,
    sent: Vec<Request>,
}

impl Control {
    /// All ranks must call this.
    pub(super) fn new(comm: Comm) -> Result<Self> {
        let place = vec![0u8; LONGEST].leak().as_mut_ptr();
        // SAFETY: leaked, and known only here.
        let receive = unsafe { comm.receive(place, LONGEST, None, TAG)? };
        Ok(Self { comm, rank: comm.rank()?, size: comm.size()?, place, receive, sent: Vec::new() })
    }

    /// Starts to tell all others.
    pub(super) fn tell(&mut self, message: &Message) -> Result {
        let bytes = message.encode().leak();
        let mut outcome = Ok(());
        for other in (0..self.size).filter(|&other| other != self.rank) {
            // SAFETY: leaked, and never changed.
            match unsafe { self.comm.send(bytes.as_ptr(), bytes.len(), other, TAG) } {
                Ok(request) => self.sent.push(request),
                // The others must hear of it all the same.
                Err(fault) => outcome = Err(fault),
            }
        }
        outcome
    }

    /// A message that has arrived, if any.
    pub(super) fn listen(&mut self, tester: &mut Tester) -> Result<Option<Message>> {
        let mut outcome = Ok(());
        let done = tester.test(std::slice::from_mut(&mut self.receive), |_, how| outcome = how)?;
        if done == 0 {
            return outcome.map(|()| None);
        }
        // SAFETY: LONGEST bytes, which MPI is done with; the borrow ends before it gets them again.
        let message = Message::decode(unsafe { std::slice::from_raw_parts(self.place, LONGEST) });
        // Whatever became of this one, the next must be heard.
        // SAFETY: as in `new`.
        self.receive = unsafe { self.comm.receive(self.place, LONGEST, None, TAG)? };
        outcome.map(|()| message)
    }

    /// Whether everything told is on its way for good.
    pub(super) fn is_told(&mut self, tester: &mut Tester) -> Result<bool> {
        // Whether a rank that is gone could be told does not matter any more.
        tester.test(&mut self.sent, |_, _| {})?;
        Ok(self.sent.iter().all(Request::is_none))
    }

    /// Completes when all ranks have called it.
    pub(super) fn start_barrier(&self) -> Result<Request> {
        self.comm.start_barrier()
    }

    /// Stops listening.
    pub(super) fn close(self) -> Result {
        self.receive.cancel()
    }
}
