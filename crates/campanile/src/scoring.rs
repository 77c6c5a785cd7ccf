//! A checkpoint, and samples to run it on: what evaluating, predicting and measuring affinity share.

use crate::Error;
use crate::checkpoint::{Chosen, SavedRun, Use, Used, folder_of, locate_to_use, open_to_use, open_to_use_on};
use crate::cluster::{self, ClusterError};
use crate::control::Control;
use crate::file::read_toml;
use crate::folder::{PREPARED, VOCABULARIES};
use crate::logs::{self, LogError, OpenLogs, Tables, Unlabelled, is_prepared, must_be_prepared};
use crate::output::Inputs;
use crate::train::TrainError;
use data::{Split, Table};
use spec::device::DeviceChoice;
use spec::optimizer::UpdateRule;
use spec::precision::PrecisionConfig;
use spec::run::{Config, DataFormat, Run};
use spec::schema::Schema;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use training::checkpoint::Checkpoint;
use training::{Cluster, Logs};

/// Reason why samples do not match a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// Files of a run that generates its samples.
    #[error("the run's data is synthetic; give the format of --data with --format")]
    FilesOfSynthetic,
    /// A run without evaluation data.
    #[error("the run had no evaluation data; give some with --data")]
    NoEvaluation,
    /// Files whose format is not known, since the log of the training is gone.
    #[error(
        "the run was trained on a prepared log that no longer exists; give the format of --data with --format"
    )]
    UnknownFormat,
    /// A key by the name of the column that is written.
    #[error(
        "--key probability: the command writes a column of that name itself; rename the column of the log"
    )]
    KeyIsProbability,
}

/// Samples to run a checkpoint on, and where. What is left out is as in training, but for the device, which is the CPU, and for the
/// ranks: one host, and a rank for every core, or one rank on a GPU; or those that MPI finds.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Files: paths and globs. Where there are none, those that the run was evaluated on.
    pub data: Vec<String>,
    /// A table in memory, in place of files. [`with_table`](Self::with_table) sets it.
    pub table: Option<Arc<Table>>,
    /// Format of the files.
    pub format: Option<DataFormat>,
    /// A TOML file with the columns of csv and parquet data.
    pub schema: Option<PathBuf>,
    /// Whether the first bad line is refused.
    pub strict: bool,
    /// Samples a step.
    pub batch: Option<usize>,
    /// Column by whose values samples are grouped for the user-averaged AUC of an evaluation.
    pub group: Option<String>,
    /// Columns by whose values an evaluation is broken down.
    pub slices: Vec<String>,
    /// Number of hosts.
    pub hosts: Option<usize>,
    /// Ranks on each host.
    pub ranks_per_host: Option<usize>,
    /// Device that ranks compute on; by default the CPU.
    pub device: Option<DeviceChoice>,
    /// Precision of the operands of matrix products, by part of the network; by default f32.
    pub precision: Option<PrecisionConfig>,
    /// Checkpoint of the run; by default the best one where the run keeps it, else the last.
    pub which: Option<Use>,
}

/// A verified checkpoint, the run that scores it, and its samples.
#[derive(Debug)]
pub struct Opened {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
    /// The run that scores it.
    pub run: Run,
    /// Logs of the samples.
    pub logs: Logs,
    /// Split of the logs that is scored.
    pub split: Split,
    /// The config of the run, with every default written out.
    config: Config,
    /// Logs that were prepared for this alone live as long as it does; `None` for generated samples.
    kept: Option<OpenLogs>,
}

impl Opened {
    /// Number of samples.
    pub fn samples(&self) -> u64 {
        if self.split == Split::Train { self.run.data.samples() } else { self.run.data.eval_samples() }
    }

    /// Opens the best checkpoint of the run in `folder`, or the last where it keeps none, on the samples that it was trained on,
    /// which are open already. Ranks that are processes are those of the run.
    pub fn on_training(
        folder: &Path,
        logs: &OpenLogs,
        cluster: &Cluster,
        control: &Control,
    ) -> Result<Self, Error> {
        let chosen = open_to_use_on(folder, None, cluster, control)?;
        let mut config = SavedRun::of(&chosen.checkpoint)?.config;
        let (device, precision) = (config.train.device, config.train.precision.clone());
        let mut samples = Samples { device, precision, ..Samples::default() };
        if cluster::is_distributed(cluster) {
            (samples.hosts, samples.ranks_per_host) = (config.topology.hosts, config.topology.ranks_per_host);
        }
        samples.configure(&mut config, cluster)?;
        let run = logs.check(&config).map_err(of_checkpoint)?;
        Ok(Self::on_logs(chosen, run, &config, logs.clone(), Split::Train))
    }

    /// A run whose samples are generated.
    fn on_synthetic(chosen: Chosen, config: &Config, split: Split) -> Result<Self, Error> {
        let Chosen { checkpoint, used } = chosen;
        let run = planning::check(config).map_err(of_checkpoint)?;
        let config = config.explicit(&run);
        Ok(Self { checkpoint, used, run, logs: Logs::Synthetic, split, config, kept: None })
    }

