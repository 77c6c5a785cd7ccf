//! Going on with a run: what its folder and its last checkpoint say.

pub(crate) mod difference;

use crate::checkpoint::{
    LastWhole, OpenError, SavedRun, folder_of, open_last_whole, open_verified, set_all_aside,
};
use crate::cluster;
use crate::control::Control;
use crate::error::chain;
use crate::event::Notice;
use crate::file::{FileError, read_toml};
use crate::folder::{CONFIG, METRICS};
use crate::logs::OpenLogs;
use spec::run::{Config, DataFormat, OptimizerConfig, Run};
use std::path::{Path, PathBuf};
use training::Cluster;
use training::checkpoint::{Checkpoint, CheckpointError, candidates, locate};

/// Reason why a run cannot be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// A folder without a run that began.
    #[error(
        "{0}: the run in this folder was stopped before it began, without a {CONFIG}; start it again with --out {0}",
        folder.display()
    )]
    NotBegun {
        /// Folder of the run.
        folder: PathBuf,
    },
    /// Another split of the log than before.
    #[error("data.split (--split) is {now}, but the run in {} has {before}; leave it out", folder.display())]
    Split {
        /// Folder of the run.
        folder: PathBuf,
        /// Split that was asked for, in words.
        now: String,
        /// Split of the run, in words.
        before: String,
    },
    /// Another model, optimizer, batch, seed or log than before.
    #[error(
        "this is not the run in {}; leave out what differs, or start another run with --out and a new folder:{}",
        folder.display(), difference::told(differences)
    )]
    Another {
        /// Folder of the run.
        folder: PathBuf,
        /// A line for every value that differs, with both values.
        differences: Vec<String>,
    },
    /// Training samples that are not those of the run.
    #[error(
        "the training data is not what the run in {} has: the samples of {paths:?} have changed (xxh3 {now} now, {before} in \
         the run); bring the old files back, or start another run with --out",
        folder.display()
    )]
    OtherSamples {
        /// Folder of the run.
        folder: PathBuf,
        /// Files of the log.
        paths: Vec<String>,
        /// Digest of the samples.
        now: String,
        /// Digest of the samples of the run.
        before: String,
    },
    /// Steps that are added where the learning rate has come to 0.
    #[error(
        "the run's learning rate of {which} is 0 from step {step} on; longer runs need another optimizer.{which}.rate, in a \
         config file"
    )]
    NoRate {
        /// `dense` or `tables`.
        which: &'static str,
        /// Number of steps done.
        step: u64,
    },
    /// Fewer steps than were done.
    #[error(
        "the run has already done {done} steps, but only {steps} are requested; raise --steps or --epochs"
    )]
    Shorter {
        /// Steps done.
        done: u64,
        /// Steps asked for.
        steps: u64,
    },
    /// A checkpoint that is not the last whole one of its run.
    #[error(
        "{} is a later checkpoint of the run than step {step}; resume that one, or move it away",
        later.display()
    )]
    NotLast {
        /// The later checkpoint.
        later: PathBuf,
        /// Steps done in the one that was named.
        step: u64,
    },
    /// A config that cannot be compared.
    #[error("the model cannot be written as JSON")]
    Model(#[source] serde_json::Error),
    /// A checkpoint that cannot be opened.
    #[error(transparent)]
    Checkpoint(#[from] OpenError),
    /// The config of the run cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The first rank could not find the run.
    #[error(transparent)]
    Collective(#[from] collectives::CollectiveError),
}

impl From<CheckpointError> for ResumeError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(error.into())
    }
}

/// A run to go on with.
#[derive(Debug)]
pub struct Resumed {
    /// Folder of the run.
    pub folder: PathBuf,
    /// Config of the run.
    pub config: Config,
    /// Last complete checkpoint of the run; `None` when it was killed before the first.
    pub checkpoint: Option<Checkpoint>,
    /// Optimizers of the run as the user wrote them.
    pub optimizer: Option<OptimizerConfig>,
    data: Option<String>,
    /// Checkpoints after that one, which are damaged.
    damaged: Vec<PathBuf>,
    /// Whether the learning rates were made for more steps than the run had so far.
    planned: bool,
}

