//! Keeps a run: what it is, what happens in it, and what it came to, in its folder.

use super::resume::Resumed;
use crate::folder::{self, CONFIG, RunFolder, SCHEDULE, SCHEDULE_JSON, SUMMARY, VOCABULARIES, metrics};
use crate::logs::{self, OpenLogs};
use crate::report;
use anyhow::{Context, Result};
use metrics::Record;
use spec::run::{Config, Run};
use spec::schedule::Task;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;
use training::{Cluster, Event, Outcome, Progress, Scores};

/// The folder of a run that goes on.
pub struct Keeper {
    folder: Mutex<RunFolder>,
    path: PathBuf,
    checkpoints: PathBuf,
    /// The first record that could not be written: the run's result is worth more than its metrics.
    failed: Mutex<Option<anyhow::Error>>,
}

impl Keeper {
    /// A folder for a new run at `out`, or the one that `resumed` goes on in.
    pub fn open(out: &Path, resumed: Option<&Resumed>) -> Result<Self> {
        let folder = match resumed {
            Some(resumed) if resumed.is_in(out) => {
                RunFolder::resume(out, resumed.checkpoint.as_ref().map(|_| resumed.step()))?
            }
            _ => RunFolder::create(out)?,
        };
        let (path, checkpoints) = (folder.path().to_owned(), folder.checkpoints());
        Ok(Self { folder: Mutex::new(folder), path, checkpoints, failed: Mutex::new(None) })
    }

    /// Where checkpoints go.
    pub fn checkpoints(&self) -> PathBuf {
        self.checkpoints.clone()
    }

    /// Writes down what is about to run.
    pub fn begin(
        &mut self,
        run: &Run,
        explicit: &Config,
        logs: &OpenLogs,
        resumed: Option<&Resumed>,
        cluster: &Cluster,
        paced: bool,
    ) -> Result<()> {
        let schedule = run.schedule(Task::Train);
        let folder = self.folder.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        folder.write_text(CONFIG, &toml::to_string_pretty(explicit).context("the config as TOML")?)?;
        folder.write_text(SCHEDULE, &crate::schedule::to_text(run, &schedule))?;
        let json = crate::schedule::to_json(&schedule, run.batch, explicit);
        folder.write_text(SCHEDULE_JSON, &json.to_string())?;
        if let Some(log) = logs.train() {
            keep_vocabularies(log, folder.path())?;
        }
        let time = crate::folder::clock::rfc3339(SystemTime::now());
        let resumed = resumed.filter(|resumed| resumed.checkpoint.is_some());
        if let Some(resumed) = resumed.filter(|resumed| resumed.is_in(folder.path())) {
            return folder.record(&Record::Resume(metrics::Resume { time, step: resumed.step() }));
        }
        folder.record(&Record::Start(metrics::Start {
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

    /// Writes down what the run came to, and makes its report.
    pub fn end(self, run: &Run, outcome: &Outcome, result: &serde_json::Value) -> Result<()> {
        let mut folder = self.folder.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(error) = self.failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Err(error.context("the run is done, but not all of its metrics are kept"));
        }
        folder.record(&Record::End(end(run, outcome)))?;
        folder.write_text(SUMMARY, &format!("{result:#}\n"))?;
        report::write_report(&self.path)?;
        Ok(())
    }
}

/// The vocabularies go with the run: whoever evaluates it needs them.
fn keep_vocabularies(log: &data::prepared::PreparedLog, folder: &Path) -> Result<()> {
    let to = folder.join(VOCABULARIES);
    for (feature, name) in &log.manifest().vocabularies {
        std::fs::create_dir_all(&to).with_context(|| format!("{}: cannot be made", to.display()))?;
        let from = log.folder().join(name);
        std::fs::copy(&from, to.join(name))
            .with_context(|| format!("{}: the vocabulary of {feature} cannot be copied", from.display()))?;
    }
    Ok(())
}

fn record(event: Event) -> Option<Record> {
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
            ..
        }) => Record::Train(metrics::Train {
            step,
            epoch: samples as f64 / epoch_samples.max(1) as f64,
            samples,
            loss,
            auc,
            samples_per_s,
            seconds,
            rate_dense: f64::from(rates.0),
            rate_tables: f64::from(rates.1),
        }),
        Event::Evaluating { .. } => return None,
        Event::Evaluated { step, scores } => {
            let Scores { evaluation, bins, best_auc } = scores;
            Record::Eval(metrics::Eval::of(step, evaluation, *best_auc, bins))
        }
        Event::Saved { step, path, bytes, copy_s, write_s } => Record::Checkpoint(metrics::Checkpoint {
            step,
            path: path.display().to_string(),
            bytes,
            copy_s,
            write_s,
        }),
    })
}

fn end(run: &Run, outcome: &Outcome) -> metrics::End {
    metrics::End {
        step: outcome.steps,
        seconds: outcome.seconds,
        samples_per_s: outcome.samples_per_s(),
        interrupted: outcome.interrupted,
        parameters_sha256: outcome.parameters_sha256.clone(),
        step_time: outcome.step_time().map(metrics::StepTime::from),
        timed_steps: (outcome.timed < outcome.trained).then_some(outcome.timed),
        phases: outcome.phases.iter().map(metrics::Phase::from).collect(),
        placement: folder::outcome::placement(run),
        threads_per_rank: outcome.threads as u64,
    }
}
