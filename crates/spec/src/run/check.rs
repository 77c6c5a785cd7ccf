//! Checks of each section of a config, which fill in its defaults.

use super::RunError;
use super::config::{
    DataConfig, ModelConfig, Optimizer, OptimizerConfig, TT_ROWS, TablesConfig, TrainConfig,
};
use super::log::{Data, LogFacts, LogFeature, LogRows};
use crate::byte_size::ByteSize;
use crate::device::DeviceChoice;
use crate::feature::{Feature, Hotness};
use crate::model::{Architecture, Model, ModelError, ModelLabel};
use crate::optimizer::{ADAM, Decay, LearningRate, UpdateRule};
use crate::placement::Placement;
use crate::precision::Precisions;
use crate::presets::{Outline, Preset};
use crate::table_cache::{CachePolicy, CachedShards, TableCache};
use std::path::PathBuf;

/// Length of a run, in epochs or steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Global batch: number of samples per step, over all ranks.
    pub batch: usize,
    /// Number of steps of the run.
    pub steps: u64,
}

/// Optimizers of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimizers {
    /// Optimizer of the dense layers.
    pub dense: Optimizer,
    /// Optimizer of the embedding tables.
    pub tables: Optimizer,
    /// Weight decay of the dense layers that is not a constant of their rule.
    pub weight_decay: f32,
    /// Weight decay of the tables that is not a constant of their rule.
    pub table_weight_decay: f32,
}

/// Field and flag of the memory for tables, in errors.
const MEMORY: &str = "tables.memory (--table-memory)";

/// Field and flag of the precision, in errors.
const PRECISION: &str = "train.precision (--precision)";

impl TablesConfig {
    /// The model with the tensor trains and the number formats that the section `[tables]` asks for.
    pub fn apply(&self, model: Model) -> Result<Model, RunError> {
        if self.tt_rows.is_some() && self.tt_rank.is_none() {
            return Err(RunError::new(
                "tables.tt_rows (--tt-rows)",
                "is of use with tables.tt_rank (--tt-rank) only",
            ));
        }
        let model = model.with_tensor_trains(self.tt_rank.unwrap_or(0), self.tt_rows.unwrap_or(TT_ROWS));
        let model = model.map_err(|error| RunError::new(error.field, error.problem))?;
        Ok(model.with_table_format(self.format.unwrap_or_default()))
    }

    /// Checks what the section `[tables]` says about tables larger than memory; `None` where all tables are in memory. Tables of `model`
    /// lie by `placement`, and `rule` updates them on `device`.
    pub fn check_cache(
        &self,
        model: &Model,
        placement: &Placement,
        rule: &UpdateRule,
        device: DeviceChoice,
    ) -> Result<Option<TableCache>, RunError> {
        let refuse = |field: &str, problem: String| Err(RunError::new(field, problem));
        let Some(ByteSize(memory)) = self.memory else {
            let alone = [
                (self.store.is_some(), "tables.store (--table-store)"),
                (self.cache_policy.is_some(), "tables.cache_policy (--cache-policy)"),
                (self.cache_format.is_some(), "tables.cache_format (--cache-format)"),
            ];
            return match alone.into_iter().find(|(given, _)| *given) {
                Some((_, field)) => {
                    refuse(field, "is of use with tables.memory (--table-memory) only".into())
                }
                None => Ok(None),
            };
        };
        // GPUs map memory of the host, and no files.
        let in_host_memory =
            matches!(device, DeviceChoice::Cuda(_)) && self.cache_policy == Some(CachePolicy::Mapped);
        let Some(store) = self.store.clone().or(in_host_memory.then(PathBuf::new)) else {
            let problem = "needs a folder for the rows that are not in memory: tables.store (--table-store)";
            return refuse(MEMORY, problem.into());
        };
        if let Some(format) = self.cache_format.filter(|format| format.rounds()) {
            let other = |&feature: &usize| model.table_format(feature) != format;
            if let Some(feature) = (0..model.features().len()).find(other) {
                let (name, stored) = (&model.features()[feature].name, model.table_format(feature));
                let problem = format!(
                    "rows in memory cannot be {format}, since the table of {name} is {stored}; use f32, or leave it out"
                );
                return refuse("tables.cache_format (--cache-format)", problem);
            }
        }
        if self.cache_policy == Some(CachePolicy::Mapped) && self.cache_format.is_some() {
            let problem = "tables that are mapped have one format alone; leave it out, or use --cache-policy lru or lfu";
            return refuse("tables.cache_format (--cache-format)", problem.into());
        }
        let format = self.cache_format;
        let shards = CachedShards::new(model, placement, rule, (memory, format));
        let shards = shards.map_err(|problem| RunError::new(MEMORY, problem))?;
        Ok(Some(TableCache { memory, store, policy: self.cache_policy.unwrap_or_default(), format, shards }))
    }
}

