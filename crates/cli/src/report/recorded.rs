//! A run as recorded in its folder.

use crate::folder::metrics::{BEST_AUC, Checkpoint, End, Eval, MetricsLine, Records, Resume, Start, Train};
use crate::folder::{self, CONFIG, METRICS, SCHEDULE};
use crate::text::median;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use training::metrics::METRICS as EVALUATION_METRICS;

/// Records and files of a run folder.
#[derive(Clone, Debug, Default)]
pub struct RecordedRun {
    /// The folder's name.
    pub name: String,
    /// The folder, as it was given.
    pub dir: PathBuf,
    /// Description of the run, recorded at its start.
    pub start: Option<Start>,
    /// Steps after which the run was resumed.
    pub resumes: Vec<Resume>,
    /// Records of training.
    pub trains: Vec<Train>,
    /// Evaluations.
    pub evals: Vec<Eval>,
    /// Checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    /// End of the run; `None` while it goes on, or when it was killed.
    pub end: Option<End>,
    /// Lines that are no known record.
    pub unknown: usize,
    /// Whether the last line is unfinished.
    pub torn: bool,
    /// Config of the run, as TOML.
    pub config: Option<String>,
    /// Schedule of one step, as text.
    pub schedule: Option<String>,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The run reached its last step.
    Finished,
    /// The run was asked to stop.
    Interrupted,
    /// The run still goes on, or was killed.
    NotFinished,
}

/// Results of a run, for tables and JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub dir: PathBuf,
    /// How far the run came.
    pub state: State,
    /// The network over the embeddings.
    pub model: Option<String>,
    /// Steps done.
    pub steps: u64,
    /// Samples seen.
    pub samples: u64,
    /// Metrics of the last evaluation by their JSON fields, with the best possible AUC where it is known.
    #[serde(flatten)]
    metrics: BTreeMap<&'static str, Option<f64>>,
    /// Mean loss of the last stretch of training.
    pub final_loss: Option<f64>,
    /// Samples a second.
    pub samples_per_s: Option<f64>,
    /// Seconds of training.
    pub seconds: Option<f64>,
    /// `real` or `paced`.
    pub compute: &'static str,
    /// Share of a step that waited for communication.
    pub exposed_share: Option<f64>,
    /// Digest of all parameters.
    pub parameters_sha256: Option<String>,
}

impl Results {
    /// The value of a metric in the last evaluation; `None` without one, or where the metric is undefined.
    pub fn metric(&self, field: &str) -> Option<f64> {
        self.metrics.get(field).copied().flatten()
    }
}

impl RecordedRun {
    /// Reads a run folder. Only its metrics must be there.
    pub fn load(dir: &Path) -> Result<Self> {
        let text = folder::read(&dir.join(METRICS)).with_context(|| {
            format!(
                "{}: this is not the folder of a run; give one that `campanile train --out` wrote",
                dir.display()
            )
        })?;
        let mut run = Self::of(Records::parse(&text));
        // The folder may be given as `.`, whose name is not in the path.
        let full = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        run.name = full.file_name().unwrap_or(full.as_os_str()).to_string_lossy().into_owned();
        if run.paced() {
            run.name.push_str(" (paced)");
        }
        run.dir = dir.to_owned();
        run.config = folder::read_if_there(&dir.join(CONFIG))?;
        run.schedule = folder::read_if_there(&dir.join(SCHEDULE))?;
        Ok(run)
    }

    fn of(records: Records) -> Self {
        let mut run = Self { unknown: records.unknown, torn: records.torn, ..Self::default() };
        for record in records.records {
            match record {
                MetricsLine::Start(start) => run.start = Some(start),
                MetricsLine::Resume(resume) => {
                    run.resumes.push(resume);
                    // It ended, but not for good.
                    run.end = None;
                }
                MetricsLine::Train(train) => run.trains.push(train),
                MetricsLine::Eval(eval) => run.evals.push(eval),
                MetricsLine::Checkpoint(checkpoint) => run.checkpoints.push(checkpoint),
                MetricsLine::End(end) => run.end = Some(end),
            }
        }
        run
    }

    /// Whether the run was paced: computations were only waited for.
    pub fn paced(&self) -> bool {
        self.start.as_ref().is_some_and(|start| start.compute == "paced")
    }

    /// How far the run came.
    pub fn state(&self) -> State {
        match &self.end {
            None => State::NotFinished,
            Some(end) if end.interrupted => State::Interrupted,
            Some(_) => State::Finished,
        }
    }

    /// Steps done, as far as the records tell.
    pub fn steps(&self) -> u64 {
        let ended = self.end.as_ref().map(|end| end.step);
        let trained = self.trains.last().map(|train| train.step);
        ended.or(trained).unwrap_or(0)
    }

    /// Steps since the start or the last resume: those that the phases of the end record cover.
    pub fn steps_of_last_sitting(&self) -> u64 {
        let before = self.resumes.last().map_or(0, |resume| resume.step);
        self.steps().saturating_sub(before)
    }

    /// Steps of the last sitting that the times of the end record are about.
    pub fn timed_steps(&self) -> u64 {
        let told = self.end.as_ref().and_then(|end| end.timed_steps);
        told.unwrap_or_else(|| self.steps_of_last_sitting()).max(1)
    }

    /// Training samples seen after `step` steps.
    pub fn samples_at(&self, step: u64) -> f64 {
        let after = self.trains.partition_point(|train| train.step <= step);
        match self.trains.get(..after).and_then(<[Train]>::last) {
            Some(train) if train.step == step => train.samples as f64,
            _ => step as f64 * self.start.as_ref().map_or(1.0, |start| start.batch as f64),
        }
    }

    /// Seconds of training over all sittings: each begins to count anew.
    fn seconds(&self) -> f64 {
        let last_of_sitting =
            |pair: &[Train]| if pair[1].seconds < pair[0].seconds { pair[0].seconds } else { 0.0 };
        let before: f64 = self.trains.windows(2).map(last_of_sitting).sum();
        before + self.trains.last().map_or(0.0, |train| train.seconds)
    }

    /// Results of the run so far.
    pub fn results(&self) -> Results {
        let eval = self.evals.last();
        let last = self.trains.last();
        let mut rates: Vec<f64> = self.trains.iter().map(|train| train.samples_per_s).collect();
        let typical = (!rates.is_empty()).then(|| median(&mut rates));
        let fields = EVALUATION_METRICS.iter().map(|metric| metric.field).chain([BEST_AUC]);
        let metrics = fields.map(|field| (field, eval.and_then(|eval| eval.metrics.get(field))));
        Results {
            name: self.name.clone(),
            dir: self.dir.clone(),
            state: self.state(),
            model: self.start.as_ref().map(|start| start.model.clone()),
            steps: self.steps(),
            samples: last.map_or(0, |train| train.samples),
            metrics: metrics.collect(),
            final_loss: last.map(|train| train.loss).filter(|_| !self.paced()),
            samples_per_s: self.end.as_ref().map(|end| end.samples_per_s).or(typical),
            seconds: last.map(|_| self.seconds()),
            compute: if self.paced() { "paced" } else { "real" },
            exposed_share: self.end.as_ref().and_then(|end| end.step_time).map(|time| time.exposed_share),
            parameters_sha256: self.end.as_ref().and_then(|end| end.parameters_sha256.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
