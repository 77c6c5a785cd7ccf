//! A run that is ready to be trained.

use super::keep::{Beginning, Keeper};
use super::warm_start::{WarmStart, WarmStarted};
use super::{ComputeMode, TrainError, Trained, Training};
use crate::Error;
use crate::checkpoint::SavedRun;
use crate::cluster;
use crate::error::chain;
use crate::event::{Event, Notice, Unit};
use crate::folder::CHECKPOINTS;
use crate::logs::OpenLogs;
use crate::output::Output;
use crate::resume::Resumed;
use spec::pace::Pace;
use spec::run::{Config, Run};
use std::path::Path;
use training::{Compute, Outcome, Saving, Session, Trace};

/// A run that was checked with its logs, and is ready to be trained.
pub struct OpenTraining {
    pub(super) asked: Training,
    pub(super) run: Run,
    pub(super) explicit: Config,
    pub(super) logs: OpenLogs,
    pub(super) keeper: Option<Keeper>,
    pub(super) trace: Option<Output>,
    pub(super) warm_start: Option<WarmStart>,
}

impl OpenTraining {
    /// The checked run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The config as it was asked for.
    pub fn config(&self) -> &Config {
        &self.asked.config
    }

    /// The logs of the run.
    pub fn logs(&self) -> &OpenLogs {
        &self.logs
    }

    /// The run that goes on.
    pub fn resumed(&self) -> Option<&Resumed> {
        self.asked.resumed.as_ref()
    }

    /// Weights of another run that this one begins with.
    pub fn warm_start(&self) -> Option<&WarmStarted> {
        self.warm_start.as_ref().map(|warm_start| &warm_start.report)
    }

    /// Whether rank 0 is in this process, which reports for all.
    pub fn has_first_rank(&self) -> bool {
        self.asked.cluster.has_first_rank()
    }

    /// Trains the run, and keeps it where it has a folder.
    pub fn train(mut self) -> Result<Trained, Error> {
        self.check_warm_up()?;
        let asked = &mut self.asked;
        if cluster::is_distributed(&asked.cluster) && asked.compute == ComputeMode::Paced {
            return Err(TrainError::PacedProcesses.into());
        }
        let pace = asked.compute.pace(&self.run, &self.logs, &asked.control)?;
        if asked.goes_on() {
            self.keeper = asked.keeper()?;
            if let Some(resumed) = asked.resumed.as_ref().filter(|_| asked.cluster.has_first_rank()) {
                resumed.set_damaged_aside(&asked.control)?;
            }
        }
        let saving = self.saving(pace.is_some())?;
        if cluster::is_distributed(&self.asked.cluster) {
            let identity = self.identity(pace.as_ref(), saving.as_ref())?;
            cluster::agree_on(&mut self.asked.cluster, &identity)?;
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.begin(&Beginning {
                run: &self.run,
                explicit: &self.explicit,
                logs: &self.logs,
                resumed: self.asked.resumed.as_ref(),
                cluster: &self.asked.cluster,
                paced: pace.is_some(),
                warm_start: self.warm_start.as_ref().map(|warm_start| &warm_start.report),
            })?;
        }
        let outcome = self.train_on_ranks(pace.as_ref(), saving)?;
        self.finish(outcome)
    }

    pub(super) fn check_warm_up(&self) -> Result<(), TrainError> {
        let steps = self.run.steps;
        let left = steps - self.asked.resumed.as_ref().map_or(0, Resumed::step).min(steps);
        match self.asked.warm_up {
            0 => Ok(()),
            warm_up if warm_up < left => Ok(()),
            warm_up => Err(TrainError::WarmUp { warm_up, left }),
        }
    }

    /// Where checkpoints go, on every rank.
    fn saving(&self, paced: bool) -> Result<Option<Saving>, Error> {
        let Some(out) = self.asked.out.as_ref().filter(|_| !paced) else { return Ok(None) };
        let written = self.asked.written.as_ref().unwrap_or(&self.asked.config.optimizer);
        let run = SavedRun::value(&self.explicit, written, &self.logs)?;
        Ok(Some(Saving { root: out.join(CHECKPOINTS), run }))
    }

