//! Going on with a run: what its folder and its last checkpoint say.

use super::difference;
use crate::args::read_toml;
use crate::checkpoint::{LastWhole, open_last_whole, open_verified, set_all_aside};
use crate::cluster::Place;
use crate::folder::{CHECKPOINTS, CONFIG, METRICS};
use crate::logs::OpenLogs;
use crate::progress::Console;
use crate::text::tell;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use spec::run::{Config, DataFormat, OptimizerConfig, Run};
use std::path::{Path, PathBuf};
use training::checkpoint::{Checkpoint, CheckpointError, candidates, locate};

/// What a checkpoint says of its run.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRun {
    /// The config, with every default written out.
    pub config: Config,
    /// The optimizers as the user wrote them: what was left out follows the length of the run.
    pub optimizer: OptimizerConfig,
    /// What the training samples are, where they are not generated.
    pub data: Option<String>,
}

/// The value that checkpoints keep.
pub fn saved(explicit: &Config, written: &OptimizerConfig, logs: &OpenLogs) -> Result<serde_json::Value> {
    let saved = SavedRun { config: explicit.clone(), optimizer: written.clone(), data: logs.fingerprint() };
    serde_json::to_value(saved).context("the config cannot be kept")
}

impl SavedRun {
    /// What `checkpoint` says.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self> {
        let run = checkpoint.manifest().run.clone();
        serde_json::from_value(run)
            .with_context(|| format!("{}: the run in its manifest", checkpoint.path().display()))
    }
}

/// A run to go on with.
pub struct Resumed {
    /// Its folder.
    pub folder: PathBuf,
    /// Its config.
    pub config: Config,
    /// Its last complete checkpoint; `None` when it was killed before the first.
    pub checkpoint: Option<Checkpoint>,
    /// Its optimizers as the user wrote them.
    pub optimizer: Option<OptimizerConfig>,
    data: Option<String>,
    /// Checkpoints after that one, which are damaged.
    damaged: Vec<PathBuf>,
}

impl Resumed {
    /// The run at `path`: its folder, or one of its checkpoints. The first rank looks before the others: it verifies every
    /// file of the checkpoint, takes an earlier one where the last is damaged, and speaks for all.
    pub fn find(path: &Path, place: &Place, console: Console) -> Result<Self> {
        place.first_rank_first(|| Self::find_here(path, place, console))
    }

    fn find_here(path: &Path, place: &Place, console: Console) -> Result<Self> {
        let first = place.has_first_rank();
        let last = match locate(path) {
            Ok(at) => at,
            // A run that was killed before its first checkpoint begins again.
            Err(CheckpointError::NotFound { .. }) if path.join(METRICS).is_file() => {
                let config = path.join(CONFIG);
                ensure!(
                    config.is_file(),
                    "{}: the run in this folder was stopped before it began, without a {CONFIG}; start it again with \
                     --out {0}",
                    path.display()
                );
                let mut config: Config = read_toml(&config)?;
                keep_order(&mut config);
                if first {
                    console.note(format!(
                        "{}: no complete checkpoint; starting from the beginning",
                        path.display()
                    ));
                }
                return Ok(Self {
                    folder: path.to_owned(),
                    config,
                    optimizer: None,
                    checkpoint: None,
                    data: None,
                    damaged: Vec::new(),
                });
            }
            Err(error) => bail!(error),
        };
        let LastWhole { checkpoint, mut damaged } = match first {
            true => open_last_whole(path, console)?,
            false => LastWhole { checkpoint: Checkpoint::open(&last)?, damaged: Vec::new() },
        };
        let SavedRun { mut config, optimizer, data } = SavedRun::of(&checkpoint)?;
        keep_order(&mut config);
        let folder = folder_of(checkpoint.path());
        if first {
            damaged = damaged_after(&folder, &checkpoint, damaged, console)?;
        }
        if place.is_distributed() {
            // At once, so that the other ranks find the same checkpoint to be the last.
            set_all_aside(&damaged)?;
            damaged.clear();
        }
        Ok(Self { folder, config, optimizer: Some(optimizer), checkpoint: Some(checkpoint), data, damaged })
    }

