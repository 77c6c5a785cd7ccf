//! Job: a task, a strategy for each class of layers, and a batch size.

mod file;

pub use file::JobFile;

use super::layers::{Layer, LayerClass};
use super::{LayerGroup, Layered, Parallel, Strategies, Strategy, WorkloadError, describe};
use crate::system::System;
use std::fmt;
use std::str::FromStr;

/// A task on a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the job.
    pub name: String,
    /// Task of the job.
    pub task: TaskKind,
    /// Strategy for each class of layers.
    pub strategies: Strategies,
    /// Samples that a device brings to a step. Devices that share a shard of a layer take those of all of them together.
    pub per_device: f64,
    /// What transformer layers keep for the backward pass.
    pub activations: Activations,
    /// How lookups are spread over devices.
    pub loads: LookupLoads,
}

/// Task that a model is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Forward, backward, update.
    PreTraining,
    /// Training with some parts frozen.
    FineTuning(Frozen),
    /// Forward only.
    Inference,
}

/// Parts of a model that are not trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frozen {
    /// The bottom MLP.
    pub bottom: bool,
    /// The top MLP, experts among it; of models that Campanile trains the interaction, too.
    pub top: bool,
    /// Experts alone.
    pub experts: bool,
    /// Transformer layers, experts among them.
    pub transformer: bool,
    /// The transformer layers from this one on, counted from 0.
    pub transformer_from: Option<usize>,
    /// Tower modules, of models that Campanile trains.
    pub towers: bool,
    /// The tables.
    pub embedding: bool,
}

/// What transformer layers keep of the forward pass for the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activations {
    /// All that the backward pass needs.
    #[default]
    Keep,
    /// The output of each layer alone (activation checkpointing): the backward pass computes what lies inside a layer again.
    Recompute,
}

/// Lookups of devices over their mean, which repeat over all devices.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupLoads {
    over_mean: Vec<f64>,
    busiest: f64,
}

impl Job {
    /// Pre-training with so many samples a device.
    pub fn pre_training(
        model: &Layered,
        strategies: &Strategies,
        per_device: usize,
        system: &System,
    ) -> Self {
        Self::new(model, TaskKind::PreTraining, strategies, per_device as f64, system)
    }

    /// A task with so many samples a device. Activations are kept, and lookups spread evenly.
    pub fn new(
        model: &Layered,
        task: TaskKind,
        strategies: &Strategies,
        per_device: f64,
        system: &System,
    ) -> Self {
        Self {
            name: format!("{} of {} on {}", task, model.name, system.name),
            task,
            strategies: strategies.clone(),
            per_device,
            activations: Activations::Keep,
            loads: LookupLoads::even(),
        }
    }

    /// How the layers of a model are spread, in words: `MLPs (TP 8, DDP 16), tables (MP 128)`.
    pub fn described(&self, model: &Layered) -> String {
        describe(model, self.activations, |group| self.strategies.of(group).to_string())
    }

    /// Samples of the devices that share a shard of a class of layers: with tensor parallelism of degree 8, of 8 devices.
    pub fn batch(&self, group: LayerGroup) -> f64 {
        self.per_device * sharing(self.strategies.of(group))
    }

    /// Samples that the whole system takes in a step.
    pub fn samples(&self, system: &System) -> f64 {
        self.per_device * system.devices() as f64
    }

    /// How many times its forward pass the backward pass of a layer costs: once for its weights if they are trained, once for its
    /// inputs if something below learns, once more if what lies inside is computed again; 0 if the pass does not get there. MAD-Max
    /// takes twice for every layer in pre-training.
    pub(crate) fn backward_times(&self, model: &Layered, layers: &[Layer], i: usize) -> f64 {
        let (layer, frozen) = (&layers[i], self.frozen());
        let trained = |layer: &Layer| !layer.is_frozen(frozen);
        let tables = model.sparse.is_some() && !frozen.embedding && layer.class != LayerClass::Bottom;
        let below = self.task == TaskKind::PreTraining || tables || layers[..i].iter().any(trained);
        let times = f64::from(u8::from(trained(layer))) + f64::from(u8::from(below));
        if times > 0.0 && self.recomputes(layer) { times + 1.0 } else { times }
    }

    /// Whether what lies inside a layer is computed again in the backward pass.
    pub(crate) fn recomputes(&self, layer: &Layer) -> bool {
        self.activations == Activations::Recompute && layer.inside > 0.0
    }

    /// Parts that are not trained.
    pub fn frozen(&self) -> Frozen {
        match self.task {
            TaskKind::FineTuning(frozen) => frozen,
            TaskKind::PreTraining | TaskKind::Inference => Frozen::default(),
        }
    }
}

/// Devices that share samples under a strategy.
fn sharing(strategy: &Strategy) -> f64 {
    strategy.degree(|parallel| matches!(parallel, Parallel::Tp | Parallel::Mp)) as f64
}

impl LookupLoads {
    /// All devices look up as much.
    pub fn even() -> Self {
        Self { over_mean: vec![1.0], busiest: 1.0 }
    }

