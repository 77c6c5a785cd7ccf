//! Strategy of a class of layers: one parallelism per level, inside nodes first.

use super::{Activations, Layered, WorkloadError};
use crate::system::System;
use std::fmt;
use std::str::FromStr;

/// A way to spread layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parallel {
    /// Data parallelism: layers are replicated, gradients reduced.
    Ddp,
    /// Fully sharded data parallelism: layers are sharded, and gathered when they are needed. In the backward pass a layer is gathered
    /// once the gradient of the one before it is scattered.
    Fsdp,
    /// Fully sharded data parallelism that gathers layers early: the gather of the next layer is issued before this one computes, ahead
    /// of the scatter of its gradient, and hides behind it.
    FsdpPrefetch,
    /// Tensor parallelism: layers are sharded, and partial sums of activations reduced.
    Tp,
    /// Model parallelism of tables: each device has some, vectors are exchanged.
    Mp,
}

/// A level of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    /// Parallelism of the level.
    pub parallel: Parallel,
    /// Number of devices, or nodes, of the level.
    pub degree: usize,
}

/// A strategy of one or two levels; of two the first is over neighbours, and the second over groups of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Strategy(pub Vec<Level>);

/// Class of layers that share a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerGroup {
    /// Bottom MLP.
    Bottom,
    /// Top MLP.
    Top,
    /// Experts: the top MLPs of a recommendation model, the feed-forward layers of a language model.
    Experts,
    /// Transformer layers, apart from experts.
    Transformer,
    /// Embedding tables.
    Tables,
}

/// A strategy for each class of layers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Strategies {
    /// Strategy of the bottom MLP.
    pub bottom: Strategy,
    /// Strategy of the top MLP.
    pub top: Strategy,
    /// Strategy of experts.
    pub experts: Strategy,
    /// Strategy of transformer layers.
    pub transformer: Strategy,
    /// Strategy of embedding tables.
    pub embedding: Strategy,
}

/// Devices that act together at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelSpan {
    pub members: usize,
    pub nodes: usize,
}

impl Strategy {
    /// A strategy of one level over all devices.
    pub fn flat(parallel: Parallel, system: &System) -> Self {
        Self(vec![Level { parallel, degree: system.devices() }])
    }

    /// A strategy with one level inside nodes and another between them.
    pub fn nested(inside: Parallel, between: Parallel, system: &System) -> Self {
        let level = |parallel, degree| Level { parallel, degree };
        Self(vec![level(inside, system.devices_per_node), level(between, system.nodes)])
    }

    /// The product of the degrees of some levels.
    pub fn degree(&self, of: impl Fn(Parallel) -> bool) -> usize {
        self.0.iter().filter(|level| of(level.parallel)).map(|level| level.degree).product()
    }

    /// Number of devices over which the parameters of a layer are cut.
    pub fn shards(&self) -> usize {
        self.degree(|parallel| parallel != Parallel::Ddp)
    }

    /// Number of devices over which the levels above a parallelism cut the parameters of a layer.
    pub(super) fn shards_above(&self, of: impl Fn(Parallel) -> bool) -> usize {
        let above = self.0.iter().skip_while(|level| !of(level.parallel)).skip(1);
        above.filter(|level| level.parallel != Parallel::Ddp).map(|level| level.degree).product()
    }

    /// The level with a parallelism, and the devices that act together there.
    pub(super) fn span(&self, of: impl Fn(Parallel) -> bool, system: &System) -> Option<(Level, LevelSpan)> {
        let index = self.0.iter().position(|level| of(level.parallel))?;
        let inner: usize = self.0[..index].iter().map(|level| level.degree).product();
        let level = self.0[index];
        let nodes = if inner >= system.devices_per_node {
            level.degree.min(system.nodes)
        } else {
            system.nodes_of(inner * level.degree)
        };
        Some((level, LevelSpan { members: level.degree, nodes }))
    }

