//! Outcome of a run: losses, scores, times, bytes.

use crate::cache::CacheCounts;
use crate::run::best::BestEvaluation;
use crate::run::memory::MemoryNeed;
use crate::run::scores::Scores;
use crate::step::phases::{PhaseReport, StepTime};
use crate::step::trace::Trace;
use spec::run::MetricName;
use spec::volume::LinkBytes;
use std::path::PathBuf;

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Steps done, those before a resumed checkpoint included.
    pub steps: u64,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Evaluations without a better value after which the run stopped before its last step; `None` where it did not.
    pub stopped_early: Option<u64>,
    /// The best state of the run, where it was looked for and found.
    pub best: Option<KeptBest>,
    /// Steps of this session.
    pub trained: u64,
    /// Steps of this session that samples, seconds and phases are about: all but the steps of the warm-up.
    pub timed: u64,
    /// Whether computations were only waited for: then there are no losses, no scores and no digest.
    pub paced: bool,
    /// Mean loss of every step of this session; empty for a paced run.
    pub losses: Vec<f64>,
    /// The model on the evaluation samples; `None` when there are none, or when the run was stopped.
    pub scores: Option<Scores>,
    /// Training samples of the steps that were timed.
    pub samples: u64,
    /// Seconds of training, without set-up and evaluation.
    pub seconds: f64,
    /// Digest of all parameters, the same wherever they were trained; `None` for a paced run.
    pub parameters_sha256: Option<String>,
    /// Times of each phase; on rank 0 only, empty on other ranks.
    pub phases: Vec<PhaseReport>,
    /// CPU seconds of the threads that read batches ahead, in the steps that were timed; mean over ranks.
    pub reading_s: f64,
    /// Bytes that all ranks sent, for whatever purpose.
    pub sent: LinkBytes,
    /// What tables larger than memory did in the steps that were timed, over all ranks; `None` where all tables are in memory.
    pub cache: Option<CacheCounts>,
    /// Threads of each rank.
    pub threads: usize,
    /// When the phases of the last steps ran, where that was recorded.
    pub trace: Option<Trace>,
    /// Memory that the run was expected to need on this machine; `None` where ranks ran already.
    pub memory: Option<MemoryNeed>,
}

/// The best state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptBest {
    /// Metric that decided.
    pub metric: MetricName,
    /// Name of the metric in texts, such as `AUC`.
    pub label: String,
    /// Step, value and all metrics of the best evaluation.
    pub evaluation: BestEvaluation,
    /// Passes over the training samples at that step.
    pub epoch: f64,
    /// Value of the metric for the last state; `None` where it was not evaluated or the metric is undefined.
    pub last: Option<f64>,
    /// Folder of the checkpoint; `None` where none is kept, and on other ranks than 0.
    pub checkpoint: Option<PathBuf>,
}

impl Outcome {
    /// Training samples a second; 0 when nothing was left to train.
    pub fn samples_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.samples as f64 / self.seconds } else { 0.0 }
    }

    /// Breakdown of the time of a step; `None` if there was nothing left to train.
    pub fn step_time(&self) -> Option<StepTime> {
        StepTime::of(&self.phases, self.seconds, self.timed)
    }

    /// The AUC on the evaluation samples, where there are some of both labels.
    pub fn auc(&self) -> Option<f64> {
        self.scores.as_ref().and_then(|scores| scores.evaluation.auc)
    }
}
