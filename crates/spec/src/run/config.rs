//! Sections of a config. Every field is optional; unknown fields are refused.

use super::all_reduce::AllReduce;
use super::checkpoints::CheckpointKind;
use super::every::Every;
use super::selection::KeepBest;
use crate::byte_size::ByteSize;
use crate::codec::Rounding;
use crate::dataflow::{AllToAll, DataflowKind, PeerPermute};
use crate::device::DeviceChoice;
use crate::emulation::EmulationConfig;
use crate::feature::Feature;
use crate::fuse::Fuse;
use crate::model::ModelLabel;
use crate::optimizer::{LearningRate, UpdateRule};
use crate::placement::{Cut, Layout};
use crate::plan::PlanChoice;
use crate::precision::PrecisionConfig;
use crate::presets::{ModelKind, Preset};
use crate::schema::Schema;
use crate::synthetic::Synthetic;
use crate::table_cache::CachePolicy;
use crate::table_format::TableFormat;
use crate::towers::{Assignment, Module};
use crate::wire::WireConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// Config: what a user wrote in a file or with flags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Section `[model]`.
    pub model: ModelConfig,
    /// Section `[topology]`.
    pub topology: TopologyConfig,
    /// Section `[placement]`.
    pub placement: PlacementConfig,
    /// Section `[train]`.
    pub train: TrainConfig,
    /// Section `[wire]`.
    pub wire: WireConfig,
    /// Section `[optimizer]`.
    pub optimizer: OptimizerConfig,
    /// Section `[tables]`.
    #[serde(skip_serializing_if = "TablesConfig::is_empty")]
    pub tables: TablesConfig,
    /// Section `[data]`.
    pub data: DataConfig,
    /// Section `[checkpoint]`.
    pub checkpoint: CheckpointConfig,
    /// Section `[emulation]`.
    #[serde(skip_serializing_if = "EmulationConfig::is_empty")]
    pub emulation: EmulationConfig,
}

/// Section `[tables]` of a config: how weights of tables are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TablesConfig {
    /// Number format of the weights of tables: `f32`, `f16`, `bf16` or `int8`; a feature may have another. Default: `f32`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<TableFormat>,
    /// Rounding of updated weights in formats other than `f32`: `nearest`, or `stochastic` (up or down at random, so that the mean is
    /// what was computed; the same run rounds the same way on any number of ranks). Default: `stochastic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounding: Option<Rounding>,
    /// Memory for tables on each host, such as `2GiB`: weights, optimizer state, and what the cache of rows takes. Tables that do not fit
    /// keep all rows in files, and those that batches need in memory. Default: all tables are in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Folder for the rows that are not in memory, on a fast disk; needed with `memory`, but for the policy `mapped` on a GPU. The files are scratch: they are gone when the run
    /// ends, and a run that is resumed fills them from its checkpoint. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<PathBuf>,
    /// Which row leaves memory for another: `lru`, the one that was used longest ago, or `lfu`, the one that the fewest batches used; or
    /// `mapped`: files that the operating system maps into memory, or, on GPUs, memory of the host that kernels reach by themselves.
    /// Default: `lru`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_policy: Option<CachePolicy>,
    /// Number format of rows in memory, where tables have fewer bits: `f32` keeps the rows that are used often in full precision, and
    /// rounds them when they leave memory. Default: the format of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_format: Option<TableFormat>,
    /// Rank of the tensor trains that large tables are: their rows are products of three small cores, so that a table of millions of rows has
    /// some hundred thousand weights; 8 to 64 is usual. A feature may have another, or 0 for rows. Default: tables have rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tt_rank: Option<usize>,
    /// Smallest number of rows of a table that `tt_rank` makes a tensor train. Default: `100000`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tt_rows: Option<usize>,
}

/// Smallest number of rows of a table that `tables.tt_rank` makes a tensor train, where nothing is said.
pub const TT_ROWS: usize = 100_000;

