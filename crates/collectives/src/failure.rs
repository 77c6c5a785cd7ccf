//! Report of a failed run: the first cause, and what every rank was doing.

use crate::{CollectiveError, Label};
use std::fmt;
use std::time::Duration;

/// Failure of a run: the first error, and what every rank was doing at that moment. The ranks are not printed when the
/// cause lies [outside the program](CollectiveError::gave_up).
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
    /// First error of the run.
    pub cause: CollectiveError,
    /// What each rank was doing, in rank order. Empty if the ranks had not been started.
    pub ranks: Vec<RankStatus>,
}

/// What one rank was doing when the run failed.
#[derive(Clone, Debug)]
pub struct RankStatus {
    /// World rank.
    pub rank: usize,
    /// Host of the rank.
    pub host: usize,
    /// Phase that the rank had entered last.
    pub phase: Label,
    /// Whether the rank was computing, waiting or finished.
    pub activity: Activity,
    /// Collective that the rank was waiting in, or else had started last.
    pub collective: Option<CollectiveStatus>,
    /// Whether the rank reported this itself. If not, it comes from the status file of the rank.
    pub answers: bool,
}

/// Whether a rank was computing, waiting or finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The rank was outside any collective.
    Computing,
    /// The rank had been waiting in a collective for this time.
    Waiting(Duration),
    /// The body of the rank had returned.
    Finished,
    /// The body of the rank had returned an error or panicked.
    Failed,
    /// The rank did not answer, so its activity is unknown.
    Silent,
}

/// A collective that a rank has started.
#[derive(Clone, Debug)]
pub struct CollectiveStatus {
    /// Name of the collective.
    pub operation: &'static str,
    /// Label of the collective.
    pub label: Label,
    /// Number of the collective in its group, from 0.
    pub sequence: u64,
    /// Number of ranks in the group.
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
