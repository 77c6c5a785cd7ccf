//! What a user may write, section by section: everything optional, unknown fields refused.

use super::every::Every;
use crate::dataflow::{AllToAll, DataflowKind, PeerPermute};
use crate::feature::Feature;
use crate::optimizer::{LearningRate, UpdateRule};
use crate::placement::{Cut, Layout};
use crate::presets::{ModelKind, Preset};
use crate::schema::Schema;
use crate::synthetic::Synthetic;
use crate::towers::{Assignment, Module};
use crate::wire::WireConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// What a user wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The model.
    pub model: ModelConfig,
    /// The cluster.
    pub topology: TopologyConfig,
    /// Where tables live.
    pub placement: PlacementConfig,
    /// How long, how much at a time.
    pub train: TrainConfig,
    /// In which formats floats travel.
    pub wire: WireConfig,
    /// How weights change.
    pub optimizer: OptimizerConfig,
    /// What is learnt.
    pub data: DataConfig,
    /// When the state is saved.
    pub checkpoint: CheckpointConfig,
}

/// `[model]`: a preset, and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// Tables and widths to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// `dlrm`, `dcn` or `deepfm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ModelKind>,
    /// Embedding dimension, N.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// The most rows a table may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_cap: Option<usize>,
    /// Number of dense inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_features: Option<usize>,
    /// Widths of the bottom MLP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottom: Option<Vec<usize>>,
    /// Widths of the top MLP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<Vec<usize>>,
    /// Widths of the MLP of a DeepFM, which has neither bottom nor top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep: Option<Vec<usize>>,
    /// Cross layers of a DCN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_layers: Option<usize>,
    /// Rank of the cross layers; 0 for full rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_rank: Option<usize>,
    /// Sparse features, instead of the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<Feature>>,
    /// Which features each tower has: `strided:T`, `each`, or lists of names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub towers: Option<Assignment>,
    /// What stands over the features of a tower: `none`, `dlrm:c=1,p=0,d=64` or `dcn:d=128`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tower_module: Option<Module>,
}

/// `[topology]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopologyConfig {
    /// Hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<usize>,
    /// Ranks on each host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks_per_host: Option<usize>,
    /// Hosts of a tower group, K.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_per_tower: Option<usize>,
}

/// `[placement]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementConfig {
    /// Tables of at most this many rows are replicated on every rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicate_rows: Option<usize>,
    /// How tables are cut over the ranks of their tower group: `whole`, `columns`, `rows` or `hotness`. Absent, they are whole,
    /// and with the flat dataflow balanced over the world rather than over groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Layouts of single tables, by feature name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Layout>,
}

/// `[train]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Global batch: samples a step, over all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Passes over the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Stop after this many steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Evaluate every so many steps, besides at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_every: Option<u64>,
    /// Seed of the initial weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Threads of each rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// How vectors get from tables to samples: `flat` or `sptt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataflow: Option<DataflowKind>,
    /// How the flat dataflow exchanges vectors: `flat`, every rank with every other, or `hierarchical`, in two levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_to_all: Option<AllToAll>,
    /// What SPTT brings into peer order: `vectors`, `ids` or `none`; absent, `ids`, which costs nothing. With `none` ranks are
    /// numbered in peer order, in `placement.tables` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_permute: Option<PeerPermute>,
    /// Dense gradients are reduced in buckets of about this many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_bytes: Option<usize>,
    /// Whether communication runs beside what does not depend on it; absent, it does. The result is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<bool>,
    /// Seconds a collective may wait for a rank before the run is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_limit_s: Option<f64>,
}

/// `[optimizer]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerConfig {
    /// Peak learning rate of both, instead of what they or the defaults say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<f32>,
    /// Rule and rate of the dense layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<Optimizer>,
    /// Rule and rate of the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<Optimizer>,
}

/// A rule and a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    /// How a gradient changes a weight.
    pub update: UpdateRule,
    /// By how much.
    pub rate: LearningRate,
}

/// `[data]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Where samples come from.
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
    /// Shuffle every epoch within windows of this many samples; 0 for the order of the log. Absent, logs whose order is
    /// not that of time are shuffled, as a whole up to 16,777,216 samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// Refuse the first bad line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// The share of bad lines above which the run stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bad_share: Option<f64>,
    /// The synthetic log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<Synthetic>,
    /// The columns, for `csv` and `parquet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
}

/// `[checkpoint]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Write one every so many steps (`500`) or every so much time (`"10min"`); absent, at the end and on a signal only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// Keep this many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
}

/// Where samples come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataFormat {
    /// Generated as it is read.
    #[default]
    Synthetic,
    /// Criteo's tab-separated logs, Kaggle or Terabyte.
    CriteoTsv,
    /// Text with a delimiter, by a schema.
    Csv,
    /// Parquet, by a schema.
    Parquet,
    /// What `campanile data prepare` wrote.
    Prepared,
}

impl DataFormat {
    /// All of them, by the names users write.
    pub const ALL: [(&str, DataFormat); 5] = [
        ("criteo-tsv", DataFormat::CriteoTsv),
        ("csv", DataFormat::Csv),
        ("parquet", DataFormat::Parquet),
        ("prepared", DataFormat::Prepared),
        ("synthetic", DataFormat::Synthetic),
    ];

    /// Its name as users write it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for DataFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, format)| *format);
        known.ok_or_else(|| {
            format!("{text:?} is no format; there are criteo-tsv, csv, parquet, prepared and synthetic")
        })
    }
}