impl Resumed {
    /// Finds the run at `path`: its folder, or one of its checkpoints. The first rank looks before the others: it verifies
    /// every file of the checkpoint, takes an earlier one where the last is damaged, and speaks for all.
    pub fn find(path: &Path, cluster: &Cluster, control: &Control) -> Result<Self, ResumeError> {
        cluster::first_rank_first(cluster, || Self::find_here(path, cluster, control))
    }

    fn find_here(path: &Path, cluster: &Cluster, control: &Control) -> Result<Self, ResumeError> {
        let first = cluster.has_first_rank();
        let last = match locate(path) {
            Ok(at) => at,
            // A run that was killed before its first checkpoint begins again.
            Err(CheckpointError::NotFound { .. }) if path.join(METRICS).is_file() => {
                return Self::from_the_beginning(path, first, control);
            }
            Err(error) => return Err(error.into()),
        };
        let LastWhole { checkpoint, mut damaged } = match first {
            true => open_last_whole(path, control)?,
            false => LastWhole { checkpoint: Checkpoint::open(&last)?, damaged: Vec::new() },
        };
        let SavedRun { mut config, optimizer, data } = SavedRun::of(&checkpoint)?;
        keep_order(&mut config);
        let folder = folder_of(checkpoint.path());
        if first {
            damaged = damaged_after(&folder, &checkpoint, damaged, control)?;
        }
        if cluster::is_distributed(cluster) {
            // At once, so that the other ranks find the same checkpoint to be the last.
            set_all_aside(&damaged, control)?;
            damaged.clear();
        }
        Ok(Self {
            folder,
            config,
            optimizer: Some(optimizer),
            checkpoint: Some(checkpoint),
            data,
            damaged,
            planned: false,
        })
    }

    /// The run in `folder`, which has no checkpoint yet.
    fn from_the_beginning(folder: &Path, first: bool, control: &Control) -> Result<Self, ResumeError> {
        let config = folder.join(CONFIG);
        if !config.is_file() {
            return Err(ResumeError::NotBegun { folder: folder.to_owned() });
        }
        let mut config: Config = read_toml(&config)?;
        keep_order(&mut config);
        if first {
            control.notice(Notice::FromTheBeginning { folder: folder.to_owned() });
        }
        Ok(Self {
            folder: folder.to_owned(),
            config,
            optimizer: None,
            checkpoint: None,
            data: None,
            damaged: Vec::new(),
            planned: false,
        })
    }

    /// The run that was begun in `folder`; `None` where no run was. All ranks find the same: the first looks before the others,
    /// and none goes on before all have looked.
    pub fn begun(folder: &Path, cluster: &Cluster, control: &Control) -> Result<Option<Self>, ResumeError> {
        let begun = cluster::first_rank_first(cluster, || Self::begun_here(folder, cluster, control))?;
        cluster::meet(cluster)?;
        Ok(begun)
    }

