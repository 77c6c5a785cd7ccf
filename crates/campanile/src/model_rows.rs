//! The rows of a log as a model takes them: dense features after their transforms, and the table rows of ids.
//!
//! Names and shapes are those of the inputs of an [ONNX model](crate::onnx), so that one goes with the other:
//!
//! ```text
//! dense             f32   samples × dense features
//! rows.FEATURE      i64   samples, or samples × the longest bag of the log; shorter bags end in −1
//! weights.FEATURE   f32   the same shape, for features with weights; 0 where there is no id
//! ```

mod npz;
mod tensors;

pub use tensors::{Numbers, RowBlock, RowTensor};

use crate::Error;
use crate::checkpoint::{Chosen, Used};
use crate::control::Control;
use crate::event::Unit;
use crate::logs::{OpenLogs, Unlabelled};
use crate::output::{Inputs, Output};
use crate::scoring::Samples;
use data::prepared::PreparedLog;
use data::{Batch, BoundLog, DataError};
use npz::Spool;
use spec::model::Model;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensors::longest_bags;
use training::Logs;
use training::checkpoint::locate;

/// Samples that are converted at a time.
const BLOCK: u64 = 4096;

/// Rows of a log for the model of a checkpoint, or of a run: of its best one where it keeps that, else of its last. A column of labels is
/// not looked at. Bad lines are left out.
///
/// ```
/// # use campanile::{Config, Training};
/// use campanile::ModelRows;
/// # let folder = tempfile::tempdir().unwrap();
/// # let (run, log, out) = (folder.path().join("run"), folder.path().join("log.csv"), folder.path().join("rows.npz"));
/// # let rows: String = (0..200).map(|i| format!("u{},{}.5,{}\n", i % 7, i % 11, i % 3 / 2)).collect();
/// # std::fs::write(&log, format!("user,price,clicked\n{rows}")).unwrap();
/// # let mut config = Config::default();
/// # config.train.steps = Some(3);
/// # Training::new(config).data(&log)?.out(&run).run()?;
/// let written = ModelRows::of(&run)?.data(&log).to(&out)?;
/// assert_eq!((written.rows, written.samples), (200, 200));
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelRows {
    checkpoint: PathBuf,
    samples: Samples,
    max_bad_share: f64,
    control: Control,
}

/// A log whose rows can be read as tensors.
pub struct OpenRows {
    /// Name, shape and type of each tensor.
    pub tensors: Vec<RowTensor>,
    /// Rows of the log, bad ones among them.
    pub rows: u64,
    /// Rows that hold a sample.
    pub samples: u64,
    /// Descriptions of the first bad lines.
    pub first_bad: Vec<String>,
    /// Steps done in the checkpoint.
    pub step: u64,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
    model: Model,
    /// Reader of the samples; `None` where there are none.
    log: Option<BoundLog>,
    control: Control,
    /// What was prepared for this alone lives as long as it does.
    _open: OpenLogs,
}

/// Result of writing rows.
#[derive(Clone, Debug)]
pub struct WrittenRows {
    /// Rows of the log, bad ones among them.
    pub rows: u64,
    /// Rows that were written.
    pub samples: u64,
    /// Descriptions of the first bad lines.
    pub first_bad: Vec<String>,
    /// Tensors of the file.
    pub tensors: Vec<RowTensor>,
    /// Steps done in the checkpoint.
    pub step: u64,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
}

impl ModelRows {
    /// Rows for the model of the checkpoint at `path`, or of the best or last whole one of the run at `path`.
    pub fn of(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        locate(&path)?;
        Ok(Self::on(path, Samples::default()))
    }

    /// Rows for the model of the checkpoint at `path`, of `samples`.
    pub fn on(path: impl Into<PathBuf>, samples: Samples) -> Self {
        Self { checkpoint: path.into(), samples, max_bad_share: 1.0, control: Control::default() }
    }

