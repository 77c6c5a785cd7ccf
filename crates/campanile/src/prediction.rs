//! Predicting: a probability for every row of a log, with or without labels.

use crate::Error;
use crate::checkpoint::{Chosen, Used};
use crate::control::Control;
use crate::event::{Event, Unit};
use crate::logs::{RowSource, Unlabelled};
use crate::output::{Inputs, Output, Writing};
use crate::scoring::{Samples, SamplesError};
use data::DataError;
use data::predictions::{FirstColumn, Predictions};
use data::rows::Row;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use training::checkpoint::locate;

/// Predictions of a checkpoint, or of a run (its best one where it keeps that, else its last), for the rows of a log. A bad line keeps its row, without a
/// probability. A column of labels is not looked at.
///
/// ```
/// # use campanile::{Config, Training};
/// use campanile::Prediction;
/// # let folder = tempfile::tempdir().unwrap();
/// # let (run, log, out) = (folder.path().join("run"), folder.path().join("log.csv"), folder.path().join("out.csv"));
/// # let rows: String = (0..200).map(|i| format!("u{},{}.5,{}\n", i % 7, i % 11, i % 3 / 2)).collect();
/// # std::fs::write(&log, format!("user,price,clicked\n{rows}")).unwrap();
/// # let mut config = Config::default();
/// # config.train.steps = Some(3);
/// # Training::new(config).data(&log)?.out(&run).run()?;
/// let predicted = Prediction::of(&run)?.data(&log).key("user").to(&out)?;
/// assert_eq!((predicted.rows, predicted.scored), (200, 200));
/// # assert!(std::fs::read_to_string(&out).unwrap().starts_with("user,probability\nu0,0."));
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prediction {
    checkpoint: PathBuf,
    samples: Samples,
    key: Option<String>,
    max_bad_share: f64,
    control: Control,
}

/// The result of predicting.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// Rows of the log, bad ones among them.
    pub rows: u64,
    /// Rows with a probability.
    pub scored: u64,
    /// Descriptions of the first bad lines.
    pub first_bad: Vec<String>,
    /// Steps done in the checkpoint.
    pub step: u64,
    /// Folder of the checkpoint.
    pub checkpoint: PathBuf,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
}

impl Prediction {
    /// Predictions of the checkpoint at `path`, or of the best or last whole one of the run at `path`.
    pub fn of(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        locate(&path)?;
        Ok(Self::on(path, Samples::default()))
    }

    /// Predictions of the checkpoint at `path` for `samples`.
    pub fn on(path: impl Into<PathBuf>, samples: Samples) -> Self {
        Self { checkpoint: path.into(), samples, key: None, max_bad_share: 1.0, control: Control::default() }
    }

