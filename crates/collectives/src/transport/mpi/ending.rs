//! The end of a failed run on all ranks: a rank that learns of the failure tells all others, with its own status. After a
//! moment each rank has the status of all ranks, and reports it.

use super::messages::Message;
use super::worker::Worker;
use crate::{CollectiveError, Failure};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for the status of the other ranks.
const GRACE: Duration = Duration::from_secs(2);
/// How long a rank may take to notice that the run has ended, before `MPI_Abort` ends all processes. Most launchers do that
/// as soon as one process has exited with an error.
const LAST: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(1);

impl Worker {
    /// Ends the run because of `cause`. MPI is not finalized: the process must exit with an error code.
    pub(super) fn end(mut self, cause: CollectiveError) {
        let (origin, text) = match &cause {
            CollectiveError::Elsewhere { rank, message, .. } => (*rank, message.clone()),
            own => (self.rank, own.to_string()),
        };
        let status = self.board.status();
        self.heard[self.rank] = Some(status.clone());
        // From here on, further errors are ignored: the run has its cause.
        let _ = self.control.tell(&Message::Ended { origin, cause: text, gave_up: cause.gave_up(), status });
        // Read now: ranks that end at the same time, but cannot reach this one, will later have removed their files.
        let silent: Vec<_> = (0..self.heard.len()).map(|rank| self.board.silent(rank)).collect();
        let begun = Instant::now();
        while begun.elapsed() < GRACE {
            self.hear();
            let told = self.control.is_told(&mut self.tester).unwrap_or(true);
            if told && self.heard.iter().all(Option::is_some) {
                break;
            }
            thread::sleep(NAP);
        }
        let ranks = self.heard.iter_mut().zip(silent).map(|(heard, silent)| heard.take().unwrap_or(silent));
        let failure = Failure { cause, ranks: ranks.collect() };
        let report = failure.to_string();
        self.board.fail(failure);
        let begun = Instant::now();
        while !self.board.is_closed() {
            if begun.elapsed() > LAST {
                eprintln!(
                    "rank {} has not noticed within {LAST:?} that the run has ended:\n{report}",
                    self.rank
                );
                return self.groups[0].comm.abort();
            }
            self.hear();
            thread::sleep(NAP);
        }
    }

    fn hear(&mut self) {
        if let Ok(Some(Message::Ended { status, .. })) = self.control.listen(&mut self.tester) {
            let from = status.rank;
            self.heard[from] = Some(status);
        }
    }
}
