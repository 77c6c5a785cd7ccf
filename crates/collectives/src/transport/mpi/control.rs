//! Control messages between ranks, outside any collective: that a rank leaves, or that the run has ended.

use super::messages::{LONGEST, Message};
use super::native::{Comm, Request, Result, Tester};

const TAG: i32 = 0;

/// MPI communicator for control messages, on which every worker always listens.
///
/// The memory of the messages is leaked on purpose: one buffer to receive into, and the one or two messages that a rank
/// ever sends in a launch. So no pointer can dangle, however the run ends.
pub(super) struct Control {
    comm: Comm,
    rank: usize,
    size: usize,
    place: *mut u8,
    receive: Request,
    sent: Vec<Request>,
}

impl Control {
    /// Starts to listen. All ranks must call this.
    pub(super) fn new(comm: Comm) -> Result<Self> {
        let place = vec![0u8; LONGEST].leak().as_mut_ptr();
        // SAFETY: leaked, and known only here.
        let receive = unsafe { comm.receive(place, LONGEST, None, TAG)? };
        Ok(Self { comm, rank: comm.rank()?, size: comm.size()?, place, receive, sent: Vec::new() })
    }

    /// Starts to send a message to all other ranks.
    pub(super) fn tell(&mut self, message: &Message) -> Result {
        let bytes = message.encode().leak();
        let mut outcome = Ok(());
        for other in (0..self.size).filter(|&other| other != self.rank) {
            // SAFETY: leaked, and never changed.
            match unsafe { self.comm.send(bytes.as_ptr(), bytes.len(), other, TAG) } {
                Ok(request) => self.sent.push(request),
                // The remaining ranks must still be told.
                Err(fault) => outcome = Err(fault),
            }
        }
        outcome
    }

    /// Returns a message that has arrived, if any.
    pub(super) fn listen(&mut self, tester: &mut Tester) -> Result<Option<Message>> {
        let mut outcome = Ok(());
        let done = tester.test(std::slice::from_mut(&mut self.receive), |_, how| outcome = how)?;
        if done == 0 {
            return outcome.map(|()| None);
        }
        // SAFETY: LONGEST bytes, which MPI is done with; the borrow ends before it gets them again.
        let message = Message::decode(unsafe { std::slice::from_raw_parts(self.place, LONGEST) });
        // Whatever the outcome, the next message must be received.
        // SAFETY: as in `new`.
        self.receive = unsafe { self.comm.receive(self.place, LONGEST, None, TAG)? };
        outcome.map(|()| message)
    }

    /// Whether all messages have been sent.
    pub(super) fn is_told(&mut self, tester: &mut Tester) -> Result<bool> {
        // Whether a rank that is gone received its message does not matter.
        tester.test(&mut self.sent, |_, _| {})?;
        Ok(self.sent.iter().all(Request::is_none))
    }

    /// Starts a barrier, which completes once all ranks have called this.
    pub(super) fn start_barrier(&self) -> Result<Request> {
        self.comm.start_barrier()
    }

    /// Stops listening. All ranks must call this.
    pub(super) fn close(self) -> Result {
        self.receive.cancel()?;
        self.comm.free()
    }
}
