//! A checkpoint, and samples to run it on: what `eval`, `predict` and `affinity` share.

use crate::args::is_prepared;
use crate::folder::{PREPARED, VOCABULARIES};
use crate::logs::{self, OpenLogs, Unlabelled};
use crate::output::Inputs;
use crate::progress::Console;
use crate::signals::{Stop, stop_on_signals};
use crate::train::{SavedRun, folder_of};
use anyhow::{Context, Result, ensure};
use data::Split;
use spec::optimizer::UpdateRule;
use spec::run::{Config, DataFormat, Run};
use spec::schema::Schema;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use training::Logs;
use training::checkpoint::{Checkpoint, locate};

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
    /// Which samples of the logs.
    pub split: Split,
    /// Asks to stop once a signal has come.
    pub stop: Stop,
    /// Logs that were prepared for this command alone live as long as it does.
    _kept: Option<OpenLogs>,
}

impl Opened {
    /// How many samples there are.
    pub fn samples(&self) -> u64 {
        if self.split == Split::Train { self.run.data.samples() } else { self.run.data.eval_samples() }
    }

    /// The last checkpoint of the run in `folder`, on the samples that it was trained on, which are open already.
    pub fn on_training(folder: &Path, logs: &OpenLogs, console: Console) -> Result<Self> {
        let checkpoint = crate::checkpoint::open_verified(&locate(folder)?, console)?;
        let mut config = SavedRun::of(&checkpoint)?.config;
        Samples::default().configure(&mut config);
        let run = logs.check(&config).context("the run of the checkpoint")?;
        let stop = stop_on_signals()?;
        Ok(Self { checkpoint, run, logs: logs.logs.clone(), split: Split::Train, stop, _kept: None })
    }
}

impl OnSamples {
    pub fn open(&self, console: Console) -> Result<Opened> {
        self.samples.open(&self.checkpoint, console)
    }
}