impl TrainConfig {
    /// Checks the section `[train]`, and returns the batch and the number of steps of a run on `data`.
    pub fn check(&self, data: &Data) -> Result<Length, RunError> {
        self.check_numbers()?;
        let batch = Recipe::of(data, self.batch).batch;
        let per_epoch = data.samples().div_ceil(batch as u64);
        let steps = per_epoch.saturating_mul(self.epochs.unwrap_or(1)).min(self.steps.unwrap_or(u64::MAX));
        Ok(Length { batch, steps })
    }

    /// Checks `train.device` and `train.precision`, and returns both. What `auto` becomes is not known here, and
    /// [`check_precision`](Self::check_precision) knows the parts of the model.
    pub fn check_device(&self) -> Result<(DeviceChoice, Precisions), RunError> {
        let device = self.device.unwrap_or_default();
        let precision = self.precision.clone().unwrap_or_default().check();
        match precision.problem_on(device) {
            Some(problem) => Err(RunError::new(PRECISION, problem)),
            None => Ok((device, precision)),
        }
    }

    /// Like [`check_device`](Self::check_device); also refuses precisions of parts that `model` has not.
    pub fn check_precision(&self, model: &Model) -> Result<(DeviceChoice, Precisions), RunError> {
        match self.precision.as_ref().and_then(|precision| precision.problem_with(model)) {
            Some(problem) => Err(RunError::new(PRECISION, problem)),
            None => self.check_device(),
        }
    }

    fn check_numbers(&self) -> Result<(), RunError> {
        let refuse = |field: &str, problem: String| Err(RunError::new(field, problem));
        match self.batch {
            Some(0) => return refuse("train.batch", "a step needs samples; use at least 1".into()),
            Some(batch) if batch > MAX_BATCH => {
                return refuse(
                    "train.batch",
                    format!("{batch} samples per step are too many; use at most {MAX_BATCH}"),
                );
            }
            _ => {}
        }
        if self.epochs == Some(0) {
            let problem = "0 passes train nothing; use at least 1, or set train.steps";
            return refuse("train.epochs", problem.into());
        }
        if self.steps == Some(0) {
            let problem = "0 steps train nothing; use at least 1, or leave it out";
            return refuse("train.steps", problem.into());
        }
        if self.threads.is_some_and(|t| t == 0 || t > 4096) {
            return refuse("train.threads", "threads of a rank lie between 1 and 4096".into());
        }
        if self.bucket_bytes == Some(0) {
            return refuse("train.bucket_bytes", "a bucket holds at least 1 byte; 4194304 is usual".into());
        }
        if self.eval_every == Some(0) {
            return refuse(
                "train.eval_every",
                "every 0 steps is never; use at least 1, or leave it out".into(),
            );
        }
        self.check_regularisation()?;
        if let Some(weight) = self.positive_weight.filter(|weight| !(weight.is_finite() && *weight > 0.0)) {
            let problem = format!("{weight} must be a finite number above 0 (1 leaves the loss as it is)");
            return refuse("train.positive_weight (--positive-weight)", problem);
        }
        match self.wait_limit_s {
            Some(limit) if !(limit > 0.0 && limit <= 1e9) => {
                let problem = format!("{limit} is not a time to wait; use seconds above 0 (300 is usual)");
                refuse("train.wait_limit_s", problem)
            }
            _ => Ok(()),
        }
    }
}

