//! Session: how a run is executed (cluster, observer, checkpoints, pacing).

use crate::Error;
use crate::checkpoint::{Checkpoint, TakenWeights};
use crate::run::cluster::Cluster;
use crate::run::event::Event;
use crate::samples::source::Source;
use data::Split;
use spec::pace::Pace;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Session of a run: how it is executed, in addition to the run itself.
pub struct Session<'a> {
    /// Cluster on which the run is executed.
    pub cluster: &'a Cluster,
    /// Called by rank 0 with every event of the run.
    pub observe: &'a (dyn Fn(Event) + Sync),
    /// Once set, the run saves its state and ends after the current step.
    pub stop: Option<&'a AtomicBool>,
    /// Folder of the checkpoints; `None` to write none.
    pub checkpoints: Option<Saving>,
    /// The checkpoint that the run goes on from.
    pub resume: Option<&'a Checkpoint>,
    /// Weights of another run's checkpoint that a new run begins with; a resumed run has them already.
    pub warm_start: Option<(&'a Checkpoint, &'a TakenWeights)>,
    /// Whether computations are made, or only waited for.
    pub compute: Compute<'a>,
    /// Steps at the beginning whose times do not count.
    pub warm_up: u64,
    /// Steps between two reports of losses and speed; by default about a hundred reports are made.
    pub report_every: Option<u64>,
    /// Number of steps at the end of the run whose phases are recorded as a timeline.
    pub trace_steps: Option<u64>,
}

/// Folder of the checkpoints of a run, and the config that they keep.
#[derive(Clone, Debug)]
pub struct Saving {
    /// The folder of checkpoints.
    pub root: PathBuf,
    /// The run's config, kept in every checkpoint.
    pub run: serde_json::Value,
}

/// Whether a run computes, or waits for as long as computing would take.
#[derive(Clone, Copy, Debug, Default)]
pub enum Compute<'a> {
    /// Every computation is made.
    #[default]
    Real,
    /// No computation is made: each phase lasts as long as the pace says.
    Paced(&'a Pace),
}

impl Default for Session<'_> {
    fn default() -> Self {
        Self {
            cluster: &Cluster::Threads,
            observe: &|_| (),
            stop: None,
            checkpoints: None,
            resume: None,
            warm_start: None,
            compute: Compute::Real,
            warm_up: 0,
            report_every: None,
            trace_steps: None,
        }
    }
}

impl Session<'_> {
    /// Whether computations are only waited for.
    pub(crate) fn paced(&self) -> bool {
        matches!(self.compute, Compute::Paced(_))
    }
}

/// Gives a rank its samples of a split; called once per rank and use.
pub type Sources<'a> = dyn Fn(Split) -> Result<Source, Error> + Sync + 'a;