    /// Scores the files at `path`: a path or a glob.
    pub fn data(mut self, path: impl AsRef<Path>) -> Self {
        self.samples.data.push(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Names rows by the text of a column. By default they have their number over all files, from 0.
    pub fn key(self, column: impl Into<String>) -> Self {
        Self { key: Some(column.into()), ..self }
    }

    /// Stops when more than this share of the lines is bad. By default any share may be.
    pub fn max_bad_share(self, share: f64) -> Self {
        Self { max_bad_share: share, ..self }
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

    /// Files that are read, which no output replaces.
    pub fn inputs(&self) -> Inputs {
        self.samples.inputs(&self.checkpoint)
    }

    /// Writes a row for every row of the log to a new file, in the order of the log: Parquet if the name ends in `.parquet`,
    /// else CSV.
    pub fn to(self, path: impl AsRef<Path>) -> Result<Predicted, Error> {
        self.check_key()?;
        let output = Output::check(path.as_ref(), false, &self.inputs())?;
        self.write(&output)
    }

    /// Refuses a key that has the name of the column that is written.
    pub fn check_key(&self) -> Result<(), Error> {
        match self.key.as_deref() {
            Some("probability") => Err(SamplesError::KeyIsProbability.into()),
            _ => Ok(()),
        }
    }

    /// Writes a row for every row of the log to an output that was checked.
    pub fn write(self, output: &Output) -> Result<Predicted, Error> {
        self.check_key()?;
        let first = self.key.clone().map_or(FirstColumn::Rows, FirstColumn::Keys);
        let (predicted, written) = self.score(|labels| {
            Ok(ToFile(Predictions::of_labels(output.path(), output.create()?, &first, labels)?))
        })?;
        written.0.finish()?.finish()?;
        Ok(predicted)
    }

    /// Probabilities of every row of the log, in its order: one for each label of the model. A bad line has `NaN`.
    pub fn probabilities(self) -> Result<(Predicted, Vec<f32>), Error> {
        let (predicted, written) =
            self.score(|labels| Ok(ToMemory { outputs: labels.len().max(1), probabilities: Vec::new() }))?;
        Ok((predicted, written.probabilities))
    }

    /// Scores all rows, which go to the sink that `open` makes for the labels of the model.
    fn score<S: Sink>(
        &self,
        open: impl FnOnce(&[String]) -> Result<S, Error>,
    ) -> Result<(Predicted, S), Error> {
        let Self { checkpoint: named, samples, key, max_bad_share, control } = self;
        let (chosen, config, log) =
            samples.open_unlabelled(named, key.as_deref(), *max_bad_share, control)?;
        let Chosen { checkpoint, used } = chosen;
        let Unlabelled { open: logs, rows, count, samples: scored, first_bad } = log;
        let predicting = control.start("predicting", count, Unit::Count("rows"));
        let labels: Vec<String> = config.model.labels.iter().map(|label| label.name.clone()).collect();
        if key.as_ref().is_some_and(|key| labels.iter().any(|name| *key == format!("probability_{name}"))) {
            return Err(SamplesError::KeyIsProbability.into());
        }
        let (outputs, sink) = (labels.len().max(1), open(&labels)?);
        let mut written = Scored { sink, rows, number: 0, key: key.is_some(), outputs };
        if scored > 0 {
            let run = logs.check(&config).map_err(|source| Error::Run {
                what: format!("{} on {}", named.display(), samples.data.join(" ")),
                source,
            })?;
            training::predict(&run, &logs.logs, &checkpoint, &|_| (), &mut |probabilities| {
                if control.is_stopped() {
                    return Err(DataError::Stopped.into());
                }
                written.append(probabilities)?;
                predicting.at(written.number);
                Ok(())
            })?;
        }
        drop(predicting);
        let sink = written.finish()?;
        let (step, path) = (checkpoint.manifest().step, checkpoint.path().to_owned());
        Ok((Predicted { rows: count, scored, first_bad, step, checkpoint: path, used }, sink))
    }
}

/// Where rows go with their probabilities.
trait Sink: Send {
    /// Takes the next row: its number, its key if rows go by one, and its probabilities where it has any.
    fn take(
        &mut self,
        number: u64,
        key: Option<Option<&[u8]>>,
        probabilities: Option<&[f32]>,
    ) -> Result<(), DataError>;
}

/// Rows go to a file.
struct ToFile(Predictions<Writing>);

impl Sink for ToFile {
    fn take(
        &mut self,
        number: u64,
        key: Option<Option<&[u8]>>,
        probabilities: Option<&[f32]>,
    ) -> Result<(), DataError> {
        match key {
            Some(key) => self.0.append_key_of_labels(key, probabilities),
            None => self.0.append_row_of_labels(number, probabilities),
        }
    }
}

/// Probabilities are kept.
struct ToMemory {
    outputs: usize,
    probabilities: Vec<f32>,
}

impl Sink for ToMemory {
    fn take(
        &mut self,
        _number: u64,
        _key: Option<Option<&[u8]>>,
        probabilities: Option<&[f32]>,
    ) -> Result<(), DataError> {
        match probabilities {
            Some(probabilities) => self.probabilities.extend_from_slice(probabilities),
            None => self.probabilities.resize(self.probabilities.len() + self.outputs, f32::NAN),
        }
        Ok(())
    }
}

/// Rows on their way, each with its probability where it has one.
struct Scored<S> {
    sink: S,
    rows: RowSource,
    /// Rows written.
    number: u64,
    /// Whether rows go by their text.
    key: bool,
    /// Number of probabilities of a sample.
    outputs: usize,
}

impl<S: Sink> Scored<S> {
    /// Writes the next samples, and the rows without one before each of them.
    fn append(&mut self, probabilities: &[f32]) -> Result<(), training::Error> {
        for sample in probabilities.chunks_exact(self.outputs) {
            while self.write_next(Some(sample))? == RowKind::Bad {}
        }
        Ok(())
    }

    /// Writes the rows after the last sample.
    fn finish(mut self) -> Result<S, Error> {
        if let RowSource::Noted(_) = self.rows {
            while self.write_next(None)? == RowKind::Bad {}
        }
        Ok(self.sink)
    }

    /// Writes the next row: with `probabilities` where it is a sample.
    fn write_next(&mut self, probabilities: Option<&[f32]>) -> Result<RowKind, DataError> {
        let Row { is_sample, text } = match &mut self.rows {
            RowSource::Samples => Row { is_sample: true, text: None },
            RowSource::Noted(rows) => match rows.next_row()? {
                None => return Ok(RowKind::Nothing),
                Some(row) => row,
            },
        };
        let probabilities = probabilities.filter(|_| is_sample);
        self.sink.take(self.number, self.key.then_some(text), probabilities)?;
        self.number += 1;
        Ok(if is_sample { RowKind::Sample } else { RowKind::Bad })
    }
}

/// What a row was.
#[derive(PartialEq, Eq)]
enum RowKind {
    /// A sample.
    Sample,
    /// A bad line.
    Bad,
    /// There was none left.
    Nothing,
}
