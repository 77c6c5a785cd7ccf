//! Evaluating: a checkpoint on samples with labels.

use crate::Error;
use crate::checkpoint::Used;
use crate::cluster::{agree_on, control_of, is_distributed, report_once};
use crate::control::Control;
use crate::event::{Event, Unit};
use crate::output::Output;
use crate::scoring::{Opened, Samples};
use data::DataError;
use data::predictions::{FirstColumn, Predictions};
use spec::run::Run;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use training::checkpoint::locate;
use training::{Cluster, Scores};

/// An evaluation of a checkpoint, or of a run: of its best one where it keeps that, else of its last.
///
/// ```
/// # use campanile::{Config, Training};
/// use campanile::Evaluation;
/// # let folder = tempfile::tempdir().unwrap();
/// # let run = folder.path().join("run");
/// # let mut config = Config::default();
/// # (config.train.steps, config.train.batch) = (Some(3), Some(64));
/// # config.data.synthetic = Some(spec::synthetic::Synthetic { eval_samples: 256, ..Default::default() });
/// # Training::new(config).out(&run).run()?;
/// let evaluated = Evaluation::of(&run)?.run()?;
/// assert_eq!(evaluated.scores.evaluation.samples, 256);
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Evaluation {
    checkpoint: PathBuf,
    samples: Samples,
    predictions: Option<Output>,
    control: Control,
}

/// The result of an evaluation.
#[derive(Debug)]
pub struct Evaluated {
    /// Metrics of the predictions.
    pub scores: Scores,
    /// The run that scored the samples.
    pub run: Run,
    /// Steps done in the checkpoint.
    pub step: u64,
    /// Folder of the checkpoint.
    pub checkpoint: PathBuf,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
}

impl Evaluation {
    /// An evaluation of the checkpoint at `path`, or of the best or last whole one of the run at `path`.
    pub fn of(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        locate(&path)?;
        Ok(Self::on(path, Samples::default()))
    }

    /// An evaluation of the checkpoint at `path` on `samples`.
    pub fn on(path: impl Into<PathBuf>, samples: Samples) -> Self {
        Self { checkpoint: path.into(), samples, predictions: None, control: Control::default() }
    }

    /// Scores the files at `path`, in place of those that the run was evaluated on: a path or a glob.
    pub fn data(mut self, path: impl AsRef<Path>) -> Self {
        self.samples.data.push(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Also averages the AUCs of the groups that the values of `column` make, such as users.
    pub fn group(mut self, column: impl Into<String>) -> Self {
        self.samples.group = Some(column.into());
        self
    }

    /// Also tells metrics for the values of `column`. May be called for several columns.
    pub fn slice(mut self, column: impl Into<String>) -> Self {
        self.samples.slices.push(column.into());
        self
    }

    /// Writes label and probability of every sample to a new file: Parquet if the name ends in `.parquet`, else CSV.
    pub fn predictions(self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let output = Output::check(path.as_ref(), false, &self.samples.inputs(&self.checkpoint))?;
        Ok(self.predictions_to(Some(output)))
    }

    /// Writes label and probability of every sample to an output that was checked.
    pub fn predictions_to(self, predictions: Option<Output>) -> Self {
        Self { predictions, ..self }
    }

    /// Tells `observer` what happens.
    pub fn observe(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { control: self.control.observe(observer), ..self }
    }

    /// Ends with an error soon after `stop` is set.
    pub fn stop_on(self, stop: Arc<AtomicBool>) -> Self {
        Self { control: self.control.stop_on(stop), ..self }
    }

    /// Takes observer and stop flag from `control`.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }

    /// Scores the samples on ranks that are threads of this process.
    pub fn run(self) -> Result<Evaluated, Error> {
        self.run_on(Cluster::Threads)?.ok_or(Error::Training(training::Error::NoRank))
    }

    /// Scores the samples on the ranks of `cluster`. The process that has rank 0 gets the result and writes the predictions;
    /// other processes get none.
    pub fn run_on(self, mut cluster: Cluster) -> Result<Option<Evaluated>, Error> {
        let control = &control_of(&cluster, &self.control);
        let opened = self.samples.open(&self.checkpoint, &cluster, control)?;
        if is_distributed(&cluster) {
            agree_on(&mut cluster, &opened.identity()?)?;
        }
        let Opened { run, logs, checkpoint, used, .. } = &opened;
        let mut predictions = match self.predictions.as_ref().filter(|_| cluster.has_first_rank()) {
            Some(output) => {
                let names = label_names(run);
                Some(Predictions::of_labels(output.path(), output.create()?, &FirstColumn::Labels, &names)?)
            }
            None => None,
        };
        let samples = run.data.eval_samples();
        let evaluating = control.start("evaluating", samples, Unit::Count("samples"));
        let mut done = 0;
        let receive: &mut training::Receiver = &mut |labels, probabilities| {
            if control.is_stopped() {
                return Err(DataError::Stopped.into());
            }
            done += (labels.len() / run.model.outputs()) as u64;
            evaluating.at(done);
            match &mut predictions {
                Some(predictions) => Ok(predictions.append(labels, probabilities)?),
                None => Ok(()),
            }
        };
        let scores = training::evaluate(run, logs, checkpoint, &cluster, &|_| (), receive);
        drop(evaluating);
        let scores = match scores {
            Err(_) if control.is_stopped() => return Err(Error::Stopped { done, samples }),
            scores => scores.map_err(|error| report_once(&cluster, error))?,
        };
        cluster.leave()?;
        let Some(scores) = scores else { return Ok(None) };
        if let Some(predictions) = predictions {
            predictions.finish()?.finish()?;
        }
        let (step, path) = (checkpoint.manifest().step, checkpoint.path().to_owned());
        Ok(Some(Evaluated { scores, run: run.clone(), step, checkpoint: path, used: *used }))
    }
}

/// Names of the labels of a model with several; none for a model with one.
pub(crate) fn label_names(run: &Run) -> Vec<String> {
    run.model.labels().iter().map(|label| label.name.clone()).collect()
}
