//! One trial of a sweep: its settings, and its training up to the end of a rung.

use super::{Request, Space, SweepError};
use crate::cluster::ClusterError;
use crate::control::Control;
use crate::error::chain;
use crate::file::FileError;
use crate::logs::OpenLogs;
use crate::resume::Resumed;
use crate::{Config, Error, Trained, Training};
use spec::run::{KeepBest, MetricName};
use std::fs;
use std::path::Path;
use toml::{Table, Value};
use training::Cluster;
use training::metrics::Metric;

/// One trial: a config in which settings have values of their own.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Number of the trial, from 1.
    pub number: usize,
    /// Keys and values of the settings that vary.
    pub settings: Vec<(String, Value)>,
    /// Config of the trial.
    pub config: Config,
}

impl Trial {
    /// All trials of a request. A key that no config has, or a value of another type, is an error that names the trial.
    pub fn all(request: &Request, space: &Space) -> Result<Vec<Self>, SweepError> {
        let base = Table::try_from(&request.config).map_err(SweepError::Toml)?;
        let seed = request.config.train.seed.unwrap_or(0);
        let values = space.trials(request.trials, seed)?;
        let trial = |(at, values): (usize, Vec<Value>)| {
            let table = space.applied(&base, &values)?;
            let keys = space.settings().iter().map(|setting| setting.key().to_owned());
            let settings: Vec<(String, Value)> = keys.zip(values).collect();
            let number = at + 1;
            // As text, by the one reader of configs: another for values would be compiled for all types of a config again.
            let text = toml::to_string(&table).map_err(SweepError::Toml)?;
            let config = toml::from_str(&text).map_err(|error| SweepError::Trial {
                trial: number,
                settings: shown(&settings),
                problem: error.message().trim().replace('\n', " "),
            })?;
            Ok(Self { number, settings, config })
        };
        values.into_iter().enumerate().map(trial).collect()
    }

    /// Settings in a line, as `model.dim = 8, train.batch = 64`.
    pub fn shown(&self) -> String {
        shown(&self.settings)
    }

    /// The trial's whole run on `logs`. Where it keeps its best state, `metric` decides, unless the config says otherwise.
    pub fn planned(&self, logs: &OpenLogs, metric: &Metric) -> Result<Planned, SweepError> {
        let mut config = self.config.clone();
        config.checkpoint.keep.get_or_insert(1);
        let run = logs.check(&config).map_err(|error| SweepError::Trial {
            trial: self.number,
            settings: self.shown(),
            problem: error.to_string(),
        })?;
        let every = run.eval_every.filter(|&every| every < run.steps);
        let mut explicit = config.explicit(&run);
        if every.is_some() && config.train.keep_best.is_none() {
            let name = MetricName { label: None, metric: metric.field.into() };
            explicit.train.keep_best = Some(KeepBest::By(name));
        }
        Ok(Planned { config: explicit, steps: run.steps, every })
    }
}

/// The whole run of a trial.
pub struct Planned {
    /// Config with every default written out: rates are those of the whole run, whatever the number of steps that a rung has of it.
    pub config: Config,
    /// Steps of the whole run.
    pub steps: u64,
    /// Steps between evaluations, where there are several.
    pub every: Option<u64>,
}

impl Planned {
    /// Steps at the end of a rung: `steps`, or up to the next evaluation. A run that is halted between two evaluations would be
    /// evaluated once more than one that is not, and might stop earlier or keep another state.
    pub fn rung_end(&self, steps: u64) -> u64 {
        self.every.map_or(steps, |every| steps.next_multiple_of(every)).min(self.steps)
    }

    /// The run for rows that no choice may see: nothing is chosen by evaluations.
    pub fn without_choices(mut self) -> Self {
        let train = &mut self.config.train;
        (train.keep_best, train.patience) = (Some(KeepBest::Never), None);
        (train.eval_every, self.every) = (Some(self.steps), None);
        self
    }
}

fn shown(settings: &[(String, Value)]) -> String {
    settings.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}

/// Training of one rung.
pub struct Rung<'a> {
    /// Config of the whole run, with every default written out.
    pub config: &'a Config,
    /// Steps at the end of the rung.
    pub steps: u64,
    /// Rows of the run.
    pub logs: &'a OpenLogs,
    /// Run folder of the trial.
    pub folder: &'a Path,
    /// Title in progress and errors.
    pub title: &'a str,
    /// Observer and stop flag.
    pub control: &'a Control,
}

impl Rung<'_> {
    /// Trains up to the end of the rung, from the last checkpoint in the folder where there is one.
    pub fn train(&self) -> Result<Trained, Error> {
        let mut config = self.config.clone();
        config.train.steps = Some(self.steps);
        if config.train.eval_every.is_some_and(|every| every >= self.steps) {
            // Before the second evaluation there is nothing to stop for.
            config.train.patience = None;
        }
        let training = Training::new(config)
            .logs(self.logs.clone())
            .out(self.folder)
            .titled(self.title)
            .control(self.control.clone());
        let training = match Resumed::begun(self.folder, &Cluster::Threads, self.control)? {
            Some(resumed) if resumed.step() <= self.steps => training.resumed(resumed.planned()),
            Some(_) => {
                // The state is that of a later rung, whose record is gone.
                fs::remove_dir_all(self.folder).map_err(FileError::writing(self.folder))?;
                training
            }
            None => training,
        };
        match training.run() {
            Err(Error::NotKept { source, .. }) => Err(*source),
            trained => trained,
        }
    }
}

/// The cause in one line, where an error is due to the settings of a trial: a loss that is no number, or too little memory. An
/// error of the disk, of the rows or of the folder is not.
pub fn due_to_settings(error: &Error) -> Option<String> {
    let of_training = |error: &training::Error| match error {
        training::Error::Diverged { .. }
        | training::Error::Memory { .. }
        | training::Error::Ranks { .. }
        | training::Error::Metrics(_) => true,
        // Errors of ranks come as text.
        training::Error::Failure(_) => !chain(error).contains("(os error"),
        _ => false,
    };
    let cause = match error {
        Error::OneOfSeveral { source, .. } => return due_to_settings(source),
        Error::Cluster(ClusterError::Failed(error) | ClusterError::ReportedForAll(error))
        | Error::Training(error) => error,
        Error::DoesNotFit { error, .. } => error,
        _ => return None,
    };
    of_training(cause).then(|| chain(cause).lines().next().unwrap_or_default().to_owned())
}
