//! Real computations, or computations that are only waited for.

use super::TrainError;
use crate::control::Control;
use crate::event::Notice;
use crate::file::read_text;
use crate::logs::OpenLogs;
use spec::pace::Pace;
use spec::run::Run;
use spec::schedule::Task;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Steps that are measured where no times are given.
const STEPS: u64 = 5;

/// Compute mode of a run: `real`, `paced` or `paced:FILE` on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ComputeMode {
    /// Every computation is made.
    #[default]
    Real,
    /// Computations are waited for, as long as they took when they were measured before training.
    Paced,
    /// Computations are waited for, as long as a file says.
    PacedBy(PathBuf),
}

impl ComputeMode {
    /// The file of times, where there is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::PacedBy(path) => Some(path),
            Self::Real | Self::Paced => None,
        }
    }

    /// The times to compute by; `None` to compute truly.
    pub(super) fn pace(
        &self,
        run: &Run,
        logs: &OpenLogs,
        control: &Control,
    ) -> Result<Option<Pace>, crate::Error> {
        match self {
            Self::Real => Ok(None),
            Self::Paced => {
                control.notice(Notice::Pacing { steps: STEPS });
                Ok(Some(training::pace::measure(run, &logs.logs, STEPS, run.topology().ranks())?))
            }
            Self::PacedBy(path) => {
                let pace: Pace = serde_json::from_str(&read_text(path)?)
                    .map_err(|source| TrainError::NoPace { path: path.clone(), source })?;
                pace.check(&run.schedule(Task::Train))
                    .map_err(|source| TrainError::OtherStep { path: path.clone(), source })?;
                Ok(Some(pace))
            }
        }
    }
}

impl FromStr for ComputeMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("paced:")) {
            ("real", _) => Ok(Self::Real),
            ("paced", _) => Ok(Self::Paced),
            (_, Some(file)) if !file.is_empty() => Ok(Self::PacedBy(file.into())),
            _ => Err(format!("unknown compute mode {text:?}; use real, paced or paced:FILE")),
        }
    }
}