    /// Refuses a strategy that does not fill `system`; `field` names it in errors.
    pub(super) fn check(&self, field: &'static str, system: &System) -> Result<(), WorkloadError> {
        let product = self.0.iter().try_fold(1usize, |product, level| product.checked_mul(level.degree));
        let (product, devices) = (product.unwrap_or(usize::MAX), system.devices());
        if self.0.is_empty() || self.0.len() > 2 {
            let message = format!("{field} has {} levels; give one or two", self.0.len());
            return Err(WorkloadError::Contradiction(message));
        }
        if self.0.len() == 2 && self.0[0].parallel.is_like(self.0[1].parallel) {
            let message = format!("{field} is {self}: the same twice; write it as one level");
            return Err(WorkloadError::Contradiction(message));
        }
        let tables = field == LayerGroup::Tables.field();
        let other =
            |level: &&Level| level.parallel != Parallel::Ddp && tables != (level.parallel == Parallel::Mp);
        if let Some(level) = self.0.iter().find(other) {
            let message =
                format!("{field} has {}; tables are MP or DDP, layers DDP, FSDP or TP", level.parallel);
            return Err(WorkloadError::Contradiction(message));
        }
        if product != devices {
            let (strategy, system) = (self.to_string(), system.name.clone());
            return Err(WorkloadError::Degrees { field, strategy, product, system, devices });
        }
        Ok(())
    }
}

impl LayerGroup {
    /// All classes.
    pub const ALL: [LayerGroup; 5] =
        [Self::Bottom, Self::Top, Self::Experts, Self::Transformer, Self::Tables];

    /// Name of the class in sentences.
    pub fn name(self) -> &'static str {
        match self {
            LayerGroup::Bottom => "bottom MLP",
            LayerGroup::Top => "top MLP",
            LayerGroup::Experts => "experts",
            LayerGroup::Transformer => "transformer layers",
            LayerGroup::Tables => "tables",
        }
    }

    /// Field of a task's file that has the strategy of this class alone.
    pub(super) fn field(self) -> &'static str {
        match self {
            LayerGroup::Bottom => "bot_mlp_parallel",
            LayerGroup::Top => "top_mlp_parallel",
            LayerGroup::Experts => "expert_parallel",
            LayerGroup::Transformer => "transformer_parallel",
            LayerGroup::Tables => "emb_parallel",
        }
    }
}

impl Strategies {
    /// One strategy for all MLPs, another for transformer layers. Experts have that of the layers that they stand for.
    pub fn new(model: &Layered, mlp: Strategy, transformer: Strategy, embedding: Strategy) -> Self {
        let experts = if model.has_large_tables() { &mlp } else { &transformer };
        Self { experts: experts.clone(), bottom: mlp.clone(), top: mlp, transformer, embedding }
    }

    /// Strategies that fit everywhere: tables sharded over all devices (replicated for language models, which have small
    /// ones), and all else fully sharded.
    pub fn default_for(model: &Layered, system: &System) -> Self {
        let sharded = Strategy::flat(Parallel::Fsdp, system);
        let embedding = if model.has_large_tables() { Parallel::Mp } else { Parallel::Ddp };
        Self::new(model, sharded.clone(), sharded, Strategy::flat(embedding, system))
    }

    /// Replaces the strategy of all MLPs, experts of recommendation models among them.
    pub fn with_mlp(self, model: &Layered, mlp: Strategy) -> Self {
        Self::new(model, mlp, self.transformer, self.embedding)
    }

    /// Replaces the strategy of transformer layers, experts of language models among them.
    pub fn with_transformer(self, model: &Layered, transformer: Strategy) -> Self {
        let experts = if model.has_large_tables() { self.experts } else { transformer.clone() };
        Self { transformer, experts, ..self }
    }