    fn begun_here(folder: &Path, cluster: &Cluster, control: &Control) -> Result<Option<Self>, ResumeError> {
        if !folder.exists() {
            return Ok(None);
        }
        match Self::find_here(folder, cluster, control) {
            Ok(resumed) => Ok(Some(resumed)),
            Err(
                ResumeError::NotBegun { .. }
                | ResumeError::Checkpoint(OpenError::Checkpoint(CheckpointError::NotFound { .. })),
            ) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The run, whose learning rates were planned for all the steps that it gets: a rate that comes to 0 is no mistake.
    pub(crate) fn planned(self) -> Self {
        Self { planned: true, ..self }
    }

    /// Makes room for the steps whose checkpoints are damaged: these get other names. To be called once the run has its
    /// folder to itself.
    pub(crate) fn set_damaged_aside(&self, control: &Control) -> Result<(), ResumeError> {
        Ok(set_all_aside(&self.damaged, control)?)
    }

    /// Whether this is the run in the folder `out`.
    pub fn is_in(&self, out: &Path) -> bool {
        same(&self.folder, out)
    }

    /// The config to go on with. With `other_length` the learning rates are those that suit it, but for what the user
    /// once wrote.
    pub fn base(&self, other_length: bool) -> Config {
        let mut base = self.config.clone();
        if let Some(optimizer) = self.optimizer.as_ref().filter(|_| other_length) {
            base.optimizer.clone_from(optimizer);
        }
        base
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.manifest().step)
    }

    /// Refuses to go on with another split of the log, before the log is prepared for it.
    pub fn check_split(&self, config: &Config) -> Result<(), ResumeError> {
        let of = |config: &Config| (config.data.split, config.data.split_by.clone());
        let said = |config: &Config| match of(config) {
            (None, _) => "none".to_owned(),
            (Some(share), None) => share.to_string(),
            (Some(share), Some(column)) => format!("{share} by {column}"),
        };
        if self.checkpoint.is_none() || of(&self.config) == of(config) {
            return Ok(());
        }
        let (now, before) = (said(config), said(&self.config));
        Err(ResumeError::Split { folder: self.folder.clone(), now, before })
    }

    /// Refuses to go on with another model, optimizer, batch or log. Another cluster, device, dataflow, wire or all-reduce may
    /// take over: the state does not depend on how it got there.
    pub fn check(&self, explicit: &Config, run: &Run, logs: &OpenLogs) -> Result<(), ResumeError> {
        if self.checkpoint.is_none() {
            return Ok(());
        }
        difference::refuse_another(&self.folder, &self.config, explicit)?;
        let (before, now) = (&self.data, &logs.fingerprint());
        if before != now {
            let digest = |of: &Option<String>| of.clone().unwrap_or_else(|| "none".into());
            return Err(ResumeError::OtherSamples {
                folder: self.folder.clone(),
                paths: explicit.data.train.clone(),
                now: digest(now),
                before: digest(before),
            });
        }
        for (which, optimizer) in [("dense", &run.dense_optimizer), ("tables", &run.table_optimizer)] {
            // The saved decay may have reached its end: what is added would learn nothing.
            let longer = Some(run.steps) > self.config.train.steps && !self.planned;
            if longer && optimizer.rate.at(run.steps - 1) <= 0.0 {
                return Err(ResumeError::NoRate { which, step: self.config.train.steps.unwrap_or_default() });
            }
        }
        match self.step() {
            done if done > run.steps => Err(ResumeError::Shorter { done, steps: run.steps }),
            _ => Ok(()),
        }
    }
}

/// A run of an older version that does not say how its log was shuffled did not shuffle it.
fn keep_order(config: &mut Config) {
    if config.data.format.unwrap_or_default() != DataFormat::Synthetic {
        config.data.shuffle.get_or_insert(0);
    }
}

/// The checkpoints in `folder` after the one to go on from, all of which must be damaged; some are `known` to be. A whole
/// one is refused: going on from an earlier one would write it again.
fn damaged_after(
    folder: &Path,
    checkpoint: &Checkpoint,
    mut known: Vec<PathBuf>,
    control: &Control,
) -> Result<Vec<PathBuf>, ResumeError> {
    let later = candidates(folder).unwrap_or_default();
    for later in later.into_iter().take_while(|later| !same(later, checkpoint.path())) {
        if known.iter().any(|known| same(known, &later)) {
            continue;
        }
        match open_verified(&later, control) {
            Ok(_) => {
                return Err(ResumeError::NotLast { later, step: checkpoint.manifest().step });
            }
            Err(error) if error.is_damage() => {
                control.notice(Notice::Damaged { why: chain(&error) });
                known.push(later);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(known)
}

/// Whether two paths lead to the same place.
fn same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