impl OptimizerConfig {
    /// Checks the section `[optimizer]`, with defaults that learn well in a run of this `length` on `data`.
    pub fn check(&self, data: &Data, length: Length) -> Result<Optimizers, RunError> {
        let with_peak = |optimizer: Optimizer| {
            let peak = self.peak.unwrap_or(optimizer.rate.peak);
            Optimizer { rate: LearningRate { peak, ..optimizer.rate }, ..optimizer }
        };
        let recipe = Recipe::of(data, Some(length.batch));
        let usual_dense = usual_optimizer(ADAM, recipe.dense_peak, length.steps);
        let usual_tables = usual_optimizer(recipe.tables, recipe.table_peak, length.steps);
        let dense = with_peak(self.dense.unwrap_or(usual_dense));
        let tables = with_peak(self.tables.unwrap_or(usual_tables));
        if let Some(peak) = self.peak.filter(|peak| !(peak.is_finite() && *peak > 0.0)) {
            let problem =
                format!("{peak} is not a learning rate; use a number above 0 (0.001 to 0.1 is usual)");
            return Err(RunError::new("optimizer.peak (--lr)", problem));
        }
        check_optimizer("optimizer.dense", &dense)?;
        check_optimizer("optimizer.tables", &tables)?;
        if let Some(problem) = dense.update.dense_problem() {
            return Err(RunError::new("optimizer.dense.update", problem));
        }
        let (dense, weight_decay) = decayed("weight_decay", self.weight_decay, dense)?;
        let (tables, table_weight_decay) = decayed("table_weight_decay", self.table_weight_decay, tables)?;
        Ok(Optimizers { dense, tables, weight_decay, table_weight_decay })
    }
}

/// The optimizer with the weight decay of `field` as a constant of its rule, or else that decay beside the rule.
fn decayed(field: &str, decay: Option<f32>, optimizer: Optimizer) -> Result<(Optimizer, f32), RunError> {
    let Some(decay) = decay else { return Ok((optimizer, 0.0)) };
    let peak = optimizer.rate.peak;
    if !(decay >= 0.0 && decay * peak < 1.0) {
        let flag = field.replace('_', "-");
        let problem = format!(
            "{decay} is not a weight decay: use 0 or more (0.00001 to 0.01 is usual), and below {:.3}, where a step at the \
             learning rate of {peak} would leave nothing of a weight",
            1.0 / peak
        );
        return Err(RunError::new(format!("optimizer.{field} (--{flag})"), problem));
    }
    match optimizer.update.own_decay() {
        Some(_) => Ok((Optimizer { update: optimizer.update.with_own_decay(decay), ..optimizer }, 0.0)),
        None => Ok((optimizer, decay)),
    }
}

impl DataConfig {
    /// Checks the section `[data]` for a model, and returns the data of the run; `log` is `None` for synthetic data.
    pub fn check(&self, model: &Model, log: Option<&LogFacts>) -> Result<Data, RunError> {
        self.check_split()?;
        let Some(log) = log else {
            if let Some(column) = self.group.iter().chain(&self.slices).next() {
                let problem = format!("a synthetic log has no column {column} to group by; leave it out");
                return Err(RunError::new("data.group, data.slices", problem));
            }
            if model.outputs() > 1 {
                return Err(RunError::new("model.labels", "a synthetic log has one label; leave them out"));
            }
            let synthetic = self.synthetic.unwrap_or_default();
            synthetic
                .check(model.features().len(), model.dense_features())
                .map_err(|e| RunError::new("data.synthetic", e.to_string()))?;
            if self.shuffle.is_some_and(|window| window > 0) {
                let problem = "a synthetic log has no order to shuffle; leave it out";
                return Err(RunError::new("data.shuffle", problem));
            }
            return Ok(Data::Synthetic(synthetic));
        };
        if self.shuffle.is_some_and(|window| window > MAX_SHUFFLE) {
            let problem = format!("a window holds at most {MAX_SHUFFLE} samples");
            return Err(RunError::new("data.shuffle", problem));
        }
        if self.max_bad_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(RunError::new("data.max_bad_share", "a share lies in 0..=1; 0.01 is usual"));
        }
        let usual = if log.in_time_order { 0 } else { log.samples.min(MAX_SHUFFLE) };
        let shuffle = Some(self.shuffle.unwrap_or(usual)).filter(|&window| window > 1);
        Ok(Data::Log { samples: log.samples, eval_samples: log.eval_samples, shuffle })
    }
}

/// The most samples of a step.
const MAX_BATCH: usize = 1 << 26;
/// The most samples of a shuffling window.
const MAX_SHUFFLE: u64 = 1 << 24;

/// What learns well when the user does not say: chosen on training samples only.
struct Recipe {
    batch: usize,
    dense_peak: f32,
    tables: UpdateRule,
    table_peak: f32,
}

