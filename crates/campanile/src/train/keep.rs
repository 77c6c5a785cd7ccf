//! Keeps a run: what it is, what happens in it, and what it came to, in its folder.

use super::warm_start::WarmStarted;
use crate::control::Control;
use crate::folder::{
    self, CONFIG, FolderError, RunFolder, SCHEDULE, SCHEDULE_JSON, SUMMARY, VOCABULARIES, metrics,
};
use crate::logs::{self, OpenLogs};
use crate::resume::Resumed;
use crate::summary;
use data::prepare::{self, TRANSFORMS};
use metrics::MetricsLine;
use spec::run::{Config, Run};
use spec::schedule::Task;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;
use training::{Cluster, Event, Outcome, Progress};

/// The folder of a run that goes on.
pub struct Keeper {
    folder: Mutex<RunFolder>,
    path: PathBuf,
    /// Weights of another run that this one began with.
    warm_start: Option<WarmStarted>,
    /// The first record that could not be written: the run's result is worth more than its metrics.
    failed: Mutex<Option<FolderError>>,
}

impl Keeper {
    /// A folder for a new run at `out`, or the one that `resumed` goes on in.
    pub fn open(out: &Path, resumed: Option<&Resumed>) -> Result<Self, FolderError> {
        let folder = match resumed {
            Some(resumed) if resumed.is_in(out) => {
                RunFolder::resume(out, resumed.checkpoint.as_ref().map(|_| resumed.step()))?
            }
            _ => RunFolder::create(out)?,
        };
        let path = folder.path().to_owned();
        Ok(Self { folder: Mutex::new(folder), path, warm_start: None, failed: Mutex::new(None) })
    }

    /// Writes down what is about to run.
    pub fn begin(&mut self, beginning: &Beginning) -> Result<(), FolderError> {
        let Beginning { run, explicit, logs, resumed, cluster, paced, warm_start } = *beginning;
        self.warm_start = warm_start.cloned();
        let schedule = run.schedule(Task::Train);
        let folder = self.folder.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let config = toml::to_string_pretty(explicit);
        folder.write_text(CONFIG, &config.map_err(|e| not_text("the config as TOML", e))?)?;
        folder.write_text(SCHEDULE, &crate::schedule::to_text(run, &schedule))?;
        let json = crate::schedule::to_json(&schedule, run.batch, explicit);
        folder.write_text(SCHEDULE_JSON, &json.to_string())?;
        if let Some(log) = logs.train() {
            keep_learnt(log, folder.path())?;
        }
        let time = crate::folder::clock::rfc3339(SystemTime::now());
        let resumed = resumed.filter(|resumed| resumed.checkpoint.is_some());
        if let Some(resumed) = resumed.filter(|resumed| resumed.is_in(folder.path())) {
            return folder.record(&MetricsLine::Resume(metrics::Resume { time, step: resumed.step() }));
        }
        folder.record(&MetricsLine::Start(metrics::Start {
            time,
            version: env!("CARGO_PKG_VERSION").into(),
            model: run.model.kind().into(),
            parameters: run.model.parameters(),
            hosts: run.topology().hosts() as u64,
            ranks_per_host: run.topology().ranks_per_host() as u64,
            threads_per_rank: training::threads(run, cluster) as u64,
            batch: run.batch as u64,
            steps: run.steps,
            samples: run.data.samples(),
            eval_samples: run.data.eval_samples(),
            seed: run.seed,
            data: logs.train().map_or("synthetic log".into(), |log| logs::described(log.manifest())),
            dataflow: crate::dataflow::of_run(run),
            compute: if paced { "paced" } else { "real" }.into(),
            command: std::env::args().collect(),
        }))
    }

    /// Writes down what happened.
    pub fn observe(&self, event: Event) {
        let Some(record) = record(event) else { return };
        let mut folder = self.folder.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Err(error) = folder.record(&record) {
            self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    }

    /// Writes down what the run came to, and lets the caller add what it has to.
    pub fn end(self, run: &Run, outcome: &Outcome, control: &Control) -> Result<(), FolderError> {
        let mut folder = self.folder.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(error) = self.failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Err(FolderError::Metrics(Box::new(error)));
        }
        folder.record(&MetricsLine::End(end(run, outcome)))?;
        folder.write_text(
            SUMMARY,
            &format!("{:#}\n", summary::to_json(run, outcome, self.warm_start.as_ref())),
        )?;
        control.finish(&self.path).map_err(FolderError::Finish)
    }
}