impl Samples {
    /// Files that [`open`](Self::open) reads. What cannot be found is left out here, and refused there.
    pub fn inputs(&self, checkpoint: &Path) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add_all(&self.schema).add_log(&self.data);
        let Ok(at) = locate(checkpoint) else { return inputs };
        inputs.add(&at).add(folder_of(&at).join(VOCABULARIES));
        let saved = Checkpoint::open(&at).map_err(anyhow::Error::from).and_then(|c| SavedRun::of(&c));
        if let Ok(SavedRun { config, .. }) = saved {
            inputs.add_log(&config.data.train).add_log(&config.data.eval);
        }
        inputs
    }

    /// Opens a checkpoint to measure on these samples, or on those it was trained on where none are named: what is measured
    /// decides how a model is built, so that no test row may count.
    pub fn open_for_training(&self, checkpoint: &Path, console: Console) -> Result<Opened> {
        if !self.data.is_empty() {
            return self.open(checkpoint, console);
        }
        let named = checkpoint;
        let checkpoint = crate::checkpoint::open_last_whole(named, console)?.checkpoint;
        let stop = stop_on_signals()?;
        let SavedRun { mut config, data, .. } = SavedRun::of(&checkpoint)?;
        self.configure(&mut config);
        let synthetic = config.data.format.unwrap_or_default() == DataFormat::Synthetic;
        if synthetic {
            let run = planning::check(&config).context("the run of the checkpoint")?;
            return Ok(Opened {
                checkpoint,
                run,
                logs: Logs::Synthetic,
                split: Split::Train,
                stop,
                _kept: None,
            });
        }
        let folder = folder_of(checkpoint.path());
        let (prepared, vocabularies) = (folder.join(PREPARED), folder.join(VOCABULARIES));
        let open =
            logs::open_trained_on(&config.data, &prepared, data.as_deref(), &vocabularies, &stop, console);
        let open = stop.ended(open)?;
        let run =
            open.check(&config).with_context(|| format!("{} on {:?}", named.display(), config.data.train))?;
        Ok(Opened { checkpoint, run, logs: open.logs.clone(), split: Split::Train, stop, _kept: Some(open) })
    }

    /// Opens a checkpoint to run it on these samples.
    pub fn open(&self, checkpoint: &Path, console: Console) -> Result<Opened> {
        let named = checkpoint;
        let checkpoint = crate::checkpoint::open_last_whole(named, console)?.checkpoint;
        let mut config = SavedRun::of(&checkpoint)?.config;
        let folder = folder_of(checkpoint.path());
        self.configure(&mut config);
        self.name_samples(&mut config, &folder)?;
        let stop = stop_on_signals()?;
        if config.data.format.unwrap_or_default() == DataFormat::Synthetic {
            ensure!(
                self.data.is_empty(),
                "the run's data is synthetic; say how --data is written with --format"
            );
            let run = planning::check(&config).context("the run of the checkpoint")?;
            return Ok(Opened {
                checkpoint,
                run,
                logs: Logs::Synthetic,
                split: Split::Eval,
                stop,
                _kept: None,
            });
        }
        ensure!(!config.data.eval.is_empty(), "the run had no evaluation data; name some with --data");
        let open = logs::open_for_evaluation(&config.data, &folder.join(VOCABULARIES), &stop, console);
        let open = stop.ended(open)?;
        let run =
            open.check(&config).with_context(|| format!("{} on {:?}", named.display(), config.data.eval))?;
        Ok(Opened { checkpoint, run, logs: open.logs.clone(), split: Split::Eval, stop, _kept: Some(open) })
    }

    /// Opens a checkpoint to score a log with, whose labels are left aside and whose rows have the text of column `key`. Up to
    /// `max_bad_share` of its lines may be bad.
    pub fn open_unlabelled(
        &self,
        checkpoint: &Path,
        key: Option<&str>,
        max_bad_share: f64,
        stop: &AtomicBool,
        console: Console,
    ) -> Result<(Checkpoint, Config, Unlabelled)> {
        let checkpoint = crate::checkpoint::open_last_whole(checkpoint, console)?.checkpoint;
        let mut config = SavedRun::of(&checkpoint)?.config;
        let folder = folder_of(checkpoint.path());
        self.configure(&mut config);
        self.name_samples(&mut config, &folder)?;
        ensure!(
            config.data.format.unwrap_or_default() != DataFormat::Synthetic,
            "the run's data is synthetic; say how --data is written with --format"
        );
        config.data.strict = Some(self.strict);
        config.data.max_bad_share = Some(max_bad_share);
        let log = logs::open_unlabelled(&config.data, &folder.join(VOCABULARIES), key, stop, console)?;
        Ok((checkpoint, config, log))
    }

    /// The run's config, to predict with on one machine: no optimizer state, no checkpoints.
    fn configure(&self, config: &mut Config) {
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
        config.data.strict = self.strict.then_some(true).or(config.data.strict);
    }

    /// Says in `config` which samples are read, of a run that is kept in `folder`.
    fn name_samples(&self, config: &mut Config, folder: &Path) -> Result<()> {
        let data = &mut config.data;
        let held_out = folder.join(PREPARED).join("eval");
        if !self.data.is_empty() {
            let format = self.format.or(is_prepared(&self.data).then_some(DataFormat::Prepared));
            if data.format == Some(DataFormat::Prepared) && format != data.format {
                // What the prepared log was made from is described in it.
                match before_preparation(&data.train) {
                    Some(before) => (data.format, data.schema) = before,
                    None => ensure!(
                        format.is_some(),
                        "the run was trained on a prepared log that is not there any more; say how --data is written with \
                         --format"
                    ),
                }
            }
            data.format = format.or(data.format);
            data.eval = self.data.clone();
        } else if data.split.is_some() && held_out.is_dir() {
            // What was kept from training, as the run prepared it.
            data.format = Some(DataFormat::Prepared);
            data.eval = vec![held_out.to_string_lossy().into_owned()];
        }
        (data.split, data.split_by) = (None, None);
        data.format = self.format.or(data.format);
        if let Some(path) = &self.schema {
            data.schema = Some(crate::args::read_toml(path)?);
        }
        Ok(())
    }
}

/// Format and schema of the log that a prepared one was made from, where it is still there to tell.
fn before_preparation(paths: &[String]) -> Option<(Option<DataFormat>, Option<Schema>)> {
    let log = data::PreparedLog::open(Path::new(paths.first()?)).ok()?;
    let manifest = log.manifest();
    Some((manifest.source.format.parse().ok(), Some(manifest.schema.clone())))
}
