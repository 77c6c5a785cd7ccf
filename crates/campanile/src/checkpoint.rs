//! Checkpoints of runs: what they say of their run, and which of them are whole.

mod choice;

pub(crate) use choice::open_to_use_on;
pub use choice::{Chosen, Use, Used, locate_to_use, open_to_use};

use crate::control::Control;
use crate::error::chain;
use crate::event::{Notice, Unit};
use crate::folder::CHECKPOINTS;
use crate::logs::OpenLogs;
use serde::{Deserialize, Serialize};
use spec::run::{Config, OptimizerConfig};
use std::path::{Path, PathBuf};
use training::checkpoint::{Checkpoint, CheckpointError, candidates, is_checkpoint, set_aside};

/// Reason why no checkpoint can be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A checkpoint that is damaged, not there, or not what it should be.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A manifest that does not say which run its checkpoint is of.
    #[error("{}: the description of the run in the manifest is not valid", path.display())]
    Run {
        /// The checkpoint.
        path: PathBuf,
        /// Error of reading the JSON.
        source: serde_json::Error,
    },
    /// A config that cannot be kept in a checkpoint.
    #[error("the config cannot be written into the checkpoint")]
    Config(#[source] serde_json::Error),
    /// A run without a best checkpoint, which was asked for.
    #[error(
        "{}: the run keeps no best checkpoint: it was evaluated at its end only, or trained with --keep-best none; use \
         --use last", path.display()
    )]
    NoBest {
        /// Folder of the run.
        path: PathBuf,
    },
    /// A checkpoint that is named itself, and a choice among those of a run.
    #[error("{}: this is a checkpoint itself; leave --use out, or give the folder of its run", path.display())]
    NamedAndChosen {
        /// Folder of the checkpoint.
        path: PathBuf,
    },
    /// A run whose checkpoints are all damaged.
    #[error(
        "{}: no checkpoint is whole:{}\nRestore one from a copy, or start the run again with --out and a new folder",
        path.display(), damaged.iter().map(|why| format!("\n  {why}")).collect::<String>()
    )]
    NoneWhole {
        /// Folder of the run.
        path: PathBuf,
        /// Description of the damage of each checkpoint.
        damaged: Vec<String>,
    },
}

/// The run of a checkpoint, as its manifest keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRun {
    /// The config, with every default written out.
    pub config: Config,
    /// The optimizers as the user wrote them: what was left out follows the length of the run.
    pub optimizer: OptimizerConfig,
    /// Fingerprint of the training samples, where they are not generated.
    pub data: Option<String>,
}

impl SavedRun {
    /// The run that `checkpoint` is of.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, OpenError> {
        serde_json::from_value(checkpoint.manifest().run.clone())
            .map_err(|source| OpenError::Run { path: checkpoint.path().to_owned(), source })
    }

    /// The value that checkpoints of a run keep, whose optimizers the user wrote as `written`.
    pub(crate) fn value(
        explicit: &Config,
        written: &OptimizerConfig,
        logs: &OpenLogs,
    ) -> Result<serde_json::Value, OpenError> {
        let saved = Self { config: explicit.clone(), optimizer: written.clone(), data: logs.fingerprint() };
        serde_json::to_value(saved).map_err(OpenError::Config)
    }
}

/// Opens the checkpoint at `path`, of which every file must be what it was when it was written, and which must hold the model
/// that its manifest describes.
pub fn open_verified(path: &Path, control: &Control) -> Result<Checkpoint, CheckpointError> {
    let checkpoint = Checkpoint::open(path)?;
    check_model(&checkpoint)?;
    let verifying = control.start("verifying the checkpoint", 0, Unit::Bytes);
    checkpoint.verify(&|done, total| verifying.of(done, total))?;
    drop(verifying);
    Ok(checkpoint)
}

/// Refuses a checkpoint whose tensors are not those of the run that its manifest describes.
fn check_model(checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
    let refuse = |problem: String| CheckpointError::Malformed {
        path: checkpoint.path().to_owned(),
        problem: format!("the description of the run in the manifest is not valid: {problem}"),
    };
    let run: SavedRun = serde_json::from_value(checkpoint.manifest().run.clone())
        .map_err(|error| refuse(error.to_string()))?;
    let config = run.config;
    let model = config.model.check(None).map_err(|error| refuse(error.to_string()))?;
    let (Some(dense), Some(tables)) = (config.optimizer.dense, config.optimizer.tables) else {
        return Err(refuse("no optimizer.dense or optimizer.tables".into()));
    };
    training::check_contents(checkpoint, &model, &dense.update, &tables.update)
}

/// The last whole checkpoint of a run, and those after it.
#[derive(Debug)]
pub struct LastWhole {
    /// The checkpoint, of which every file was verified.
    pub checkpoint: Checkpoint,
    /// Later checkpoints, which are damaged.
    pub damaged: Vec<PathBuf>,
}

/// Opens the checkpoint at `path`, or the last whole one of the run at `path`; damaged ones after it are noticed. A checkpoint
/// that is named itself must be whole.
pub fn open_last_whole(path: &Path, control: &Control) -> Result<LastWhole, OpenError> {
    if is_checkpoint(path) {
        return Ok(LastWhole { checkpoint: open_verified(path, control)?, damaged: Vec::new() });
    }
    let (mut damaged, mut reasons) = (Vec::new(), Vec::new());
    for candidate in candidates(path)? {
        match open_verified(&candidate, control) {
            Ok(checkpoint) => {
                let any = !reasons.is_empty();
                reasons.into_iter().for_each(|why| control.notice(Notice::Damaged { why }));
                if any {
                    let (step, path) = (checkpoint.manifest().step, checkpoint.path().to_owned());
                    control.notice(Notice::Earlier { step, path });
                }
                return Ok(LastWhole { checkpoint, damaged });
            }
            Err(error) if error.is_damage() => {
                reasons.push(chain(&error));
                damaged.push(candidate);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if damaged.is_empty() {
        return Err(CheckpointError::NotFound { path: path.to_owned() }.into());
    }
    Err(OpenError::NoneWhole { path: path.to_owned(), damaged: reasons })
}

/// Gives damaged checkpoints other names, so that their steps can be saved again.
pub fn set_all_aside(damaged: &[PathBuf], control: &Control) -> Result<(), CheckpointError> {
    for path in damaged {
        let to = set_aside(path)?;
        let name = to.file_name().unwrap_or_default().display().to_string();
        control.notice(Notice::SetAside { path: path.clone(), name });
    }
    Ok(())
}

/// The run folder that a checkpoint lies in: two levels up, or beside it where it was moved.
pub fn folder_of(checkpoint: &Path) -> PathBuf {
    let whole = std::path::absolute(checkpoint).unwrap_or_else(|_| checkpoint.to_owned());
    let root = whole.parent().unwrap_or(&whole);
    let is_root = root.file_name().is_some_and(|name| name == CHECKPOINTS);
    if is_root { root.parent().unwrap_or(root).to_owned() } else { root.to_owned() }
}
