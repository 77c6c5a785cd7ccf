//! What a user asks for, and the checked value that runs.
//!
//! [`Config`] is what a TOML file or flags say: everything optional, unknown fields refused. [`Config::check`] fills the
//! gaps from the preset, checks everything once and gives a [`Run`]; only a `Run` runs.
//!
//! ```
//! use spec::run::Config;
//! let mut config = Config::default();
//! config.topology.hosts = Some(2);
//! config.topology.ranks_per_host = Some(4);
//! assert_eq!(config.check().unwrap().placement.topology().ranks(), 8);
//! config.train.batch = Some(0);
//! assert_eq!(
//!     config.check().unwrap_err().to_string(),
//!     "train.batch: 0 samples a step cannot train; use at least 1"
//! );
//! ```

use crate::feature::Feature;
use crate::model::{Architecture, Model};
use crate::optimizer::{Decay, LearningRate, UpdateRule};
use crate::placement::{Layout, Placement};
use crate::presets::{ModelKind, Preset};
use crate::schedule::{Schedule, Task};
use crate::synthetic::Synthetic;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// How weights change.
    pub optimizer: OptimizerConfig,
    /// What is learnt.
    pub data: DataConfig,
}

/// `[model]`: a preset, and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// Tables and widths to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// `dlrm` or `dcn`.
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
    /// Cross layers of a DCN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_layers: Option<usize>,
    /// Rank of the cross layers; 0 for full rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_rank: Option<usize>,
    /// Sparse features, instead of the preset's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<Feature>>,
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
}

/// `[placement]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementConfig {
    /// Tables of at most this many rows are replicated on every rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicate_rows: Option<usize>,
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
    /// Seed of the initial weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Threads of each rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Dense gradients are reduced in buckets of about this many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_bytes: Option<usize>,
    /// Seconds a collective may wait for a rank before the run is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_limit_s: Option<f64>,
}

/// `[optimizer]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerConfig {
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
    /// The synthetic log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<Synthetic>,
}

/// Where samples come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataFormat {
    /// Generated as it is read.
    #[default]
    Synthetic,
}

/// A run that was checked: everything is there, and everything fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The model.
    pub model: Model,
    /// Where its tables live, and on which cluster.
    pub placement: Placement,
    /// Rule and rate of the dense layers.
    pub dense_optimizer: Optimizer,
    /// Rule and rate of the tables.
    pub table_optimizer: Optimizer,
    /// Global batch.
    pub batch: usize,
    /// Steps in all.
    pub steps: u64,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Threads of each rank; `None` to share the machine's cores out.
    pub threads: Option<usize>,
    /// Bytes of a gradient bucket, about.
    pub bucket_bytes: usize,
    /// Seconds a collective may wait.
    pub wait_limit_s: f64,
    /// The data.
    pub data: Synthetic,
}