    /// Reads the files at `path`: a path or a glob.
    pub fn data(mut self, path: impl AsRef<Path>) -> Self {
        self.samples.data.push(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Stops when more than this share of the lines is bad. By default any share may be.
    pub fn max_bad_share(self, share: f64) -> Self {
        Self { max_bad_share: share, ..self }
    }

    /// Takes observer and stop flag from `control`.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }

    /// Files that are read, which no output replaces.
    pub fn inputs(&self) -> Inputs {
        self.samples.inputs(&self.checkpoint)
    }

    /// Writes the tensors to a new file of NumPy arrays, which `numpy.load` reads: a `.npz`.
    pub fn to(self, path: impl AsRef<Path>) -> Result<WrittenRows, Error> {
        let output = Output::check(path.as_ref(), false, &self.inputs())?;
        self.write(&output)
    }

    /// Writes the tensors to an output that was checked.
    pub fn write(self, output: &Output) -> Result<WrittenRows, Error> {
        let mut open = self.open()?;
        let mut spool = Spool::new(&open.tensors, BLOCK)?;
        open.for_each(&mut |block| spool.append(block))?;
        let mut out = output.create()?;
        spool.write(&open.tensors, open.samples, output.path(), &mut out)?;
        out.finish()?;
        let OpenRows { tensors, rows, samples, first_bad, step, used, .. } = open;
        Ok(WrittenRows { rows, samples, first_bad, tensors, step, used })
    }

    /// Reads the log, and finds the shapes of the tensors.
    pub fn open(self) -> Result<OpenRows, Error> {
        let Self { checkpoint: named, samples, max_bad_share, control } = &self;
        let (Chosen { checkpoint, used }, config, log) =
            samples.open_unlabelled(named, None, *max_bad_share, control)?;
        let Unlabelled { open, count, samples: scored, first_bad, .. } = log;
        let what = || format!("{} on {}", named.display(), samples.data.join(" "));
        let model = match scored {
            // A log without samples has no columns that could differ.
            0 => crate::onnx::model_of(&checkpoint)?,
            _ => open.check(&config).map_err(|source| Error::Run { what: what(), source })?.model,
        };
        let mut log = match (&open.logs, scored) {
            (_, 0) => None,
            (Logs::Prepared { eval: Some(log), .. }, _) => Some(bound(log, &model)?),
            _ => return Err(crate::logs::LogError::NothingToRead.into()),
        };
        let longest = match &mut log {
            None => vec![1; model.features().len()],
            Some(log) => {
                let mut longest = vec![1; model.features().len()];
                each_batch(log, control, "looking for the longest bags", &mut |batch| {
                    longest_bags(batch, &mut longest);
                    Ok(())
                })?;
                longest
            }
        };
        Ok(OpenRows {
            tensors: tensors::of_model(&model, &longest),
            rows: count,
            samples: scored,
            first_bad,
            step: checkpoint.manifest().step,
            used,
            model,
            log,
            control: control.clone(),
            _open: open,
        })
    }
}

impl OpenRows {
    /// Calls `receive` with the samples, some thousand at a time, in the order of the log.
    pub fn for_each(&mut self, receive: &mut dyn FnMut(&RowBlock) -> Result<(), Error>) -> Result<(), Error> {
        let Self { tensors, model, log, control, .. } = self;
        let Some(log) = log else { return Ok(()) };
        let mut block = RowBlock::new(tensors);
        each_batch(log, control, "converting rows", &mut |batch| {
            block.fill(model, tensors, batch);
            receive(&block)
        })
    }
}

fn bound(log: &Arc<PreparedLog>, model: &Model) -> Result<BoundLog, DataError> {
    log.clone().bind(model.features(), model.dense_features())
}

/// Calls `visit` with all samples of a log, a block at a time, until it is asked to stop.
fn each_batch(
    log: &mut BoundLog,
    control: &Control,
    name: &str,
    visit: &mut dyn FnMut(&Batch) -> Result<(), Error>,
) -> Result<(), Error> {
    let (total, mut batch) = (log.len(), Batch::default());
    let working = control.start(name, total, Unit::Count("rows"));
    for start in (0..total).step_by(BLOCK as usize) {
        if control.is_stopped() {
            return Err(DataError::Stopped.into());
        }
        let end = total.min(start + BLOCK);
        log.fill(start..end, &mut batch)?;
        visit(&batch)?;
        working.at(end);
    }
    Ok(())
}