    /// Devices look up in these proportions.
    pub fn new(proportions: &[f64]) -> Result<Self, WorkloadError> {
        let most = proportions.iter().copied().fold(0.0, f64::max);
        let valid = |load: &f64| (0.0..=1e15).contains(load);
        let value = proportions.iter().copied().find(|load| !valid(load));
        let value = value.or((most < 1e-15).then_some(most));
        if let Some(value) = value {
            return Err(WorkloadError::Number {
                field: "a proportion of lookup_loads".into(),
                value,
                must: "at least 0 and at most 1e15, and one of them at least 1e-15".into(),
            });
        }
        let mean = proportions.iter().sum::<f64>() / proportions.len() as f64;
        Ok(Self { over_mean: proportions.iter().map(|load| load / mean).collect(), busiest: most / mean })
    }

    /// Lookups of devices over the mean, as they repeat.
    pub fn over_mean(&self) -> &[f64] {
        &self.over_mean
    }

    /// Lookups of the busiest device over the mean: all others wait for its vectors.
    pub fn busiest(&self) -> f64 {
        self.busiest
    }

    /// Refuses loads that do not repeat evenly over the devices of a system.
    pub(super) fn check(&self, system: &System) -> Result<(), WorkloadError> {
        let (loads, devices) = (self.over_mean.len(), system.devices());
        match devices.is_multiple_of(loads) {
            true => Ok(()),
            false => Err(WorkloadError::Contradiction(format!(
                "lookup_loads has {loads} proportions for {devices} devices; their number must divide that of devices"
            ))),
        }
    }
}

impl Frozen {
    /// Refuses to freeze what a model does not have.
    pub fn check(&self, model: &Layered) -> Result<(), WorkloadError> {
        let layers = model.transformer.map_or(0, |transformer| transformer.layers);
        let missing = [
            (self.bottom && model.bottom_layers == 0, "bottom MLP"),
            (self.top && model.top_layers == 0, "top MLP"),
            (self.experts && model.experts.is_none(), "experts"),
            (self.transformer && layers == 0, "transformer layers"),
            (self.towers, "tower modules"),
            (self.embedding && model.sparse.is_none(), "tables"),
        ];
        if let Some((_, part)) = missing.into_iter().find(|(is, _)| *is) {
            let message = format!("{} has no {part} that could be frozen", model.name);
            return Err(WorkloadError::Contradiction(message));
        }
        match self.transformer_from {
            Some(first) if first >= layers => Err(WorkloadError::Contradiction(format!(
                "transformer>={first}: {} has {layers} transformer layers, counted from 0",
                model.name
            ))),
            _ => Ok(()),
        }
    }

    /// Names of the parts, as `finetune:` takes them.
    pub fn names(&self) -> Vec<String> {
        let parts = [
            (self.bottom, "bot"),
            (self.top, "top"),
            (self.experts, "experts"),
            (self.transformer, "transformer"),
            (self.towers, "towers"),
            (self.embedding, "emb"),
        ];
        let named = parts.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_string());
        named.chain(self.transformer_from.map(|first| format!("transformer>={first}"))).collect()
    }
}

impl FromStr for Frozen {
    type Err = WorkloadError;

    /// Names of parts with commas between them: `bot,emb`; `transformer>=8` names the transformer layers from the ninth on.
    fn from_str(names: &str) -> Result<Self, WorkloadError> {
        let mut frozen = Self::default();
        for name in names.split(',').filter(|_| !names.is_empty()) {
            let twice = match name.trim() {
                "bot" => std::mem::replace(&mut frozen.bottom, true),
                "top" => std::mem::replace(&mut frozen.top, true),
                "experts" => std::mem::replace(&mut frozen.experts, true),
                "transformer" => std::mem::replace(&mut frozen.transformer, true),
                "towers" => std::mem::replace(&mut frozen.towers, true),
                "emb" => std::mem::replace(&mut frozen.embedding, true),
                other => match other.strip_prefix("transformer>=").map(str::parse) {
                    Some(Ok(first)) => frozen.transformer_from.replace(first).is_some(),
                    _ => {
                        return Err(WorkloadError::Unknown {
                            what: "part of a model",
                            name: other.into(),
                            known: "bot, top, experts, transformer, transformer>=N, towers and emb",
                        });
                    }
                },
            };
            if twice {
                return Err(WorkloadError::Contradiction(format!("{} is named twice", name.trim())));
            }
        }
        Ok(frozen)
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskKind::PreTraining => f.pad("pre-training"),
            TaskKind::FineTuning(frozen) => {
                let words = |name: String| match name.as_str() {
                    "bot" => "bottom".into(),
                    "emb" => "tables".into(),
                    _ => name,
                };
                let names: Vec<String> = frozen.names().into_iter().map(words).collect();
                match names.is_empty() {
                    true => f.pad("fine-tuning"),
                    false => f.pad(&format!("fine-tuning ({} frozen)", names.join(", "))),
                }
            }
            TaskKind::Inference => f.pad("inference"),
        }
    }
}

impl Activations {
    /// Name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Activations::Keep => "keep",
            Activations::Recompute => "recompute",
        }
    }
}

impl fmt::Display for Activations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Activations {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<Self, WorkloadError> {
        let found = [Activations::Keep, Activations::Recompute].into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| WorkloadError::Unknown {
            what: "choice of activations",
            name: name.into(),
            known: "keep and recompute",
        })
    }
}