impl TablesConfig {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Section `[model]` of a config: a preset, and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// Tables and widths to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Kind of the model: `dlrm`, `dcn` or `deepfm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ModelKind>,
    /// Embedding dimension, N.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// Largest number of rows of a table; tables with more rows are cut to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_cap: Option<usize>,
    /// Number of dense inputs. Default: those of the log, or 13.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_features: Option<usize>,
    /// Widths of the bottom MLP; the last is the embedding dimension. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottom: Option<Vec<usize>>,
    /// Widths of the top MLP, the last of which is 1. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<Vec<usize>>,
    /// Widths of the MLP of a DeepFM, which has neither bottom nor top. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep: Option<Vec<usize>>,
    /// Number of cross layers of a DCN. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_layers: Option<usize>,
    /// Matrix rank of the cross layers; 0 for full rank. Default: the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_rank: Option<usize>,
    /// Dropout: probability with which training sets a hidden unit of the bottom, top or deep MLP to zero; the others are scaled
    /// by `1/(1 − dropout)`. Outputs of MLPs and tower modules have none; nor have evaluations and predictions. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f32>,
    /// Sparse features and their tables. Default: those of the log, or the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<Feature>>,
    /// Assignment of features to towers: `strided:T`, `each`, or lists of names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub towers: Option<Assignment>,
    /// Module of the towers: `none`, `dlrm:c=1,p=0,d=64` or `dcn:d=128`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tower_module: Option<Module>,
    /// Labels of a model with several, in the order of its outputs. By default those of the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<ModelLabel>,
}

/// Section `[topology]` of a config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TopologyConfig {
    /// Number of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<usize>,
    /// Number of ranks on each host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks_per_host: Option<usize>,
    /// Number of hosts of a tower group, K.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_per_tower: Option<usize>,
}

/// Section `[placement]` of a config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementConfig {
    /// Tables of at most this many rows are replicated on every rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicate_rows: Option<usize>,
    /// Cut of the tables over the ranks of their tower group: `whole`, `columns`, `rows` or `hotness`. By default tables are
    /// whole, and with the flat dataflow balanced over the world rather than over groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Layouts of single tables, by feature name. Default: tables are placed by their load.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Layout>,
    /// Plan of all tables, instead of the other keys here: `auto`, for which the planner uses every scheme, or the name of a file
    /// that `campanile plan --out` wrote, relative to the folder of the config. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanChoice>,
}

/// Section `[train]` of a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Global batch: number of samples per step, over all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Number of passes over the training samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Number of steps after which training stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Number of steps between evaluations, besides the one at the end. By default a run over several epochs is evaluated after
    /// each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_every: Option<u64>,
    /// Metric by which the best state is known and kept besides the last ones: `auc`, `pr_auc`, `logloss`, `ne` or `accuracy`;
    /// `none` to keep the last ones only. Default: `auc` for a run that is evaluated more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_best: Option<KeepBest>,
    /// Number of evaluations without a better value of `keep_best` after which the run stops; 0 for never, the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    /// Folder of another run, or one of its checkpoints, whose tables and layers the run begins with where they fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<String>,
    /// Seed of the initial weights and of dropout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of threads of each rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Device that ranks compute on: `cpu`, `cuda` (the ranks of a host take its GPUs in order, and several may share one),
    /// `cuda:1` (all of them share that GPU) or `auto` (GPUs where there are some). Default: `cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceChoice>,
    /// Precision of the operands of matrix products: one for all parts of the network, such as `bf16`, or others for some, such as
    /// `bf16,top=f32`. The CPU has `f32`, `f32x3` and `bf16`, GPUs have `f32`, `tf32` and `bf16`. Weights and sums are f32 in each.
    /// Default: `f32`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionConfig>,
    /// Dataflow: `flat` or `sptt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataflow: Option<DataflowKind>,
    /// All-to-all of the flat dataflow: `flat`, between all pairs of ranks, or `hierarchical`, in two levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_to_all: Option<AllToAll>,
    /// Algorithm of the all-reduce of dense gradients, over the world and for tower modules inside their tower groups: `auto`,
    /// `direct`, `ring`, `recursive-doubling`, `two-level` or `nccl`. Results differ in their last bits. With all but `nccl` the
    /// order of sums is fixed, and a run has the same bits every time; `nccl` needs `--transport nccl`, is faster, and leaves the
    /// order to NCCL. Default: `direct`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_reduce: Option<AllReduce>,
    /// Values that SPTT brings into peer order: `vectors`, `ids` or `none`. Default: `ids`, which costs nothing. With `none`
    /// ranks are numbered in peer order, in `placement.tables` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_permute: Option<PeerPermute>,
    /// Approximate size in bytes of the buckets in which dense gradients are reduced. Default: 4194304. The only rank of a run
    /// has one for each block instead, unless `fuse` is `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_bytes: Option<usize>,
    /// Whether communication overlaps with computation that does not depend on it. Default: true. The result is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<bool>,
    /// Whether the lookup and the dot products of its vectors are one phase, and the gradients of dot products and the update of the
    /// tables too, where no vector leaves its rank; for all other interactions, whether vectors are looked up, and tables updated, in
    /// place: `auto` (dot products on GPUs, in tf32 or bf16; in place everywhere), `always` or `never`. Default: auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuse: Option<Fuse>,
    /// Largest magnitude of an element of a gradient: of the dense gradients after their reduction, and of the sum of a table
    /// row's gradients. Elements beyond it are cut to it. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_value: Option<f32>,
    /// Largest norm (L2) of all dense gradients together, tower modules included: beyond it they are scaled down to it. Tables
    /// are not part of the norm and are not scaled. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f32>,
    /// Label smoothing ε: training sees labels `y·(1 − ε) + ε/2`, and so does the training loss; metrics keep the labels.
    /// Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_smoothing: Option<f32>,
    /// Factor of the loss of samples whose label is 1, and of such samples in metrics. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positive_weight: Option<f32>,
    /// Longest time in seconds that a rank waits in a collective before the run fails. Default: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_limit_s: Option<f64>,
}