impl Recipe {
    fn of(data: &Data, batch: Option<usize>) -> Self {
        match data {
            Data::Synthetic(_) => {
                let batch = batch.unwrap_or(2048);
                Self { batch, dense_peak: 5e-3, tables: ADAM, table_peak: 1e-2 }
            }
            // A short log needs small batches to give steps enough; Adam's rate grows with the root of the batch.
            Data::Log { samples, .. } => {
                let usual = (samples / 400).next_power_of_two().clamp(256, 2048) as usize;
                let batch = batch.unwrap_or(usual);
                let dense_peak = 1e-3 * (batch as f32 / 256.0).sqrt().clamp(1.0, 4.0);
                // An eps of the size of gradients keeps the first step of a rare id small.
                let tables = UpdateRule::Adagrad { eps: 1e-4 };
                Self { batch, dense_peak, tables, table_peak: 5e-2 }
            }
        }
    }
}

/// At full rate for half of the run, and then down to nothing.
fn usual_optimizer(update: UpdateRule, peak: f32, steps: u64) -> Optimizer {
    let hold = steps / 2;
    let decay = Decay::Linear { steps: steps - hold, floor: 0.0 };
    Optimizer { update, rate: LearningRate { peak, warm_up: 0, hold, decay } }
}

impl ModelConfig {
    /// Checks the section `[model]`, and returns the model: from the section, else from the log, else from the preset.
    pub fn check(&self, log: Option<&LogFacts>) -> Result<Model, RunError> {
        // The demo's tables are made for the synthetic log.
        let usual = if log.is_some() { Preset::Kaggle } else { Preset::default() };
        let mut outline = self.preset.unwrap_or(usual).outline();
        outline.dim = self.dim.unwrap_or(outline.dim);
        outline.dense_features = match (self.dense_features, log) {
            (Some(asked), Some(log)) if asked != log.dense_features => {
                let problem = format!("the log has {} columns of numbers, not {asked}", log.dense_features);
                return Err(RunError::new("model.dense_features", problem));
            }
            (asked, Some(log)) => asked.unwrap_or(log.dense_features),
            (asked, None) => asked.unwrap_or(outline.dense_features),
        };
        outline.cross_layers = self.cross_layers.unwrap_or(outline.cross_layers);
        if let Some(rank) = self.cross_rank {
            outline.cross_rank = (rank > 0).then_some(rank);
        }
        if self.rows_cap == Some(0) {
            return Err(RunError::new("model.rows_cap", "a table needs at least 1 row"));
        }
        outline.cap_rows(self.rows_cap);
        let module = self.tower_module.unwrap_or_default();
        let mut architecture = outline.architecture(self.kind.unwrap_or_default(), module);
        self.set_widths(&mut architecture)?;
        let field = |e: ModelError| RunError::new(e.field, e.problem);
        let features = match (&self.features, log) {
            (Some(features), log) => {
                if let Some(log) = log {
                    same_features(features, log)?;
                }
                let cap = self.rows_cap.unwrap_or(usize::MAX);
                features.iter().map(|f| Feature { rows: f.rows.min(cap), ..f.clone() }).collect()
            }
            (None, Some(log)) => features_of(log, &outline, self.rows_cap.unwrap_or(usize::MAX))?,
            (None, None) => outline.features(),
        };
        let (dense, dim) = (outline.dense_features, outline.dim);
        Model::with_towers(features, dense, dim, architecture, self.towers.as_ref(), module)
            .and_then(|model| model.with_dropout(self.dropout.unwrap_or(0.0)))
            .and_then(|model| model.with_labels(self.labels_with(log)?))
            .map_err(field)
    }
}

impl ModelConfig {
    /// Labels of the model: those that are written here, which must be the log's, or else the log's.
    fn labels_with(&self, log: Option<&LogFacts>) -> Result<Vec<ModelLabel>, ModelError> {
        let Some(log) = log.filter(|log| !log.labels.is_empty() || log.samples > 0) else {
            return Ok(self.labels.clone());
        };
        let names = |labels: &[ModelLabel]| labels.iter().map(|label| label.name.clone()).collect::<Vec<_>>();
        let (asked, of_log) = (names(&self.labels), names(&log.labels));
        if asked.is_empty() || asked == of_log {
            return Ok(if asked.is_empty() { log.labels.clone() } else { self.labels.clone() });
        }
        let one = || "one label".to_owned();
        let problem = format!(
            "the labels {} are those of another log: this log has {}",
            asked.join(", "),
            if of_log.is_empty() { one() } else { of_log.join(", ") }
        );
        Err(ModelError { field: "model.labels".into(), problem })
    }

