//! What a user wrote, on the command line or in a file, as a `spec::run::Config`.

pub use campanile::file::read_toml;

use crate::output::Inputs;
use anyhow::{Context, Result, ensure};
use campanile::file::{read_config, whole};
use campanile::logs::is_prepared;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use spec::byte_size::ByteSize;
use spec::codec::Rounding;
use spec::dataflow::{AllToAll, DataflowKind, PeerPermute};
use spec::device::DeviceChoice;
use spec::fuse::Fuse;
use spec::optimizer::{LearningRate, NamedOptimizer};
use spec::placement::Cut;
use spec::plan::PlanChoice;
use spec::precision::PrecisionConfig;
use spec::presets::{ModelKind, Preset};
use spec::run::{AllReduce, Config, DataFormat, Optimizer, Run};
use spec::table_cache::CachePolicy;
use spec::table_format::TableFormat;
use spec::towers::{Assignment, Module, TowersFile};
use spec::wire::WireConfig;
use std::path::PathBuf;

/// The description of a run, shared by all commands. Flags override the file, the file overrides the preset.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// TOML file that describes the run, with sections model, topology, placement, train, wire, optimizer, data,
    /// checkpoint and emulation; flags override it [default: a small built-in run]
    pub config: Option<PathBuf>,

    /// Architecture of the network over the embedding tables: dlrm, dcn or deepfm [default: dlrm]
    #[arg(long, value_name = "KIND", help_heading = "Model")]
    pub model: Option<ModelKind>,
    /// Named set of tables and layer widths: demo, kaggle, mlperf or terabyte [default: demo, or kaggle with --data]
    #[arg(long, help_heading = "Model")]
    pub preset: Option<Preset>,
    /// Embedding dimension: number of columns of every table [default: the preset's; demo and kaggle 16, mlperf and terabyte
    /// 128]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub dim: Option<usize>,
    /// Largest number of rows of a table whose ids are hashed; tables of vocabularies and row numbers keep theirs [default:
    /// no limit]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub rows_cap: Option<usize>,
    /// Which features each tower has: a JSON file {"towers": [["C1", "C7"], …]}, strided:T (feature f in tower f mod T), or
    /// each (a tower for every feature) [default: no towers]
    #[arg(long, value_name = "FILE|strided:T|each", help_heading = "Model")]
    pub towers: Option<String>,
    /// Layers of each tower: none, dlrm:c=1,p=0,d=64 (c vectors of length d for each feature, p for the whole tower) or
    /// dcn:d=128,rank=512,out=tower (a cross layer, then a map to d numbers; out=features gives d for each feature); only d
    /// must be given [default: none]
    #[arg(long, value_name = "MODULE", help_heading = "Model")]
    pub tower_module: Option<Module>,

    /// Dropout: probability with which training sets a hidden unit of the MLPs to zero; neither the outputs of MLPs nor tower modules
    /// have it, and evaluations and predictions go without [default: 0]
    #[arg(long, value_name = "P", help_heading = "Model", allow_negative_numbers = true)]
    pub dropout: Option<f32>,

    /// Number of hosts [default: 2; 1 with --device cuda or auto]
    #[arg(long, value_name = "H", help_heading = "Cluster")]
    pub hosts: Option<usize>,
    /// Number of ranks on each host; a rank is one worker of the run: a thread, or a process with --transport mpi [default:
    /// 2; 1 with --device cuda or auto]
    #[arg(long, value_name = "L", help_heading = "Cluster")]
    pub ranks_per_host: Option<usize>,
    /// Number of hosts of a tower group, inside which the features of a tower meet; must divide --hosts [default: 1]
    #[arg(long, value_name = "K", help_heading = "Cluster")]
    pub hosts_per_tower: Option<usize>,
    /// How embedding vectors get from tables to samples: flat (one all-to-all over all ranks) or sptt (inside tower groups
    /// first, then between them) [default: flat, or sptt with --towers]
    #[arg(long, help_heading = "Cluster")]
    pub dataflow: Option<DataflowKind>,
    /// How --dataflow flat exchanges vectors and their gradients: flat (every rank with every other) or hierarchical (inside
    /// hosts first, then between hosts: fewer, longer messages, the same results) [default: flat]
    #[arg(long, value_name = "HOW", help_heading = "Cluster")]
    pub all_to_all: Option<AllToAll>,
    /// How ranks sum the gradients of dense layers: direct (every rank sums one share, which all others send to it), ring
    /// (shares pass from rank to rank), recursive-doubling (inside hosts first, then hosts in pairs: the fewest messages),
    /// two-level (inside hosts first, then directly: --ranks-per-host times fewer bytes between hosts than direct), auto (one of
    /// these, by the number of hosts and ranks and the size of the gradients alone), or nccl (by ncclAllReduce, only with
    /// --transport nccl: faster, but the order of sums, and so the last bits of a run, are up to NCCL). All but nccl add in a
    /// fixed order and give the same bits in every run; between them, sums differ in their last bits [default: direct]
    #[arg(long, value_name = "HOW", help_heading = "Cluster")]
    pub all_reduce: Option<AllReduce>,
    /// Wire format, in which floats are sent between ranks: one for everything, or by what is sent, such as
    /// vectors=u4,gradients=u4,dense=u4+ec,towers=bf16 (embedding vectors, their gradients, gradients of dense layers and of
    /// tower modules; towers as dense unless given). 128 floats take 512 bytes in f32, 256 in f16 or bf16, 132 in fp8 (e4m3
    /// forward, e5m2 backward; fp8-e4m3 and fp8-e5m2 choose), and 136 in u8, 72 in u4 and 40 in u2, integers with a scale and a
    /// minimum for each row. For dense and towers, +ec behind the format carries what rounding loses to the next step (error
    /// compensation); +ec-paper does so only where its authors do. Sums are in f32 [default: f32]
    #[arg(long, value_name = "FORMAT", help_heading = "Cluster")]
    pub wire: Option<WireConfig>,
    /// Rounding of values that a wire format cannot represent: nearest (ties to even), or stochastic (up or down at random, so
    /// that the mean is the value; the same run rounds the same way) [default: nearest]
    #[arg(long, value_name = "HOW", help_heading = "Cluster")]
    pub wire_rounding: Option<Rounding>,
    /// What --dataflow sptt brings into peer order: vectors (after the lookup), ids (before it), or none (ranks are numbered
    /// in peer order) [default: ids, which costs nothing]
    #[arg(long, value_name = "WHAT", help_heading = "Cluster")]
    pub peer_permute: Option<PeerPermute>,
    /// How tables are cut over the ranks of their tower group: whole, columns, rows, or hotness (tables with one id per
    /// sample by columns, others by rows) [default: whole; with --dataflow flat, balanced over all ranks]
    #[arg(long, help_heading = "Cluster")]
    pub cut: Option<Cut>,
    /// Do not overlap communication with computation: every phase of a step waits for the one before it; the result is the
    /// same
    #[arg(long, help_heading = "Cluster")]
    pub no_overlap: bool,
    /// Number format of the weights of all tables: f32; f16 or bf16, which take half the memory; or int8, a quarter: 8-bit codes, with a
    /// scale and a minimum for each row [default: that of the config, whose features may have one each, or f32]
    #[arg(long, value_name = "f32|f16|bf16|int8", help_heading = "Model")]
    pub tables: Option<TableFormat>,
    /// Rank of the tensor trains that large tables are: rows are products of three small cores, which are dense parameters; 8 to 64 is
    /// usual, 0 keeps rows [default: that of the config, whose features may have one each, or rows]
    #[arg(long, value_name = "RANK", help_heading = "Model")]
    pub tt_rank: Option<usize>,
    /// Smallest number of rows of a table that --tt-rank makes a tensor train [default: 100000]
    #[arg(long, value_name = "ROWS", help_heading = "Model")]
    pub tt_rows: Option<usize>,
    /// Rounding of updated weights of tables in formats other than f32: nearest, or stochastic (up or down at random, so that the mean
    /// is what was computed; the same run rounds the same way) [default: stochastic]
    #[arg(long, value_name = "nearest|stochastic", help_heading = "Model")]
    pub rounding: Option<Rounding>,
    /// Memory for tables on each host, such as 2GiB, shared out to its ranks. Tables that do not fit keep all rows in files, and in memory
    /// those that batches need: rows of the next batch are read while this one computes. The result is the same to the last bit,
    /// unless --cache-format is given. On GPUs it is their memory [default: all tables are in memory]
    #[arg(long, value_name = "SIZE", help_heading = "Model")]
    pub table_memory: Option<ByteSize>,
    /// Folder for the rows that are not in memory, on a fast disk; needed with --table-memory, but for --cache-policy mapped on a GPU. Its files are scratch: they are gone when
    /// the run ends, and a run that is resumed fills them from its checkpoint [default: none]
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    pub table_store: Option<PathBuf>,
    /// Which row leaves memory for another: lru (the one that was used longest ago) or lfu (the one that the fewest batches used); or
    /// mapped: files that the operating system maps into memory, which keeps to --table-memory only inside a cgroup; on GPUs, memory of the
    /// host that kernels reach by themselves [default: lru]
    #[arg(long, value_name = "lru|lfu|mapped", help_heading = "Model")]
    pub cache_policy: Option<CachePolicy>,
    /// Number format of rows in memory, where --tables has fewer bits: f32 keeps rows that are used often in full precision, and rounds
    /// them when they leave memory [default: that of the table]
    #[arg(long, value_name = "f32|f16|bf16|int8", help_heading = "Model")]
    pub cache_format: Option<TableFormat>,
    /// Whether the lookup and the dot products of its vectors are one phase, and the gradients of dot products and the update of
    /// the tables too, where no vector leaves its rank; for all other interactions, whether vectors are looked up, and tables
    /// updated, in place: auto, always or never [default: auto: dot products on GPUs, in tf32 or bf16; in place everywhere]
    #[arg(long, value_name = "WHEN", help_heading = "Cluster")]
    pub fuse: Option<Fuse>,
    /// Emulate this many nodes on the only rank of the run: dense gradients are computed for each node's share of the batch and
    /// reduced as that many ranks, 8 on a host, would reduce them, so that the effect of --wire on large clusters can be
    /// measured [default: 1, no emulation]
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    pub emulate_nodes: Option<usize>,
    /// Number of threads of each rank [default: the cores of the machine divided by its ranks]
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    pub threads: Option<usize>,
    /// Device that ranks compute on: cpu, cuda (NVIDIA GPUs: the ranks of a host take its GPUs in order, and several may share
    /// one), cuda:1 (all of them share that GPU), or auto (cuda where `campanile doctor` finds what it needs, else cpu); a resumed
    /// run may go on on another device [default: cpu; a resumed run keeps its device]
    #[arg(long, value_name = "cpu|cuda[:INDEX]|auto", help_heading = "Cluster")]
    pub device: Option<DeviceChoice>,
    /// Precision of the operands of matrix products: f32, f32x3 (CPU only: every f32 as the sum of two bf16, f32-grade results),
    /// tf32 (GPUs only) or bf16; one for all parts of the network, or others for some, such as bf16,top=f32. Parts are named as
    /// the phases of `campanile schedule`: bottom, top, interaction (cross layers), deep, linear, project, and towers for tower
    /// modules. Weights, tables, optimizer state and sums are f32 in each [default: f32; a resumed run keeps its precision where
    /// its device has it]
    #[arg(long, value_name = "f32|f32x3|tf32|bf16[,PART=…]", help_heading = "Cluster")]
    pub precision: Option<PrecisionConfig>,
    /// Replicate tables of at most this many rows on every rank [default: 0, none]
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    pub replicate_rows: Option<usize>,
    /// Plan that says which ranks hold which rows and columns of each table: a file that `campanile plan --out` wrote, auto (the
    /// planner cuts tables by every scheme, within the memory there is), or none. Not with --cut or --replicate-rows [default:
    /// none; a resumed run keeps its plan]
    #[arg(long, value_name = "FILE|auto|none", help_heading = "Cluster")]
    pub plan: Option<String>,

    /// Global batch: number of samples per step, over all ranks [default: 2048; with --data 256 to 2048, by the size of the
    /// log]
    #[arg(long, value_name = "GLOBAL", help_heading = "Training")]
    pub batch: Option<usize>,
    /// Number of passes over the training data [default: 1]
    #[arg(long, value_name = "E", help_heading = "Training")]
    pub epochs: Option<u64>,
    /// Stop after this many steps [default: the steps of all epochs]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub steps: Option<u64>,
    /// Seed of the initial weights and of dropout [default: 0]
    #[arg(long, value_name = "S", help_heading = "Training")]
    pub seed: Option<u64>,
    /// Update rule of dense layers and tables [default: adam; with --data adagrad for the tables]
    #[arg(long, value_parser = optimizer_parser(), value_name = "RULE", help_heading = "Training")]
    pub optimizer: Option<NamedOptimizer>,
    /// Peak learning rate of dense layers and tables [default: dense 0.005 and tables 0.01 for the synthetic log; with --data
    /// dense 0.001 to 0.004, by the batch, and tables 0.05; with --optimizer the usual rate of the rule]
    #[arg(long, value_name = "RATE", help_heading = "Training", allow_negative_numbers = true)]
    #[arg(value_parser = rate)]
    pub lr: Option<f32>,

    /// Weight decay λ of dense layers, biases included: w −= lr·λ·w before each update; for adam, adamw and lamb it sets the
    /// constant of the rule [default: 0; adamw and lamb 0.01]
    #[arg(long, value_name = "LAMBDA", help_heading = "Training", allow_negative_numbers = true)]
    pub weight_decay: Option<f32>,
    /// Weight decay λ of embedding tables; a step decays only the rows that it touches [default: 0]
    #[arg(long, value_name = "LAMBDA", help_heading = "Training", allow_negative_numbers = true)]
    pub table_weight_decay: Option<f32>,
    /// Cut every element of a gradient to ±X: of the dense gradients after their reduction, and of the sum of a table row's
    /// gradients [default: no limit]
    #[arg(long, value_name = "X", help_heading = "Training", allow_negative_numbers = true)]
    pub clip_value: Option<f32>,
    /// Scale the dense gradients of a step down where their norm, over all layers and tower modules, is beyond X; tables are not
    /// part of the norm [default: no limit]
    #[arg(long, value_name = "X", help_heading = "Training", allow_negative_numbers = true)]
    pub clip_norm: Option<f32>,
    /// Label smoothing ε: train on labels y·(1 − ε) + ε/2, which the training loss shows too; metrics keep the labels [default: 0]
    #[arg(long, value_name = "EPSILON", help_heading = "Training", allow_negative_numbers = true)]
    pub label_smoothing: Option<f32>,

    /// Factor of the loss of samples whose label is 1, and of such samples in metrics [default: 1]
    #[arg(long, value_name = "W", help_heading = "Training", allow_negative_numbers = true)]
    pub positive_weight: Option<f32>,

    /// Files to train on: paths and globs; text may be compressed with gzip, xz or zstd [default: a built-in synthetic log]
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Data")]
    pub data: Vec<String>,
    /// Files to evaluate on, of the same format [default: the rows that --split holds out, or evaluation samples of the
    /// synthetic log]
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Data")]
    pub eval: Vec<String>,
    /// Keep this share of the rows of --data from training, and evaluate on it: the last rows where the log is in the order
    /// of time (criteo-tsv, or in_time_order in the schema), the latest by a column of time, or else rows chosen by a hash of
    /// their numbers [default: no split]
    #[arg(long, value_name = "SHARE", help_heading = "Data")]
    pub split: Option<f64>,
    /// Column of time by which --split finds the latest rows: numbers, or texts in the order of time such as ISO dates
    /// [default: `time` of the schema, unless the log is in the order of time]
    #[arg(long, value_name = "COLUMN", help_heading = "Data")]
    pub split_by: Option<String>,
    /// Format of the data: criteo-tsv, csv, parquet, prepared or synthetic [default: synthetic; with --data prepared for the
    /// folder of a prepared log, else criteo-tsv]
    #[arg(long, help_heading = "Data")]
    pub format: Option<DataFormat>,
    /// TOML file that gives the meaning of the columns, for csv and parquet; `campanile data inspect --write` makes one,
    /// examples/schemas has two
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub schema: Option<PathBuf>,
    /// Shuffle the samples of every epoch within windows of this many; 0 keeps the order of the log [default: 0 for logs in
    /// the order of time (criteo-tsv, or in_time_order in the schema), else all samples, up to 16777216]
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub shuffle: Option<u64>,
    /// Also tell the AUC averaged over the groups that this column makes, such as users: the mean of the AUCs of groups with
    /// both labels, weighted by their samples [default: none]
    #[arg(long, value_name = "COLUMN", help_heading = "Data")]
    pub group: Option<String>,
    /// Also tell AUC, logloss and calibration for the values of this column, the 50 largest one by one; may be given several
    /// times [default: none]
    #[arg(long, value_name = "COLUMN", help_heading = "Data")]
    pub slice: Vec<String>,
    /// Stop at the first bad line: a row of the log that cannot be read as a sample
    #[arg(long, help_heading = "Data")]
    pub strict: bool,
    /// Stop when more than this share of the rows cannot be read as samples [default: 0.01]
    #[arg(long, value_name = "SHARE", help_heading = "Data")]
    pub max_bad_share: Option<f64>,
    /// Number of training samples of the synthetic log [default: 2097152]
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub samples: Option<u64>,
    /// Number of evaluation samples of the synthetic log [default: 262144]
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub eval_samples: Option<u64>,
}