/// Why a config cannot run: the field as it stands in the config, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RunError {
    /// The field at fault.
    pub field: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl RunError {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

impl Config {
    /// Fills the gaps, checks everything, and gives a value that runs.
    pub fn check(&self) -> Result<Run, RunError> {
        let model = self.model.check()?;
        let topology =
            Topology::new(self.topology.hosts.unwrap_or(2), self.topology.ranks_per_host.unwrap_or(2))
                .map_err(|e| RunError::new("topology", e.to_string()))?;
        let placement = self.placement.check(&model, topology)?;
        let data = self.data.synthetic.unwrap_or_default();
        data.check(model.features().len(), model.dense_features())
            .map_err(|e| RunError::new("data.synthetic", e.to_string()))?;

        let train = &self.train;
        let batch = train.batch.unwrap_or(2048);
        if batch == 0 {
            return Err(RunError::new("train.batch", "0 samples a step cannot train; use at least 1"));
        }
        if batch > 1 << 26 {
            return Err(RunError::new(
                "train.batch",
                format!("{batch} is beyond {} samples a step", 1 << 26),
            ));
        }
        let epochs = train.epochs.unwrap_or(1);
        if epochs == 0 {
            return Err(RunError::new(
                "train.epochs",
                "0 passes train nothing; use at least 1, or set train.steps",
            ));
        }
        if train.steps == Some(0) {
            return Err(RunError::new(
                "train.steps",
                "0 steps train nothing; use at least 1, or leave it out",
            ));
        }
        if train.threads.is_some_and(|t| t == 0 || t > 4096) {
            return Err(RunError::new("train.threads", "threads of a rank lie between 1 and 4096"));
        }
        let bucket_bytes = train.bucket_bytes.unwrap_or(4 << 20);
        if bucket_bytes == 0 {
            return Err(RunError::new(
                "train.bucket_bytes",
                "a bucket holds at least 1 byte; 4194304 is usual",
            ));
        }
        let wait_limit_s = train.wait_limit_s.unwrap_or(300.0);
        if !(wait_limit_s > 0.0 && wait_limit_s <= 1e9) {
            let problem = format!("{wait_limit_s} is no time to wait; use seconds above 0 (300 is usual)");
            return Err(RunError::new("train.wait_limit_s", problem));
        }
        let per_epoch = data.samples.div_ceil(batch as u64);
        let steps = per_epoch.saturating_mul(epochs).min(train.steps.unwrap_or(u64::MAX));
        let dense_optimizer = self.optimizer.dense.unwrap_or_else(|| default_optimizer(5e-3, steps));
        let table_optimizer = self.optimizer.tables.unwrap_or_else(|| default_optimizer(1e-2, steps));
        check_optimizer("optimizer.dense", &dense_optimizer)?;
        check_optimizer("optimizer.tables", &table_optimizer)?;
        if matches!(dense_optimizer.update, UpdateRule::RowWiseAdagrad { .. }) {
            return Err(RunError::new(
                "optimizer.dense.update",
                "row_wise_adagrad keeps one number per table row and dense layers have none; use adagrad",
            ));
        }
        Ok(Run {
            model,
            placement,
            dense_optimizer,
            table_optimizer,
            batch,
            steps,
            seed: train.seed.unwrap_or(0),
            threads: train.threads,
            bucket_bytes,
            wait_limit_s,
            data,
        })
    }
}

/// Adam, at full rate for half of the run and then down to nothing: what the built-in run learns best with.
fn default_optimizer(peak: f32, steps: u64) -> Optimizer {
    let update = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
    let hold = steps / 2;
    let decay = Decay::Linear { steps: steps - hold, floor: 0.0 };
    Optimizer { update, rate: LearningRate { peak, warm_up: 0, hold, decay } }
}

impl ModelConfig {
    /// The checked model.
    pub fn check(&self) -> Result<Model, RunError> {
        let mut outline = self.preset.unwrap_or_default().outline();
        outline.dim = self.dim.unwrap_or(outline.dim);
        outline.dense_features = self.dense_features.unwrap_or(outline.dense_features);
        outline.cross_layers = self.cross_layers.unwrap_or(outline.cross_layers);
        if let Some(rank) = self.cross_rank {
            outline.cross_rank = (rank > 0).then_some(rank);
        }
        if self.rows_cap == Some(0) {
            return Err(RunError::new("model.rows_cap", "a table needs at least 1 row"));
        }
        outline.cap_rows(self.rows_cap);
        let mut architecture = outline.architecture(self.kind.unwrap_or_default());
        match &mut architecture {
            Architecture::Dlrm { bottom, top } | Architecture::Dcn { bottom, top, .. } => {
                if let Some(widths) = &self.bottom {
                    bottom.clone_from(widths);
                }
                if let Some(widths) = &self.top {
                    top.clone_from(widths);
                }
            }
        }
        let field = |e: crate::model::ModelError| RunError::new(e.field, e.problem);
        let features = match &self.features {
            Some(features) => {
                let cap = self.rows_cap.unwrap_or(usize::MAX);
                features.iter().map(|f| Feature { rows: f.rows.min(cap), ..f.clone() }).collect()
            }
            None => outline.features(),
        };
        Model::new(features, outline.dense_features, outline.dim, architecture).map_err(field)
    }
}

impl PlacementConfig {
    fn check(&self, model: &Model, topology: Topology) -> Result<Placement, RunError> {
        let balanced = Placement::balanced(model, topology, self.replicate_rows.unwrap_or(0));
        let mut layouts = balanced.layouts().to_vec();
        for (name, layout) in &self.tables {
            let field = format!("placement.tables.{name}");
            let Some(index) = model.features().iter().position(|f| f.name == *name) else {
                return Err(RunError::new(field, "the model has no feature of that name"));
            };
            if !matches!(layout, Layout::TableWise { .. } | Layout::Replicated) {
                let problem = "only table_wise and replicated tables can be trained so far";
                return Err(RunError::new(field, problem));
            }
            layouts[index] = layout.clone();
        }
        Placement::new(model, topology, layouts).map_err(|e| RunError::new("placement.tables", e.to_string()))
    }
}

fn check_optimizer(field: &str, optimizer: &Optimizer) -> Result<(), RunError> {
    let positive = |name: &str, value: f32, usual: &str| {
        if value.is_finite() && value > 0.0 {
            Ok(())
        } else {
            Err(RunError::new(
                format!("{field}.{name}"),
                format!("{value} must be above 0 ({usual} is usual)"),
            ))
        }
    };
    let decay_of_moments = |name: &str, value: f32| {
        if (0.0..1.0).contains(&value) {
            Ok(())
        } else {
            let problem = format!("{value} must lie in 0..1 (0.9 and 0.999 are usual)");
            Err(RunError::new(format!("{field}.update.{name}"), problem))
        }
    };
    positive("rate.peak", optimizer.rate.peak, "0.001 to 0.1")?;
    match optimizer.update {
        UpdateRule::Sgd => {}
        UpdateRule::Adagrad { eps } | UpdateRule::RowWiseAdagrad { eps } => {
            positive("update.eps", eps, "1e-8")?
        }
        UpdateRule::Adam { beta1, beta2, eps, weight_decay } => {
            decay_of_moments("beta1", beta1)?;
            decay_of_moments("beta2", beta2)?;
            positive("update.eps", eps, "1e-8")?;
            if !(weight_decay >= 0.0 && weight_decay.is_finite()) {
                let problem = format!("{weight_decay} must be 0 or more");
                return Err(RunError::new(format!("{field}.update.weight_decay"), problem));
            }
        }
    }
    if let Decay::Linear { floor, .. } | Decay::Cosine { floor, .. } = optimizer.rate.decay
        && !(0.0..=1.0).contains(&floor)
    {
        let problem = format!("{floor} is a share of the peak and must lie in 0..=1");
        return Err(RunError::new(format!("{field}.rate.decay.floor"), problem));
    }
    Ok(())
}

impl Run {
    /// The cluster.
    pub fn topology(&self) -> Topology {
        self.placement.topology()
    }

    /// The step that trains.
    pub fn schedule(&self, task: Task) -> Schedule {
        Schedule::flat(&self.model, &self.placement, task, self.bucket_bytes)
    }

    /// Steps of an epoch: the last may be smaller.
    pub fn steps_per_epoch(&self) -> u64 {
        self.data.samples.div_ceil(self.batch as u64)
    }

    /// Bytes that a rank needs, about: weights, gradients and optimizer state of what it holds, and its share of a batch.
    pub fn memory(&self, rank: usize) -> u64 {
        let dim = self.model.dim();
        let row = dim + self.table_optimizer.update.state_per_row(dim);
        let held = self.placement.held_by(rank);
        // Wide enough for whatever a config may say.
        let tables: u128 = held.iter().map(|s| s.rows.len() as u128 * row as u128).sum();
        let dense = self.model.dense_parameters();
        let dense = 2 * u128::from(dense) + self.dense_optimizer.update.state_per_row(dense as usize) as u128;
        u64::try_from(4 * (tables + dense + u128::from(self.batch_floats(held)))).unwrap_or(u64::MAX)
    }

    /// Floats of a rank's buffers for one batch: vectors as they are sent, arrive, meet, and all that once more for their
    /// gradients; the outputs of all layers and their gradients; ids of two batches.
    fn batch_floats(&self, held: &[crate::placement::Shard]) -> u64 {
        let network = self.model.network();
        let samples = self.batch.div_ceil(self.topology().ranks()) as u64;
        let vectors = network.interaction.input_width() as u64;
        let mlps: usize = network.bottom.iter().chain(&network.top).map(|l| l.outputs).sum();
        let interaction = match &network.interaction {
            crate::model::Interaction::Dot { .. } => network.interaction.output_width(),
            crate::model::Interaction::Cross { width, layers } => 2 * (layers.len() + 1) * width,
        };
        let here = samples * (4 * vectors + 2 * (mlps + interaction) as u64);
        let ids: u64 = held.iter().map(|s| self.model.features()[s.feature].hotness.mean()).sum();
        here + self.batch as u64 * (2 * crate::placement::width(held) as u64 + 12 * ids)
    }
}