    /// Puts the widths that are written here in place of the preset's; refuses those of layers that the model has not.
    fn set_widths(&self, architecture: &mut Architecture) -> Result<(), RunError> {
        let name = architecture.name();
        let set = |widths: &mut Vec<usize>, asked: &Option<Vec<usize>>| {
            if let Some(asked) = asked {
                widths.clone_from(asked);
            }
        };
        match architecture {
            Architecture::Dlrm { bottom, top } | Architecture::Dcn { bottom, top, .. } => {
                if self.deep.is_some() {
                    let problem =
                        format!("{name} has no such MLP: its widths are model.bottom and model.top");
                    return Err(RunError::new("model.deep", problem));
                }
                set(bottom, &self.bottom);
                set(top, &self.top);
            }
            Architecture::DeepFm { deep } => {
                for (field, asked) in [("model.bottom", &self.bottom), ("model.top", &self.top)] {
                    if asked.is_some() {
                        let problem = format!("{name} has no such MLP: its widths are model.deep");
                        return Err(RunError::new(field, problem));
                    }
                }
                set(deep, &self.deep);
            }
        }
        Ok(())
    }
}

/// The features of a log: rows as its ids need them, else as the schema says, else as the preset has them.
fn features_of(log: &LogFacts, outline: &Outline, cap: usize) -> Result<Vec<Feature>, RunError> {
    let of_preset = outline.features();
    let feature = |f: &LogFeature| {
        let preset = of_preset.iter().find(|p| p.name == f.name).map(|p| p.rows);
        let rows = match f.rows {
            LogRows::Fixed(rows) => Some(rows),
            LogRows::Hashed(rows) => rows.or(preset).map(|rows| rows.min(cap)),
        };
        let Some(rows) = rows else {
            let problem =
                "how many rows has its table? Set `rows` in the schema, or list it in model.features";
            return Err(RunError::new(format!("data.schema.sparse.{}", f.name), problem));
        };
        let hotness = f.mean_ids.map_or(Hotness::One, |mean| Hotness::Many { mean: mean.max(1) });
        let (name, pooling, weighted) = (f.name.clone(), f.pooling, f.weighted);
        Ok(Feature {
            name,
            rows,
            pooling,
            hotness,
            weighted,
            dim: None,
            format: None,
            cache: None,
            tt_rank: None,
        })
    };
    log.features.iter().map(feature).collect()
}

/// Refuses features that are not the log's.
fn same_features(features: &[Feature], log: &LogFacts) -> Result<(), RunError> {
    if features.len() != log.features.len() {
        let problem =
            format!("{} features, but the log has {} columns of ids", features.len(), log.features.len());
        return Err(RunError::new("model.features", problem));
    }
    for (feature, of_log) in features.iter().zip(&log.features) {
        let refuse =
            |problem: String| Err(RunError::new(format!("model.features.{}", feature.name), problem));
        if feature.name != of_log.name {
            return refuse(format!("the log's column at this place is {}", of_log.name));
        }
        if (feature.hotness == Hotness::One) != of_log.mean_ids.is_none() {
            return refuse("one id a sample here, any number there: the log and the model differ".into());
        }
        if feature.weighted != of_log.weighted {
            return refuse("ids with weights here, without there: the log and the model differ".into());
        }
        if let LogRows::Fixed(rows) = of_log.rows
            && rows != feature.rows
        {
            return refuse(format!("the log's ids reach {rows} rows, the table has {}", feature.rows));
        }
    }
    Ok(())
}

fn check_optimizer(field: &str, optimizer: &Optimizer) -> Result<(), RunError> {
    let peak = optimizer.rate.peak;
    if !(peak.is_finite() && peak > 0.0) {
        let problem = format!("{peak} must be above 0 (0.001 to 0.1 is usual)");
        return Err(RunError::new(format!("{field}.rate.peak"), problem));
    }
    if let Some((constant, problem)) = optimizer.update.problem() {
        return Err(RunError::new(format!("{field}.update.{constant}"), problem));
    }
    if let Decay::Linear { floor, .. } | Decay::Cosine { floor, .. } = optimizer.rate.decay
        && !(0.0..=1.0).contains(&floor)
    {
        let problem = format!("{floor} is a share of the peak and must lie in 0..=1");
        return Err(RunError::new(format!("{field}.rate.decay.floor"), problem));
    }
    Ok(())
}
