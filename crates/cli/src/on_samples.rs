//! A checkpoint, and samples to run it on: what `eval` and `affinity` share.

use crate::folder::VOCABULARIES;
use crate::logs::{self, OpenLogs};
use crate::signals::{Stop, stop_on_signals};
use crate::train::{SavedRun, folder_of};
use anyhow::{Context, Result, ensure};
use spec::optimizer::UpdateRule;
use spec::run::{Config, DataFormat, Run};
use std::path::PathBuf;
use training::Logs;
use training::checkpoint::Checkpoint;

/// Which checkpoint, on what, and where.
#[derive(clap::Args, Clone, Debug)]
pub struct OnSamples {
    /// A checkpoint, or the folder of a run: its last one
    #[arg(long, value_name = "DIR")]
    pub checkpoint: PathBuf,
    #[command(flatten)]
    pub samples: Samples,
}

/// Samples to run a checkpoint on, and where.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Samples to read: paths and globs [default: what the run was evaluated on]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub data: Vec<String>,
    /// How they are written: criteo-tsv, csv, parquet, prepared or synthetic [default: as in training]
    #[arg(long)]
    pub format: Option<DataFormat>,
    /// The columns of csv and parquet data, as TOML [default: as in training]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Refuse the first bad line
    #[arg(long)]
    pub strict: bool,
    /// Samples a step [default: as in training]
    #[arg(long, value_name = "GLOBAL")]
    pub batch: Option<usize>,
    /// Hosts [default: 1]
    #[arg(long, value_name = "H")]
    pub hosts: Option<usize>,
    /// Ranks on each host [default: as many as the machine has cores]
    #[arg(long, value_name = "L")]
    pub ranks_per_host: Option<usize>,
}

/// A verified checkpoint, the run that scores it, and its samples.
pub struct Opened {
    pub checkpoint: Checkpoint,
    pub run: Run,
    pub logs: Logs,
    /// Asks to stop once a signal has come.
    pub stop: Stop,
    /// Logs that were prepared for this command alone live as long as it does.
    _kept: Option<OpenLogs>,
}

impl OnSamples {
    pub fn open(&self) -> Result<Opened> {
        self.samples.open(&self.checkpoint)
    }
}

impl Samples {
    /// Opens a checkpoint to run it on these samples.
    pub fn open(&self, checkpoint: &std::path::Path) -> Result<Opened> {
        let named = checkpoint;
        let checkpoint = crate::checkpoint::open_last_whole(named)?.checkpoint;
        let mut config = SavedRun::of(&checkpoint)?.config;
        self.configure(&mut config)?;
        let folder = folder_of(checkpoint.path());
        let stop = stop_on_signals()?;
        if config.data.format.unwrap_or_default() == DataFormat::Synthetic {
            ensure!(
                self.data.is_empty(),
                "the run's data is synthetic; say how --data is written with --format"
            );
            let run = config.check().context("the run of the checkpoint")?;
            return Ok(Opened { checkpoint, run, logs: Logs::Synthetic, stop, _kept: None });
        }
        let open = logs::open_for_evaluation(&config.data, &folder.join(VOCABULARIES), &stop);
        let open = stop.ended(open)?;
        let run =
            open.check(&config).with_context(|| format!("{} on {:?}", named.display(), config.data.eval))?;
        Ok(Opened { checkpoint, run, logs: open.logs.clone(), stop, _kept: Some(open) })
    }

    /// The run's config, to predict with on one machine: no optimizer state, no checkpoints.
    fn configure(&self, config: &mut Config) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        config.topology.hosts = Some(self.hosts.unwrap_or(1));
        config.topology.ranks_per_host = Some(self.ranks_per_host.unwrap_or(cores));
        // Groups and peers were those of the training's cluster.
        config.topology.hosts_per_tower = None;
        config.train.peer_permute = None;
        config.placement = Default::default();
        config.train.threads = None;
        for optimizer in [&mut config.optimizer.dense, &mut config.optimizer.tables].into_iter().flatten() {
            optimizer.update = UpdateRule::Sgd;
        }
        config.train.batch = self.batch.or(config.train.batch);
        let data = &mut config.data;
        if !self.data.is_empty() {
            data.eval = self.data.clone();
        }
        data.format = self.format.or(data.format);
        if let Some(path) = &self.schema {
            data.schema = Some(crate::args::read_toml(path)?);
        }
        data.strict = self.strict.then_some(true).or(data.strict);
        if data.format.unwrap_or_default() != DataFormat::Synthetic {
            ensure!(!data.eval.is_empty(), "the run had no evaluation data; name some with --data");
        }
        Ok(())
    }
}
