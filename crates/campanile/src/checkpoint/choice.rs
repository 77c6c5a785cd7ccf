//! Which checkpoint of a run is used: the best one where the run keeps it, unless the user says otherwise.

use super::{OpenError, open_last_whole, open_verified};
use crate::Error;
use crate::cluster::by_first_rank;
use crate::control::Control;
use crate::error::chain;
use crate::event::Notice;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use training::checkpoint::{Checkpoint, candidates, is_checkpoint, locate, of_step};
use training::{BestSoFar, Cluster};

/// Checkpoint of a run that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The last one.
    Last,
    /// The one with the best value of the run's metric.
    Best,
}

impl FromStr for Use {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Use::Last),
            "best" => Ok(Use::Best),
            _ => Err(format!("unknown checkpoint {text:?}; use last or best")),
        }
    }
}

/// Checkpoint that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Used {
    /// The checkpoint that the user named itself.
    Named,
    /// The last one of the run.
    Last,
    /// The best one of the run, whose last is that of step `last`.
    Best {
        /// Steps done in the last checkpoint.
        last: u64,
    },
}

impl Used {
    /// The choice as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Used::Named => "named",
            Used::Last => "last",
            Used::Best { .. } => "best",
        }
    }

    /// The choice after the step that was taken, where a reader could expect another: ` (the best; the last is step 1200)`.
    pub fn told(self, step: u64) -> String {
        match self {
            Used::Best { last } if last != step => format!(" (the best; the last is step {last})"),
            _ => String::new(),
        }
    }
}

/// A checkpoint to use, of which every file was verified.
#[derive(Debug)]
pub struct Chosen {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
}

/// Opens the checkpoint of the run at `path` to be used: the best one where the run keeps it, else the last whole one; or the
/// checkpoint at `path` itself. A best one that is damaged is noticed, and the last whole one stands for it.
pub fn open_to_use(path: &Path, asked: Option<Use>, control: &Control) -> Result<Chosen, OpenError> {
    let (at, used) = locate_to_use(path, asked)?;
    let last = || {
        open_last_whole(path, control).map(|last| Chosen { checkpoint: last.checkpoint, used: Used::Last })
    };
    match (used, asked) {
        (Used::Last, _) => last(),
        (Used::Named, _) | (Used::Best { .. }, Some(_)) => {
            Ok(Chosen { checkpoint: open_verified(&at, control)?, used })
        }
        (Used::Best { .. }, None) => match open_verified(&at, control) {
            Ok(checkpoint) => Ok(Chosen { checkpoint, used }),
            Err(error) if error.is_damage() => {
                control.notice(Notice::Damaged { why: chain(&error) });
                let chosen = last()?;
                let (step, path) = (chosen.checkpoint.manifest().step, chosen.checkpoint.path().to_owned());
                control.notice(Notice::Earlier { step, path });
                Ok(chosen)
            }
            Err(error) => Err(error.into()),
        },
    }
}

/// Opens the checkpoint that [`open_to_use`] opens, on all ranks: the first chooses and verifies it.
pub(crate) fn open_to_use_on(
    path: &Path,
    asked: Option<Use>,
    cluster: &Cluster,
    control: &Control,
) -> Result<Chosen, Error> {
    let mut opened = None;
    let (at, used) = by_first_rank(cluster, || {
        let chosen = opened.insert(open_to_use(path, asked, control)?);
        Ok::<_, Error>((chosen.checkpoint.path().to_owned(), chosen.used))
    })?;
    match opened {
        Some(chosen) => Ok(chosen),
        None => Ok(Chosen { checkpoint: Checkpoint::open(&at)?, used }),
    }
}

/// Finds the checkpoint that [`open_to_use`] opens, without reading more than manifests.
pub fn locate_to_use(path: &Path, asked: Option<Use>) -> Result<(PathBuf, Used), OpenError> {
    if is_checkpoint(path) {
        return match asked {
            None => Ok((path.to_owned(), Used::Named)),
            Some(_) => Err(OpenError::NamedAndChosen { path: path.to_owned() }),
        };
    }
    let last = locate(path)?;
    let best = if asked == Some(Use::Last) { None } else { best_of(path)? };
    match (best, asked) {
        (Some(best), _) => Ok(best),
        (None, Some(Use::Best)) => Err(OpenError::NoBest { path: path.to_owned() }),
        (None, _) => Ok((last, Used::Last)),
    }
}

/// The best checkpoint of the run at `path`, as the last one that can be read names it, if it is there.
fn best_of(path: &Path) -> Result<Option<(PathBuf, Used)>, OpenError> {
    let Some(last) = candidates(path)?.into_iter().find_map(|at| Checkpoint::open(at).ok()) else {
        return Ok(None);
    };
    let best = BestSoFar::of(last.manifest()).and_then(|best| best.best().map(|best| best.step));
    let best = best.map(|step| of_step(last.path(), step)).filter(|at| is_checkpoint(at));
    Ok(best.map(|at| (at, Used::Best { last: last.manifest().step })))
}