    /// A run on logs that are open.
    fn on_logs(chosen: Chosen, run: Run, config: &Config, open: OpenLogs, split: Split) -> Self {
        let Chosen { checkpoint, used } = chosen;
        let config = config.explicit(&run);
        Self { checkpoint, used, run, logs: open.logs.clone(), split, config, kept: Some(open) }
    }

    /// What all ranks must have been started with to use the checkpoint together, line by line.
    pub(crate) fn identity(&self) -> Result<String, TrainError> {
        let mut identity = toml::to_string_pretty(&self.config)
            .map_err(|source| TrainError::Text { what: "the config as TOML", source: Box::new(source) })?;
        for (split, samples) in self.kept.iter().flat_map(OpenLogs::fingerprints) {
            identity += &format!("samples to {split} on: {samples}\n");
        }
        let (path, step) = (self.checkpoint.path().display(), self.checkpoint.manifest().step);
        Ok(format!("{identity}checkpoint {path}, step {step}\n"))
    }
}

fn of_checkpoint(source: spec::run::RunError) -> Error {
    Error::Run { what: "the run of the checkpoint".into(), source }
}

impl Samples {
    /// Reads a table in memory, in place of files.
    pub fn with_table(self, table: Arc<Table>) -> Self {
        let (data, format) = (vec![logs::TABLE.into()], Some(DataFormat::Parquet));
        Self { data, format, table: Some(table), ..self }
    }