    /// What all ranks of the run must have been started with, line by line.
    fn identity(&self, pace: Option<&Pace>, saving: Option<&Saving>) -> Result<String, TrainError> {
        let asked = &self.asked;
        let mut identity = toml::to_string_pretty(&self.explicit)
            .map_err(|source| TrainError::Text { what: "the config as TOML", source: Box::new(source) })?;
        let traced = asked.trace.as_ref().map_or(0, |trace| trace.steps);
        identity += &format!("{} steps not timed, {traced} traced\n", asked.warm_up);
        identity += &format!("reports every {:?} steps\n", asked.report_every);
        for (split, samples) in self.logs.fingerprints() {
            identity += &format!("samples to {split} on: {samples}\n");
        }
        if let Some(pace) = pace {
            let text = serde_json::to_string(pace).map_err(TrainError::text("the pace as JSON"))?;
            identity += &format!("paced: {text}\n");
        }
        if let Some(saving) = saving {
            identity += &format!("checkpoints in {}\n", saving.root.display());
        }
        if let Some(WarmStarted { path, step, taken, .. }) = self.warm_start() {
            identity += &format!("warm start from {}, step {step}, {taken} taken\n", path.display());
        }
        if let Some(resumed) = &asked.resumed {
            identity += &format!("resumed after step {}\n", resumed.step());
        }
        Ok(identity)
    }

    /// Trains, and tells the observer and the folder what happens.
    fn train_on_ranks(&self, pace: Option<&Pace>, saving: Option<Saving>) -> Result<Outcome, Error> {
        let asked = &self.asked;
        let control = cluster::control_of(&asked.cluster, &asked.control);
        let title = asked.title.as_deref().unwrap_or("training");
        let working = control.start(title, self.run.steps, Unit::Count("steps"));
        let observe = |event: training::Event| {
            control.tell(told(event, pace.is_some()));
            if let Some(keeper) = &self.keeper {
                keeper.observe(event);
            }
        };
        let session = Session {
            cluster: &asked.cluster,
            observe: &observe,
            stop: Some(asked.control.stop_flag()),
            checkpoints: saving,
            resume: asked.resumed.as_ref().and_then(|resumed| resumed.checkpoint.as_ref()),
            warm_start: self
                .warm_start
                .as_ref()
                .map(|warm_start| (&warm_start.checkpoint, &warm_start.taken)),
            compute: pace.map_or(Compute::Real, Compute::Paced),
            warm_up: asked.warm_up,
            report_every: asked.report_every,
            trace_steps: asked.trace.as_ref().map(|trace| trace.steps),
        };
        let trained = training::train(&self.run, &self.logs.logs, &session);
        drop(working);
        trained.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: training::Error) -> Error {
        let error = self.asked.with_remedies(&self.run, error);
        match &self.asked.title {
            None => error,
            Some(title) => Error::OneOfSeveral { title: title.clone(), source: Box::new(error) },
        }
    }

    /// Keeps the result and the trace.
    fn finish(self, outcome: Outcome) -> Result<Trained, Error> {
        let Self { asked, run, keeper, trace, warm_start, .. } = self;
        let has_first_rank = asked.cluster.has_first_rank();
        let left = asked.cluster.leave();
        let traced = trace.as_ref().zip(outcome.trace.as_ref());
        let traced = traced.map_or(Ok(()), |(output, trace)| write_trace(output, trace));
        let kept = keeper.map_or(Ok(()), |keeper| keeper.end(&run, &outcome, &asked.control));
        let warm_start = warm_start.map(|warm_start| warm_start.report);
        let trained = Trained { run, outcome, folder: asked.out, warm_start, has_first_rank };
        match kept.map_err(Error::from).and(traced).and(left.map_err(Error::from)) {
            Ok(()) => Ok(trained),
            Err(error) => Err(Error::NotKept { trained: Box::new(trained), source: Box::new(error) }),
        }
    }
}

impl Trained {
    /// Folder in which the run is kept.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

fn write_trace(output: &Output, trace: &Trace) -> Result<(), Error> {
    let text = serde_json::to_string(&trace.to_json()).map_err(TrainError::text("the trace as JSON"))?;
    Ok(output.write(text.as_bytes())?)
}

/// An event of the trainer as one of the library.
fn told(event: training::Event, paced: bool) -> Event {
    match event {
        training::Event::Training(progress) => Event::Training { progress, paced },
        training::Event::Evaluating { samples } => Event::Evaluating { samples },
        training::Event::Evaluated { step, scores } => {
            Event::Evaluated { step, scores: Box::new(scores.clone()) }
        }
        training::Event::NotCompacted { error } => Event::Noticed(Notice::Damaged {
            why: format!(
                "increments could not be brought together with their base, and the next checkpoint is full: {}",
                chain(error)
            ),
        }),
        training::Event::Saved { step, path, bytes, .. } => {
            Event::Saved { step, path: path.to_owned(), bytes }
        }
    }
}