/// Section `[optimizer]` of a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerConfig {
    /// Peak learning rate of dense layers and tables, which overrides both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<f32>,
    /// Update rule and learning rate of the dense layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<Optimizer>,
    /// Update rule and learning rate of the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<Optimizer>,
    /// Weight decay λ of the dense layers, biases included: `w −= lr·λ·w` before the rule. For adam and lamb it sets the
    /// constant `weight_decay` of the rule. Default: the rule's constant, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f32>,
    /// Weight decay λ of the tables, for the rows that a step touches; otherwise as `weight_decay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_weight_decay: Option<f32>,
}

/// Optimizer: an update rule and a learning rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    /// Update rule.
    pub update: UpdateRule,
    /// Learning rate over the steps.
    pub rate: LearningRate,
}

/// Section `[data]` of a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Format of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<DataFormat>,
    /// Files to train on: paths and globs, read in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub train: Vec<String>,
    /// Files to evaluate on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eval: Vec<String>,
    /// Share of the rows of `train` that are kept from training and evaluated on instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<f64>,
    /// Column of time that orders the rows for `split`: the latest are evaluated on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_by: Option<String>,
    /// Number of samples of a window within which every epoch is shuffled; 0 for the order of the log. By default logs that
    /// are not in the order of time are shuffled, as a whole up to 16,777,216 samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// Column by whose values samples are grouped for the user-averaged AUC of evaluations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Columns by whose values evaluations are broken down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<String>,
    /// Whether a single bad line is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Share of bad lines above which the run stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bad_share: Option<f64>,
    /// Settings of the synthetic log. Default: those of the built-in run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<Synthetic>,
    /// Schema of the columns, for `csv` and `parquet`. In a config the schema stands as a table `[data.schema]`; `--schema` names a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
}

/// Section `[checkpoint]` of a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Interval between checkpoints, in steps (`500`) or time (`"10min"`). A checkpoint is also written at the end and on a
    /// signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// Number of checkpoints to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
    /// What a checkpoint holds: `full`, all of the state, or `incremental`, the rows of tables that were updated since the checkpoint before
    /// it and everything that is not a table; the first is full. Default: `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<CheckpointKind>,
    /// Number of increments after which they are brought together with their base, beside the training. Default: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub increments: Option<usize>,
    /// Number format of the weights in increments: `f16`, `bf16` or `int8` make them smaller, but a run that is resumed from them goes on with
    /// rounded weights. Default: that of the table, which loses nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub increment_format: Option<TableFormat>,
    /// Memory on each host for the copy of the state that a writer works from while the training goes on, such as `512MiB`; where the state is
    /// larger, the training waits until what is left fits. Default: room for all of it, or none with `tables.memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
}

/// Format of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataFormat {
    /// Synthetic log, generated as it is read.
    #[default]
    Synthetic,
    /// Criteo's tab-separated logs, Kaggle or Terabyte.
    CriteoTsv,
    /// Text with a delimiter, by a schema.
    Csv,
    /// Parquet, by a schema.
    Parquet,
    /// Prepared log, as `campanile data prepare` writes it.
    Prepared,
}

impl DataFormat {
    /// All formats, by the names users write.
    pub const ALL: [(&str, DataFormat); 5] = [
        ("criteo-tsv", DataFormat::CriteoTsv),
        ("csv", DataFormat::Csv),
        ("parquet", DataFormat::Parquet),
        ("prepared", DataFormat::Prepared),
        ("synthetic", DataFormat::Synthetic),
    ];

    /// Name of the format as users write it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for DataFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, format)| *format);
        known.ok_or_else(|| {
            format!("unknown data format {text:?}; use criteo-tsv, csv, parquet, prepared or synthetic")
        })
    }
}
