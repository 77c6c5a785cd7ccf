//! Exchanges of one rank with other processes: jobs that the rank leaves on the board for its worker.

use super::board::{Command, Job, JobSlot, Vectors};
use super::{Mpi, Result, STUCK, ended, messages};
use crate::transport::{ExchangeRequest, Exchanged, Header, Mover, Span, Ticket};
use crate::{Activity, CollectiveStatus};
use kernels::Bytes;
use std::time::Instant;

/// Panics if a span reaches beyond the end of `bytes`, as indexing a slice would.
fn check_spans(spans: &[Span], bytes: &Bytes) {
    for span in spans {
        let fits = span.at.checked_add(span.len).is_some_and(|end| end <= bytes.len());
        assert!(fits, "{span:?} of {} bytes", bytes.len());
    }
}

impl Mover for Mpi {
    fn start(&self, request: ExchangeRequest<'_>) -> Result<Ticket> {
        let on_host = request.is_on_host();
        let ExchangeRequest { group, sequence, header, send, to, mut recv, from, .. } = request;
        assert_eq!(to.len(), from.len(), "one range for each member, both ways");
        check_spans(to, &send);
        check_spans(from, &recv);
        let size = to.len();
        let mut state = self.board.state();
        ended(&state)?;
        let header_bytes = messages::header(&header, &state.status.phase);
        let Header { operation, label, .. } = header.clone();
        let status = CollectiveStatus { operation, label, sequence, size };
        state.started(status.clone());
        let group = group.0 as usize;
        let me = state.own_index[group];
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(JobSlot::Free);
            state.slots.len() - 1
        });
        state.slots[slot] = JobSlot::UnderWay(status);
        let room = || Vectors::with_room(self.topology.ranks());
        let vectors = state.spare.pop().unwrap_or_else(room);
        drop(state);

        // This rank's own part is copied before MPI gets the memory, while nobody else uses it.
        if to[me].len > 0 {
            recv.copy_from(from[me].at, &send, to[me].at, to[me].len)?;
        }
        let short = if on_host { messages::SHORT } else { 0 };
        let vectors = vectors.fill(&send, to, from, header_bytes, short);
        let job = Job { slot, group, sequence, header, send, recv, short, vectors };
        self.board.command(&mut self.board.state(), Command::Start(job));
        Ok(Ticket(slot))
    }

    fn test(&self, ticket: Ticket) -> Result<Option<Exchanged>> {
        let mut state = self.board.state();
        ended(&state)?;
        let slot = &mut state.slots[ticket.0];
        if !matches!(slot, JobSlot::Done(..)) {
            return Ok(None);
        }
        let JobSlot::Done(job, at) = std::mem::replace(slot, JobSlot::Free) else {
            unreachable!("the slot was just seen to be done")
        };
        state.free.push(ticket.0);
        state.spare.push(job.vectors);
        Ok(Some(Exchanged { send: job.send, recv: job.recv, at }))
    }

    fn wait(&self, wanted: Ticket, others: &[Ticket], mut deadline: Option<Instant>) -> Result {
        let mut state = self.board.state();
        let collective = match &state.slots[wanted.0] {
            JobSlot::UnderWay(collective) => Some(collective.clone()),
            JobSlot::Free | JobSlot::Done(..) => None,
        };
        state.waits(collective);
        let mut late = false;
        loop {
            ended(&state)?;
            let mut tickets = std::iter::once(&wanted).chain(others);
            if tickets.any(|ticket| matches!(state.slots[ticket.0], JobSlot::Done(..))) {
                state.acts(Activity::Computing);
                return Ok(());
            }
            let (next, in_time) = self.board.wait(state, deadline);
            state = next;
            match (in_time, late) {
                (true, _) => {}
                (false, false) => {
                    // The worker knows which ranks are missing, and ends the run.
                    self.board.command(&mut state, Command::Late(wanted.0));
                    (late, deadline) = (true, Instant::now().checked_add(STUCK));
                }
                (false, true) => {
                    let cause = self.limit(state.status.collective.clone(), Vec::new());
                    drop(state);
                    self.board.fail_alone(cause);
                    state = self.board.state();
                }
            }
        }
    }
}