/// Parses the name of an optimizer; help texts list all of them.
pub fn optimizer_parser() -> impl TypedValueParser<Value = NamedOptimizer> {
    let value = |named: &NamedOptimizer| PossibleValue::new(named.name).help(named.about);
    let names: Vec<PossibleValue> = NamedOptimizer::ALL.iter().map(value).collect();
    PossibleValuesParser::new(names).try_map(|name| name.parse::<NamedOptimizer>())
}

/// What all commands take, alone.
#[derive(clap::Parser)]
struct Described {
    #[command(flatten)]
    run: RunArgs,
}

impl RunArgs {
    /// What flags, word by word, describe.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let words = std::iter::once("run").chain(words);
        Ok(<Described as clap::Parser>::try_parse_from(words)
            .context("the flags of a run cannot be read")?
            .run)
    }

    /// The file's config with the flags laid over it.
    pub fn config(&self) -> Result<Config> {
        self.config_over(Config::default())
    }

    /// The config with the flags laid over the file, or over `base` if there is no file.
    pub fn config_over(&self, base: Config) -> Result<Config> {
        let mut config = match &self.config {
            None => base,
            Some(path) => read_config(path)?,
        };
        fn set<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        set(&mut config.model.kind, &self.model);
        set(&mut config.model.preset, &self.preset);
        set(&mut config.model.dim, &self.dim);
        set(&mut config.model.rows_cap, &self.rows_cap);
        set(&mut config.model.dropout, &self.dropout);
        set(&mut config.topology.hosts, &self.hosts);
        set(&mut config.topology.ranks_per_host, &self.ranks_per_host);
        if let Some(towers) = &self.towers {
            config.model.towers = Some(assignment(towers)?);
        }
        set(&mut config.model.tower_module, &self.tower_module);
        set(&mut config.topology.hosts_per_tower, &self.hosts_per_tower);
        set(&mut config.train.dataflow, &self.dataflow);
        set(&mut config.train.peer_permute, &self.peer_permute);
        set(&mut config.train.all_to_all, &self.all_to_all);
        if let Some(wire) = &self.wire {
            config.wire = config.wire.overlaid(wire);
        }
        set(&mut config.wire.rounding, &self.wire_rounding);
        set(&mut config.train.all_reduce, &self.all_reduce);
        set(&mut config.emulation.nodes, &self.emulate_nodes);
        set(&mut config.placement.cut, &self.cut);
        // What a run that is resumed says of its groups does not fit another dataflow or cluster.
        if self.dataflow == Some(DataflowKind::Flat) && self.peer_permute.is_none() {
            config.train.peer_permute = None;
        }
        if self.dataflow == Some(DataflowKind::Sptt) && self.all_to_all.is_none() {
            config.train.all_to_all = None;
        }
        if self.hosts.is_some() && self.hosts_per_tower.is_none() {
            config.topology.hosts_per_tower = None;
        }
        set(&mut config.placement.replicate_rows, &self.replicate_rows);
        self.set_plan(&mut config)?;
        if self.no_overlap {
            config.train.overlap = Some(false);
        }
        set(&mut config.train.fuse, &self.fuse);
        if self.tables.is_some() {
            config.tables.format = self.tables;
            // All tables have it, also those of features with one of their own, as a run that is resumed has them.
            config.model.features.iter_mut().flatten().for_each(|feature| feature.format = None);
        }
        if self.tt_rank.is_some() {
            config.tables.tt_rank = self.tt_rank;
            config.model.features.iter_mut().flatten().for_each(|feature| feature.tt_rank = None);
        }
        set(&mut config.tables.tt_rows, &self.tt_rows);
        set(&mut config.tables.rounding, &self.rounding);
        set(&mut config.tables.memory, &self.table_memory);
        if let Some(store) = &self.table_store {
            // A run that goes on elsewhere finds it.
            config.tables.store = Some(std::path::absolute(store).unwrap_or_else(|_| store.clone()));
        }
        set(&mut config.tables.cache_policy, &self.cache_policy);
        set(&mut config.tables.cache_format, &self.cache_format);
        set(&mut config.train.threads, &self.threads);
        self.set_device(&mut config);
        set(&mut config.train.batch, &self.batch);
        if self.steps.is_none() && (self.epochs.is_some() || self.batch.is_some() || self.samples.is_some()) {
            // Of another length than the file, or the run that is resumed, says.
            config.train.steps = None;
        }
        set(&mut config.train.epochs, &self.epochs);
        set(&mut config.train.steps, &self.steps);
        set(&mut config.train.seed, &self.seed);
        set(&mut config.optimizer.peak, &self.lr);
        set(&mut config.optimizer.weight_decay, &self.weight_decay);
        set(&mut config.optimizer.table_weight_decay, &self.table_weight_decay);
        set(&mut config.train.clip_value, &self.clip_value);
        set(&mut config.train.clip_norm, &self.clip_norm);
        set(&mut config.train.label_smoothing, &self.label_smoothing);
        set(&mut config.train.positive_weight, &self.positive_weight);
        self.set_data(&mut config)?;
        if let Some(NamedOptimizer { dense, tables, usual_rate, .. }) = self.optimizer {
            // The file's rates stay.
            let with_rate = |update, given: Option<Optimizer>| {
                let rate = given.map_or(LearningRate::constant(usual_rate), |o| o.rate);
                Some(Optimizer { update, rate })
            };
            config.optimizer.dense = with_rate(dense, config.optimizer.dense);
            config.optimizer.tables = with_rate(tables, config.optimizer.tables);
        }
        Ok(config)
    }

    fn set_device(&self, config: &mut Config) {
        let train = &mut config.train;
        // A run that is resumed on another device may have a precision that the device lacks.
        if let (Some(device), None) = (self.device, &self.config) {
            train.precision = train.precision.take().filter(|of| of.check().problem_on(device).is_none());
        }
        train.device = self.device.or(train.device);
        if let Some(precision) = &self.precision {
            train.precision = Some(train.precision.take().unwrap_or_default().overlaid(precision));
        }
    }

    fn set_plan(&self, config: &mut Config) -> Result<()> {
        // The plan of a run that is resumed does not fit another cluster, and gives way to another cut.
        if let (None, Some(PlanChoice::File(plan))) = (&self.config, &config.placement.plan) {
            let (topology, sptt) = (&config.topology, config.train.dataflow == Some(DataflowKind::Sptt));
            let same_ranks =
                (topology.hosts, topology.ranks_per_host) == (Some(plan.hosts), Some(plan.ranks_per_host));
            let groups = if sptt { Some(topology.hosts_per_tower.unwrap_or(1)) } else { None };
            let cut = self.cut.is_some() || self.replicate_rows.is_some();
            if cut || !same_ranks || plan.hosts_per_tower != groups {
                config.placement.plan = None;
            }
        }
        if let Some(plan) = &self.plan {
            config.placement.plan = crate::simulate::read::plan(plan)?;
        }
        Ok(())
    }

    fn set_data(&self, config: &mut Config) -> Result<()> {
        let data = &mut config.data;
        for (to, from) in [(&mut data.train, &self.data), (&mut data.eval, &self.eval)] {
            if !from.is_empty() {
                to.clone_from(from);
            }
            // Whole paths, so that a run can be resumed from another folder.
            *to = to.iter().map(|path| whole(path)).collect::<Result<_, _>>()?;
        }
        let usual = match data.train.as_slice() {
            [] => None,
            paths if is_prepared(paths) => Some(DataFormat::Prepared),
            _ => Some(DataFormat::CriteoTsv),
        };
        data.format = self.format.or(data.format).or(usual);
        data.split = self.split.or(data.split);
        if self.split_by.is_some() {
            data.split_by.clone_from(&self.split_by);
        }
        if let Some(path) = &self.schema {
            data.schema = Some(read_toml(path)?);
        }
        if self.group.is_some() {
            data.group.clone_from(&self.group);
        }
        if !self.slice.is_empty() {
            data.slices.clone_from(&self.slice);
        }
        data.shuffle = self.shuffle.or(data.shuffle);
        data.max_bad_share = self.max_bad_share.or(data.max_bad_share);
        if self.strict {
            data.strict = Some(true);
        }
        if self.samples.is_some() || self.eval_samples.is_some() {
            let format = data.format.unwrap_or_default();
            ensure!(
                format == DataFormat::Synthetic,
                "--samples and --eval-samples apply to the synthetic log only, but the format is {}",
                format.name()
            );
            let log = data.synthetic.get_or_insert_default();
            log.samples = self.samples.unwrap_or(log.samples);
            log.eval_samples = self.eval_samples.unwrap_or(log.eval_samples);
        }
        Ok(())
    }

    /// The checked run, as far as it is known without its data.
    pub fn run(&self) -> Result<Run> {
        let config = self.config()?;
        planning::check(&config).with_context(|| self.described())
    }

    /// Files that a command reads which makes or describes this run, whose config is `config`.
    pub fn inputs(&self, config: &Config) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add_all(&self.config).add_all(&self.schema).add_all(&self.towers).add_all(&self.plan);
        inputs.add_log(&config.data.train).add_log(&config.data.eval);
        inputs
    }

    /// Where the description came from, for messages.
    pub fn described(&self) -> String {
        match &self.config {
            Some(path) => format!("{} with the flags given", path.display()),
            None => "the run described by these flags".into(),
        }
    }
}

/// A learning rate.
fn rate(text: &str) -> Result<f32, String> {
    let rate: f32 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    match rate.is_finite() && rate > 0.0 {
        true => Ok(rate),
        false => Err("a learning rate is a finite number above 0; 0.001 to 0.1 is usual".into()),
    }
}

/// An assignment by name, or the file that holds one.
fn assignment(text: &str) -> Result<Assignment> {
    if let Ok(assignment) = text.parse() {
        return Ok(assignment);
    }
    let read = std::fs::read_to_string(text);
    let json =
        read.with_context(|| format!("--towers {text}: use strided:T, each, or a file that can be read"))?;
    let file: TowersFile = serde_json::from_str(&json).with_context(|| {
        format!("{text}: a file of towers looks like {{\"towers\": [[\"C1\", \"C7\"], [\"C2\"]]}}")
    })?;
    Ok(Assignment::Lists(file.towers))
}

#[cfg(test)]
mod tests;