    /// Files that opening reads. What cannot be found is left out here, and refused there.
    pub fn inputs(&self, checkpoint: &Path) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add_all(&self.schema).add_log(&self.data);
        let Ok((at, _)) = locate_to_use(checkpoint, self.which) else { return inputs };
        inputs.add(&at).add(folder_of(&at).join(VOCABULARIES));
        let saved = Checkpoint::open(&at).ok().and_then(|checkpoint| SavedRun::of(&checkpoint).ok());
        if let Some(SavedRun { config, .. }) = saved {
            inputs.add_log(&config.data.train).add_log(&config.data.eval);
        }
        inputs
    }

    /// Opens a checkpoint to measure on these samples, or on those it was trained on where none are named: what is measured
    /// decides how a model is built, so that no test row may count.
    pub fn open_for_training(
        &self,
        checkpoint: &Path,
        cluster: &Cluster,
        control: &Control,
    ) -> Result<Opened, Error> {
        if !self.data.is_empty() {
            return self.open(checkpoint, cluster, control);
        }
        let named = checkpoint;
        let chosen = open_to_use_on(named, self.which, cluster, control)?;
        let SavedRun { mut config, data, .. } = SavedRun::of(&chosen.checkpoint)?;
        self.configure(&mut config, cluster)?;
        if config.data.format.unwrap_or_default() == DataFormat::Synthetic {
            return Opened::on_synthetic(chosen, &config, Split::Train);
        }
        let folder = folder_of(chosen.checkpoint.path());
        let (prepared, vocabularies) = (folder.join(PREPARED), folder.join(VOCABULARIES));
        let open =
            logs::open_trained_on(&config.data, &prepared, data.as_deref(), &vocabularies, cluster, control)?;
        let run = open.check(&config).map_err(|source| Error::Run {
            what: format!("{} on {:?}", named.display(), config.data.train),
            source,
        })?;
        Ok(Opened::on_logs(chosen, run, &config, open, Split::Train))
    }

    /// Opens a checkpoint to run it on these samples.
    pub fn open(&self, checkpoint: &Path, cluster: &Cluster, control: &Control) -> Result<Opened, Error> {
        let named = checkpoint;
        let chosen = open_to_use_on(named, self.which, cluster, control)?;
        let mut config = SavedRun::of(&chosen.checkpoint)?.config;
        let folder = folder_of(chosen.checkpoint.path());
        self.configure(&mut config, cluster)?;
        self.name_samples(&mut config, &folder, cluster)?;
        if config.data.format.unwrap_or_default() == DataFormat::Synthetic {
            if !self.data.is_empty() {
                return Err(SamplesError::FilesOfSynthetic.into());
            }
            return Opened::on_synthetic(chosen, &config, Split::Eval);
        }
        if config.data.eval.is_empty() {
            return Err(SamplesError::NoEvaluation.into());
        }
        if cluster::is_distributed(cluster) && must_be_prepared(&config.data) {
            return Err(LogError::Unshared.into());
        }
        let tables = Tables { train: None, eval: self.table.clone() };
        let open = logs::open_for_evaluation(&config.data, &tables, &folder.join(VOCABULARIES), control)?;
        let run = open.check(&config).map_err(|source| Error::Run {
            what: format!("{} on {:?}", named.display(), config.data.eval),
            source,
        })?;
        Ok(Opened::on_logs(chosen, run, &config, open, Split::Eval))
    }

    /// Opens a checkpoint to score a log with, whose labels are left aside and whose rows have the text of column `key`. Up to
    /// `max_bad_share` of its lines may be bad.
    pub(crate) fn open_unlabelled(
        &self,
        checkpoint: &Path,
        key: Option<&str>,
        max_bad_share: f64,
        control: &Control,
    ) -> Result<(Chosen, Config, Unlabelled), Error> {
        let chosen = open_to_use(checkpoint, self.which, control)?;
        let mut config = SavedRun::of(&chosen.checkpoint)?.config;
        let folder = folder_of(chosen.checkpoint.path());
        self.configure(&mut config, &Cluster::Threads)?;
        self.name_samples(&mut config, &folder, &Cluster::Threads)?;
        if config.data.format.unwrap_or_default() == DataFormat::Synthetic {
            return Err(SamplesError::FilesOfSynthetic.into());
        }
        config.data.strict = Some(self.strict);
        config.data.max_bad_share = Some(max_bad_share);
        let vocabularies = folder.join(VOCABULARIES);
        let log = logs::open_unlabelled(&config.data, self.table.as_ref(), &vocabularies, key, control)?;
        Ok((chosen, config, log))
    }

    /// Makes the run's config one to predict with on the ranks of `cluster`: no optimizer state, no checkpoints.
    fn configure(&self, config: &mut Config, cluster: &Cluster) -> Result<(), ClusterError> {
        (config.topology.hosts, config.topology.ranks_per_host) = (self.hosts, self.ranks_per_host);
        cluster::complete_topology(cluster, config)?;
        let ranks = match self.device.unwrap_or_default() {
            DeviceChoice::Cpu => std::thread::available_parallelism().map_or(1, usize::from),
            DeviceChoice::Cuda(_) | DeviceChoice::Auto => 1,
        };
        config.topology.hosts.get_or_insert(1);
        // Tables larger than memory share it out to the ranks of the host: one has it all.
        let ranks = if config.tables.memory.is_some() { 1 } else { ranks };
        config.topology.ranks_per_host.get_or_insert(ranks);
        // Groups and peers were those of the training's cluster.
        config.topology.hosts_per_tower = None;
        config.train.peer_permute = None;
        config.placement = Default::default();
        config.train.threads = None;
        (config.train.device, config.train.precision) = (self.device, self.precision.clone());
        if config.tables.store.is_none() {
            // Tables that a GPU reached in memory of the host: another device has no such memory.
            (config.tables.memory, config.tables.cache_policy) = (None, None);
            config.tables.cache_format = None;
        }
        // Nothing is trained, so nothing is kept or stopped.
        (config.train.eval_every, config.train.keep_best, config.train.patience) = (None, None, None);
        config.train.warm_start = None;
        for optimizer in [&mut config.optimizer.dense, &mut config.optimizer.tables].into_iter().flatten() {
            optimizer.update = UpdateRule::Sgd;
        }
        config.train.batch = self.batch.or(config.train.batch);
        config.data.strict = self.strict.then_some(true).or(config.data.strict);
        // Another log need not have the columns by which evaluations of the run were broken down.
        if self.group.is_some() || !self.data.is_empty() {
            config.data.group.clone_from(&self.group);
        }
        if !self.slices.is_empty() || !self.data.is_empty() {
            config.data.slices.clone_from(&self.slices);
        }
        Ok(())
    }

    /// Says in `config` which samples are read, of a run that is kept in `folder`.
    fn name_samples(&self, config: &mut Config, folder: &Path, cluster: &Cluster) -> Result<(), Error> {
        let data = &mut config.data;
        let held_out = folder.join(PREPARED).join("eval");
        if !self.data.is_empty() {
            let format = self.format.or(is_prepared(&self.data).then_some(DataFormat::Prepared));
            if data.format == Some(DataFormat::Prepared) && format != data.format {
                // What the prepared log was made from is described in it.
                match before_preparation(&data.train) {
                    Some(before) => (data.format, data.schema) = before,
                    None if format.is_none() => return Err(SamplesError::UnknownFormat.into()),
                    None => {}
                }
            }
            if self.table.is_some() && data.schema.is_none() && data.format == Some(DataFormat::CriteoTsv) {
                // A table has names for the columns that Criteo's files have by their order.
                data.schema = Some(Schema::criteo());
            }
            data.format = format.or(data.format);
            data.eval = self.data.clone();
        } else if (data.split.is_some()
            || logs::is_table(&data.eval)
            || (cluster::is_distributed(cluster) && must_be_prepared(data)))
            && held_out.is_dir()
        {
            // What was kept from training, or is read by ranks that are processes, as the run prepared it.
            data.format = Some(DataFormat::Prepared);
            data.eval = vec![held_out.to_string_lossy().into_owned()];
        }
        (data.split, data.split_by) = (None, None);
        data.format = self.format.or(data.format);
        if let Some(path) = &self.schema {
            data.schema = Some(read_toml(path)?);
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
