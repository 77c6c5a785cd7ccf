//! What was asked of a sweep, as its folder keeps it.

use super::{Setting, Space, SweepError, deciding_metric};
use crate::file::{FileError, read_toml, replace};
use crate::resume::difference;
use crate::{Config, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Name of the request in the folder of a sweep.
pub const SWEEP: &str = "sweep.toml";

/// What was asked of a sweep. Two sweeps of equal requests on equal rows have equal results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Metric that decides, by its field in JSON results.
    pub metric: String,
    /// Share of the training rows that trials are compared on.
    pub validation: f64,
    /// One in how many trials goes on to the next rung; 0 trains all trials to their end.
    pub halving: usize,
    /// Number of trials; by default a whole grid, or 16 draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<usize>,
    /// Settings that vary, as `KEY=V1,V2` or `KEY=LO..HI`.
    pub set: Vec<String>,
    /// Config of all trials, but for the settings that vary.
    pub config: Config,
}

impl Request {
    /// The usual request for a config.
    pub fn new(config: Config) -> Self {
        Self { metric: "auc".into(), validation: 0.1, halving: 2, trials: None, set: Vec::new(), config }
    }

    /// The request in the folder of a sweep; `None` when there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, FileError> {
        let path = folder.join(SWEEP);
        path.is_file().then(|| read_toml(&path)).transpose()
    }

    /// Writes the request into the folder of its sweep.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = toml::to_string_pretty(self).map_err(SweepError::Toml)?;
        Ok(replace(&folder.join(SWEEP), text.as_bytes())?)
    }

    /// Refuses numbers that cannot be, and reads the settings.
    pub(super) fn check(&self) -> Result<Space, SweepError> {
        deciding_metric(&self.metric)?;
        if !(self.validation > 0.0 && self.validation < 1.0) {
            return Err(SweepError::Share { share: self.validation });
        }
        if self.halving == 1 {
            return Err(SweepError::Factor);
        }
        let settings = self.set.iter().map(|text| text.parse::<Setting>()).collect::<Result<_, _>>()?;
        Ok(Space::new(settings)?)
    }

    /// Refuses to go on in a folder that holds another sweep.
    pub(super) fn check_same(&self, folder: &Path) -> Result<(), Error> {
        let Some(there) = Self::read(folder)? else { return Ok(()) };
        let differences = difference::lines(&there.to_json()?, &self.to_json()?, "the folder");
        match differences.is_empty() {
            true => Ok(()),
            false => Err(SweepError::Another { path: folder.to_owned(), differences }.into()),
        }
    }

    /// The request as one object.
    pub(super) fn to_json(&self) -> Result<Value, SweepError> {
        serde_json::to_value(self).map_err(SweepError::Json)
    }
}
