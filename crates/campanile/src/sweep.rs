//! A search over settings by successive halving.
//!
//! ```text
//! settings → trials → rung 1: all trials, a part of their steps → the best go on from their checkpoints → … → the best setting
//! ```
//!
//! A trial that is evaluated several times counts by its best state, which is what such a run keeps; rungs end at evaluations.
//!
//! Validation rows decide: a share of the training rows that no trial trains on. Rows to evaluate on are not read until the best
//! setting, trained on all training rows, is judged by them once ([`Sweep::judge`]).
//!
//! ```text
//! DIR/sweep.toml       what was asked for                     DIR/best.toml     a config to train with
//! DIR/records.jsonl    one record for each finished rung      DIR/sweep.html    the table and charts
//! DIR/trials/NNN       run folder of trial NNN                DIR/final         run folder of the best, on all training rows
//! ```
//!
//! What runs next follows from the records alone, so a sweep that was stopped at any moment goes on where it was.

mod error;
mod execution;
mod halving;
mod page;
mod record;
mod request;
mod space;
mod swept;
mod trial;

pub use error::SweepError;
pub use halving::{Halving, Results};
pub use record::{JudgedOn, RungRecord};
pub use request::{Request, SWEEP};
pub use space::{DRAWS, Setting, Space, SpaceError};
pub use swept::{FinalResult, Swept, TriedSetting};

use crate::control::Control;
use crate::{Config, Error, Event};
use std::path::{Path, PathBuf};
use training::metrics::{Better, METRICS, Metric};

/// A search over settings of a config. Everything but config, folder and settings is optional.
///
/// ```
/// use campanile::{Config, sweep::Sweep};
/// # let folder = tempfile::tempdir().unwrap();
/// let mut config = Config::default();
/// # config.topology.ranks_per_host = Some(1);
/// (config.train.steps, config.train.batch) = (Some(4), Some(64));
/// config.data.synthetic = Some(spec::synthetic::Synthetic { eval_samples: 512, ..Default::default() });
/// let sweep = Sweep::new(config, folder.path().join("sweep")).set("optimizer.peak=0.001,0.01".parse()?);
/// let found = sweep.run()?;
/// assert_eq!(found.tried.len(), 2);
/// assert!(found.best().is_some() && folder.path().join("sweep/best.toml").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sweep {
    request: Request,
    out: PathBuf,
    judge: bool,
    control: Control,
}

impl Sweep {
    /// A search over settings of `config`, kept in the folder `out`.
    pub fn new(config: Config, out: impl Into<PathBuf>) -> Self {
        Self { request: Request::new(config), out: out.into(), judge: false, control: Control::default() }
    }

    /// The search in a folder, which goes on where it was.
    pub fn resume(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        let request =
            Request::read(folder)?.ok_or_else(|| SweepError::NoSweep { path: folder.to_owned() })?;
        let sweep = Self::new(Config::default(), folder);
        Ok(Self { request, ..sweep })
    }

    /// Varies a key of the config, beside others.
    pub fn set(mut self, setting: Setting) -> Self {
        self.request.set.push(setting.to_string());
        self
    }

    /// Number of trials: a limit of a grid, or the number of draws. By default a whole grid, or [`DRAWS`].
    pub fn trials(mut self, trials: Option<usize>) -> Self {
        self.request.trials = trials;
        self
    }

    /// Metric that decides, by its field in JSON results. By default `auc`.
    pub fn metric(mut self, field: &str) -> Self {
        self.request.metric = field.into();
        self
    }

    /// One in how many trials goes on to the next rung; `None` trains all trials to their end. By default 2.
    pub fn halving(mut self, factor: Option<usize>) -> Self {
        self.request.halving = factor.unwrap_or(0);
        self
    }

    /// Share of the training rows to compare trials on. By default 0.1; a synthetic log has validation rows of its own.
    pub fn validation(mut self, share: f64) -> Self {
        self.request.validation = share;
        self
    }

    /// Trains the best setting on all training rows, and judges it once on the rows to evaluate on.
    pub fn judge(self, judge: bool) -> Self {
        Self { judge, ..self }
    }

    /// Tells `observer` what happens.
    pub fn observe(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { control: self.control.observe(observer), ..self }
    }

    /// Takes observer and stop flag from `control`.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }
}

/// The metric of a field, if one value of it is better than another.
pub fn deciding_metric(field: &str) -> Result<&'static Metric, SweepError> {
    let decides = |metric: &&Metric| metric.better != Better::Neither;
    METRICS.iter().filter(decides).find(|metric| metric.field == field).ok_or_else(|| {
        let known = METRICS.iter().filter(decides).map(|metric| metric.field).collect::<Vec<_>>().join(", ");
        SweepError::Metric { field: field.into(), known }
    })
}
