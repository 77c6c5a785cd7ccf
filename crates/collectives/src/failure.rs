//! How a run ended that did not end well.

use crate::{CollectiveError, Label};
use std::fmt;
use std::time::Duration;

/// The first thing that went wrong, and where every rank was at that moment. Where ranks were is not printed when one of
/// them [gave up](CollectiveError::gave_up) for a reason that is not of this program.
///
/// ```text
/// rank 2 on host 1 panicked in phase `lookup`: index out of bounds
///   rank 0 on host 0, phase `exchange`: waiting for 12.1ms in all_to_all #7 of 4 ranks (`pooled`)
///   rank 1 on host 0, phase `bottom mlp`: computing; last started all_to_all #7 of 4 ranks (`pooled`)
///   rank 2 on host 1, phase `lookup`: failed; last started all_to_all #6 of 4 ranks (`ids`)
///   …
/// ```
#[derive(Clone, Debug, thiserror::Error)]
pub struct Failure {
    /// What went wrong first.
    pub cause: CollectiveError,
    /// Where each rank was, in rank order.
    pub ranks: Vec<RankStatus>,
}

/// What one rank was doing.
#[derive(Clone, Debug)]
pub struct RankStatus {
    /// The rank.
    pub rank: usize,
    /// Its host.
    pub host: usize,
    /// The phase it had entered last.
    pub phase: Label,
    /// What it was doing there.
    pub activity: Activity,
    /// The collective it was waiting in, or else had started last.
    pub collective: Option<CollectiveStatus>,
    /// Whether the rank said so itself. If not, all this is what it had left in its status file.
    pub answers: bool,
}

/// Whether a rank was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Outside any collective.
    Computing,
    /// In a collective, for so long.
    Waiting(Duration),
    /// It had returned.
    Finished,
    /// It had returned an error or panicked.
    Failed,
    /// Unknown: it did not answer.
    Silent,
}

/// A collective that a rank has started.
#[derive(Clone, Debug)]
pub struct CollectiveStatus {
    /// The collective.
    pub operation: &'static str,
    /// Its label.
    pub label: Label,
    /// Its number in its group, from 0.
    pub sequence: u64,
    /// Ranks in its group.
    pub size: usize,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if self.cause.gave_up() {
            return Ok(());
        }
        self.ranks.iter().try_for_each(|rank| write!(f, "\n  {rank}"))
    }
}

impl fmt::Display for RankStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.activity == Activity::Silent {
            return write!(f, "rank {} on host {} does not answer", self.rank, self.host);
        }
        write!(f, "rank {} on host {}, phase `{}`: ", self.rank, self.host, self.phase)?;
        let before = match self.activity {
            Activity::Waiting(time) => {
                write!(f, "waiting for {time:.1?}")?;
                " in"
            }
            Activity::Computing | Activity::Silent => {
                write!(f, "computing")?;
                "; last started"
            }
            Activity::Finished => {
                write!(f, "finished")?;
                "; last started"
            }
            Activity::Failed => {
                write!(f, "failed")?;
                "; last started"
            }
        };
        match &self.collective {
            Some(collective) => write!(f, "{before} {collective}")?,
            None => write!(f, "; no collective started")?,
        }
        if self.answers { Ok(()) } else { write!(f, " (from its status file; it does not answer)") }
    }
}

impl fmt::Display for CollectiveStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{} of {} ranks (`{}`)", self.operation, self.sequence, self.size, self.label)
    }
}
