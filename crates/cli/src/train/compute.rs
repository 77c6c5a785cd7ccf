//! `--compute`: truly, or by the clock.

use super::Args;
use crate::logs::OpenLogs;
use crate::progress::Console;
use anyhow::{Context, Result, ensure};
use spec::pace::Pace;
use spec::run::Run;
use spec::schedule::Task;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Steps that are measured for `--compute paced`.
const STEPS: u64 = 5;

/// What a user says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ComputeArg {
    /// `real`.
    #[default]
    Real,
    /// `paced`: by times measured first.
    Paced,
    /// `paced:FILE`: by the times in a file.
    PacedBy(PathBuf),
}

impl ComputeArg {
    /// The file of times, where there is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::PacedBy(path) => Some(path),
            Self::Real | Self::Paced => None,
        }
    }
}

impl FromStr for ComputeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("paced:")) {
            ("real", _) => Ok(Self::Real),
            ("paced", _) => Ok(Self::Paced),
            (_, Some(file)) if !file.is_empty() => Ok(Self::PacedBy(file.into())),
            _ => Err(format!("{text:?} is no way to compute; there are real, paced and paced:FILE")),
        }
    }
}

/// Refuses what a run that computes nothing cannot do.
pub fn check(args: &Args) -> Result<()> {
    if args.compute == ComputeArg::Real {
        return Ok(());
    }
    ensure!(
        args.checkpoint_every.is_none(),
        "--checkpoint-every with --compute paced: a paced run computes nothing, so it has no state to keep"
    );
    ensure!(
        args.resume.is_none(),
        "--resume with --compute paced: a paced run computes nothing, so it has no state to go on from"
    );
    ensure!(
        args.eval_every.is_none(),
        "--eval-every with --compute paced: a paced run computes nothing, so there is nothing to evaluate"
    );
    Ok(())
}

/// The times to compute by; `None` to compute truly.
pub fn pace(argument: &ComputeArg, run: &Run, logs: &OpenLogs, console: Console) -> Result<Option<Pace>> {
    match argument {
        ComputeArg::Real => Ok(None),
        ComputeArg::Paced => {
            console.note(format!("measuring what each phase takes, {STEPS} steps with ranks taking turns"));
            Ok(Some(training::pace::measure(run, &logs.logs, STEPS, run.topology().ranks())?))
        }
        ComputeArg::PacedBy(path) => {
            let pace = read(path)?;
            pace.check(&run.schedule(Task::Train)).with_context(|| {
                format!("{}: times for another step; `campanile pace` measures this one", path.display())
            })?;
            Ok(Some(pace))
        }
    }
}

fn read(path: &Path) -> Result<Pace> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| {
        format!(
            "{}: a pace looks like {{\"scale\": 1.0, \"phases\": {{\"lookup\": [0.001, 0.002], \"loss\": 0.0001}}}}",
            path.display()
        )
    })
}