    /// Makes room for the steps whose checkpoints are damaged: these get other names. To be called once the run has its
    /// folder to itself.
    pub fn set_damaged_aside(&self) -> Result<()> {
        set_all_aside(&self.damaged)
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
    pub fn check_split(&self, config: &Config) -> Result<()> {
        let of = |config: &Config| (config.data.split, config.data.split_by.clone());
        let said = |config: &Config| match of(config) {
            (None, _) => "none".to_owned(),
            (Some(share), None) => share.to_string(),
            (Some(share), Some(column)) => format!("{share} by {column}"),
        };
        ensure!(
            self.checkpoint.is_none() || of(&self.config) == of(config),
            "data.split (--split) is {}, but the run in {} has {}; leave it out",
            said(config),
            self.folder.display(),
            said(&self.config)
        );
        Ok(())
    }

    /// Refuses to go on with another model, optimizer, batch or log. Another cluster, dataflow or wire may take over: the
    /// state does not depend on how it got there.
    pub fn check(&self, explicit: &Config, run: &Run, logs: &OpenLogs) -> Result<()> {
        if self.checkpoint.is_none() {
            return Ok(());
        }
        difference::refuse_another(&self.folder, &self.config, explicit)?;
        let (before, now) = (&self.data, &logs.fingerprint());
        ensure!(
            before == now,
            "the training data is not what the run in {} has: the samples of {:?} have changed (xxh3 {} now, {} in the run); \
             bring the old files back, or start another run with --out",
            self.folder.display(),
            explicit.data.train,
            now.as_deref().unwrap_or("none"),
            before.as_deref().unwrap_or("none")
        );
        for (which, optimizer) in [("dense", &run.dense_optimizer), ("tables", &run.table_optimizer)] {
            // The saved decay may have reached its end: what is added would learn nothing.
            ensure!(
                Some(run.steps) <= self.config.train.steps || optimizer.rate.at(run.steps - 1) > 0.0,
                "the run's learning rate of {which} is 0 from step {} on; longer runs need another \
                 optimizer.{which}.rate, in a config file",
                self.config.train.steps.unwrap_or_default()
            );
        }
        let step = self.step();
        ensure!(step <= run.steps, "the run has done {step} steps, more than the {} asked for", run.steps);
        Ok(())
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
    console: Console,
) -> Result<Vec<PathBuf>> {
    let later = candidates(folder).unwrap_or_default();
    for later in later.into_iter().take_while(|later| !same(later, checkpoint.path())) {
        if known.iter().any(|known| same(known, &later)) {
            continue;
        }
        match open_verified(&later, console) {
            Ok(_) => bail!(
                "{} is a later checkpoint of the run than step {}; resume that one, or move it away",
                later.display(),
                checkpoint.manifest().step
            ),
            Err(error) if error.is_damage() => {
                tell(format!("damaged: {:#}", anyhow::Error::from(error)));
                known.push(later);
            }
            Err(error) => bail!(error),
        }
    }
    Ok(known)
}

/// The run folder that a checkpoint lies in: two levels up, or beside it where it was moved.
pub fn folder_of(checkpoint: &Path) -> PathBuf {
    let whole = std::path::absolute(checkpoint).unwrap_or_else(|_| checkpoint.to_owned());
    let root = whole.parent().unwrap_or(&whole);
    let is_root = root.file_name().is_some_and(|name| name == CHECKPOINTS);
    if is_root { root.parent().unwrap_or(root).to_owned() } else { root.to_owned() }
}

/// Whether two paths lead to the same place.
fn same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that were kept before logs were shuffled by default go on as they began.
    #[test]
    fn older_runs_keep_the_order_of_their_log() {
        let mut config = Config::default();
        keep_order(&mut config);
        assert_eq!(config, Config::default(), "a synthetic log has no order");
        config.data.format = Some(DataFormat::Csv);
        keep_order(&mut config);
        assert_eq!(config.data.shuffle, Some(0));
        config.data.shuffle = Some(100);
        keep_order(&mut config);
        assert_eq!(config.data.shuffle, Some(100));
    }
}