    /// Strategy of a class.
    pub fn of(&self, group: LayerGroup) -> &Strategy {
        match group {
            LayerGroup::Bottom => &self.bottom,
            LayerGroup::Top => &self.top,
            LayerGroup::Experts => &self.experts,
            LayerGroup::Transformer => &self.transformer,
            LayerGroup::Tables => &self.embedding,
        }
    }

    /// Refuses strategies that do not fill `system`.
    pub(super) fn check(&self, system: &System) -> Result<(), WorkloadError> {
        LayerGroup::ALL.into_iter().try_for_each(|group| self.of(group).check(group.field(), system))
    }

    /// Refuses what MAD-Max does not have: FSDP on the second of two levels.
    pub(super) fn check_madmax(&self) -> Result<(), WorkloadError> {
        for group in LayerGroup::ALL {
            let strategy = self.of(group);
            if strategy.0.get(1).is_some_and(|level| level.parallel.is_fsdp()) {
                return Err(WorkloadError::Contradiction(format!(
                    "{} is {strategy}: MAD-Max's rules have FSDP on the first level only; use the cost model hierarchical",
                    group.field()
                )));
            }
        }
        Ok(())
    }
}

/// The classes that a model has with what is said of each; both MLPs, or all of a model, as one where the same is said of them.
pub(crate) fn describe(
    model: &Layered,
    activations: Activations,
    of: impl Fn(LayerGroup) -> String,
) -> String {
    let has = |group: &LayerGroup| model.has(*group);
    let mlps: Vec<LayerGroup> = match model.has_large_tables() {
        true => [LayerGroup::Bottom, LayerGroup::Top, LayerGroup::Experts].into_iter().filter(has).collect(),
        false => Vec::new(),
    };
    let mut parts = Vec::new();
    let first = mlps.first().map(|&group| of(group));
    match first {
        Some(first) if mlps.iter().all(|&group| of(group) == first) => parts.push(format!("MLPs {first}")),
        _ => parts.extend(mlps.iter().map(|&group| format!("{} {}", group.name(), of(group)))),
    }
    let rest = LayerGroup::ALL.into_iter().filter(has).filter(|group| !mlps.contains(group));
    parts.extend(rest.map(|group| format!("{} {}", group.name(), of(group))));
    parts.extend((activations == Activations::Recompute).then(|| "activations recomputed".into()));
    parts.join(", ")
}

impl Parallel {
    /// Whether layers are sharded and gathered when they are needed.
    pub fn is_fsdp(self) -> bool {
        matches!(self, Parallel::Fsdp | Parallel::FsdpPrefetch)
    }

    /// Whether two levels of a strategy could be one: the same parallelism, or FSDP that is gathered early or not.
    pub fn is_like(self, other: Parallel) -> bool {
        self == other || (self.is_fsdp() && other.is_fsdp())
    }

    fn name(self) -> &'static str {
        match self {
            Parallel::Ddp => "DDP",
            Parallel::Fsdp => "FSDP",
            Parallel::FsdpPrefetch => "FSDP+prefetch",
            Parallel::Tp => "TP",
            Parallel::Mp => "MP",
        }
    }
}

impl fmt::Display for Parallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Parallel {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<Self, WorkloadError> {
        match name.to_ascii_lowercase().as_str() {
            "ddp" => Ok(Parallel::Ddp),
            "fsdp" => Ok(Parallel::Fsdp),
            "fsdp+prefetch" => Ok(Parallel::FsdpPrefetch),
            "tp" => Ok(Parallel::Tp),
            "mp" | "shard" | "sharding" | "4d" => Ok(Parallel::Mp),
            _ => Err(WorkloadError::Unknown {
                what: "parallelism",
                name: name.into(),
                known: "DDP, FSDP, FSDP+prefetch, TP, and MP for tables",
            }),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<String> =
            self.0.iter().map(|level| format!("{} {}", level.parallel, level.degree)).collect();
        f.pad(&format!("({})", levels.join(", ")))
    }
}
