//! Going on with a run: what its folder and its last checkpoint say.

use crate::args::read_toml;
use crate::folder::{CHECKPOINTS, CONFIG, METRICS};
use crate::logs::OpenLogs;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use spec::run::{Config, DataFormat, OptimizerConfig, Run};
use std::path::{Path, PathBuf};
use training::checkpoint::{Checkpoint, CheckpointError, locate};

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
}

impl Resumed {
    /// The run at `path`: its folder, or one of its checkpoints. Whoever is the `first` to look verifies every file of the
    /// checkpoint, and speaks for the others.
    pub fn find(path: &Path, first: bool) -> Result<Self> {
        let checkpoint = match locate(path) {
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
                    eprintln!("{}: no complete checkpoint; starting from the beginning", path.display());
                }
                return Ok(Self {
                    folder: path.to_owned(),
                    config,
                    optimizer: None,
                    checkpoint: None,
                    data: None,
                });
            }
            Err(error) => bail!(error),
        };
        let checkpoint = match first {
            true => crate::checkpoint::open_verified(&checkpoint)?,
            false => Checkpoint::open(&checkpoint)?,
        };
        let SavedRun { mut config, optimizer, data } = SavedRun::of(&checkpoint)?;
        keep_order(&mut config);
        let folder = folder_of(checkpoint.path());
        let step = checkpoint.manifest().step;
        let latest = locate(&folder).ok().filter(|latest| !same(latest, checkpoint.path()));
        if let Some(latest) = latest {
            bail!(
                "{} is a later checkpoint of the run than step {step}; resume that one, or delete it",
                latest.display()
            );
        }
        Ok(Self { folder, config, optimizer: Some(optimizer), checkpoint: Some(checkpoint), data })
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
        let differs =
            |section: &str| format!("{section} is not what the run in {} has", self.folder.display());
        let unnamed = |config: &Config| spec::run::ModelConfig { preset: None, ..config.model.clone() };
        ensure!(unnamed(&self.config) == unnamed(explicit), "{}", differs("[model]"));
        ensure!(self.config.train.batch == explicit.train.batch, "{}", differs("train.batch"));
        ensure!(self.config.train.seed == explicit.train.seed, "{}", differs("train.seed"));
        ensure!(self.config.data.shuffle == explicit.data.shuffle, "{}", differs("data.shuffle"));
        ensure!(self.config.data.synthetic == explicit.data.synthetic, "{}", differs("[data.synthetic]"));
        let rules = |config: &Config| {
            (config.optimizer.dense.map(|o| o.update), config.optimizer.tables.map(|o| o.update))
        };
        ensure!(rules(&self.config) == rules(explicit), "{}", differs("an update rule in [optimizer]"));
        ensure!(
            self.data == logs.fingerprint(),
            "{}; the samples of {:?} have changed",
            differs("the training data"),
            explicit.data.train
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