/// What is about to run.
#[derive(Clone, Copy)]
pub struct Beginning<'a> {
    /// The run.
    pub run: &'a Run,
    /// The config, with every default written out.
    pub explicit: &'a Config,
    /// Samples of the run.
    pub logs: &'a OpenLogs,
    /// The run that goes on.
    pub resumed: Option<&'a Resumed>,
    /// Ranks of the run.
    pub cluster: &'a Cluster,
    /// Whether computations are only waited for.
    pub paced: bool,
    /// Weights of another run that this one begins with.
    pub warm_start: Option<&'a WarmStarted>,
}

fn not_text(what: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> FolderError {
    FolderError::Text { what, source: Box::new(error) }
}

/// The vocabularies, the texts of their ids and the learnt transforms go with the run: whoever evaluates it needs them.
fn keep_learnt(log: &data::prepared::PreparedLog, folder: &Path) -> Result<(), FolderError> {
    let to = folder.join(VOCABULARIES);
    let manifest = log.manifest();
    if manifest.vocabularies.is_empty() && manifest.transforms.is_none() {
        return Ok(());
    }
    std::fs::create_dir_all(&to).map_err(|source| FolderError::Vocabularies { path: to.clone(), source })?;
    for (feature, name) in &manifest.vocabularies {
        // Logs of older versions have no texts.
        let texts = Path::new(name).with_extension("csv");
        let texts = Some(texts).filter(|texts| log.folder().join(texts).is_file());
        for name in [Some(PathBuf::from(name)), texts].into_iter().flatten() {
            let from = log.folder().join(&name);
            std::fs::copy(&from, to.join(&name)).map_err(|source| FolderError::Vocabulary {
                path: from.clone(),
                feature: feature.clone(),
                source,
            })?;
        }
    }
    if let Some(transforms) = &manifest.transforms {
        let text =
            prepare::transforms_text(transforms).map_err(|e| not_text("the learnt transforms as JSON", e))?;
        let path = to.join(TRANSFORMS);
        std::fs::write(&path, text).map_err(|source| FolderError::Transforms { path, source })?;
    }
    Ok(())
}

fn record(event: Event) -> Option<MetricsLine> {
    Some(match event {
        Event::Training(Progress {
            step,
            samples,
            epoch_samples,
            loss,
            auc,
            samples_per_s,
            seconds,
            rates,
            cache,
            ..
        }) => MetricsLine::Train(metrics::Train {
            step,
            epoch: samples as f64 / epoch_samples.max(1) as f64,
            samples,
            loss,
            auc,
            samples_per_s,
            seconds,
            rate_dense: f64::from(rates.0),
            rate_tables: f64::from(rates.1),
            cache: cache.as_ref().map(metrics::Cache::of),
        }),
        Event::Evaluating { .. } | Event::NotCompacted { .. } => return None,
        Event::Evaluated { step, scores } => MetricsLine::Eval(metrics::Eval::of_scores(step, scores)),
        Event::Saved { step, path, bytes, base, copy_s, write_s } => {
            MetricsLine::Checkpoint(metrics::Checkpoint {
                step,
                path: path.display().to_string(),
                bytes,
                base,
                copy_s,
                write_s,
            })
        }
    })
}

fn end(run: &Run, outcome: &Outcome) -> metrics::End {
    metrics::End {
        step: outcome.steps,
        seconds: outcome.seconds,
        samples_per_s: outcome.samples_per_s(),
        interrupted: outcome.interrupted,
        parameters_sha256: outcome.parameters_sha256.clone(),
        best: outcome.best.as_ref().map(|best| metrics::Best {
            metric: best.metric.to_string(),
            label: best.label.clone(),
            value: best.evaluation.value,
            step: best.evaluation.step,
            epoch: best.epoch,
            checkpoint: best.checkpoint.as_ref().map(|path| path.display().to_string()),
        }),
        stopped_early: summary::why_stopped(outcome),
        step_time: outcome.step_time().map(metrics::StepTime::from),
        timed_steps: (outcome.timed < outcome.trained).then_some(outcome.timed),
        phases: outcome.phases.iter().map(metrics::Phase::from).collect(),
        placement: folder::outcome::placement(run),
        threads_per_rank: outcome.threads as u64,
    }
}
