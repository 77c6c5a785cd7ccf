//! Strategy of a class of layers: one parallelism per level, inside nodes first.

use super::{Layered, WorkloadError};
use crate::system::System;
use std::fmt;
use std::str::FromStr;

/// A way to spread layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parallel {
    /// Data parallelism: layers are replicated, gradients reduced.
    Ddp,
    /// Fully sharded data parallelism: layers are sharded, and gathered when they are needed.
    Fsdp,
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

/// A strategy for each class of layers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Strategies {
    /// Strategy of bottom and top MLPs.
    pub mlp: Strategy,
    /// Strategy of embedding tables.
    pub embedding: Strategy,
    /// Strategy of transformer layers.
    pub transformer: Strategy,
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

    /// The level with a parallelism, and the devices that act together there.
    pub(super) fn span(&self, parallel: Parallel, system: &System) -> Option<(Level, LevelSpan)> {
        let index = self.0.iter().position(|level| level.parallel == parallel)?;
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
        if self.0.len() == 2 && self.0[0].parallel == self.0[1].parallel {
            let message = format!("{field} is {self}: the same twice; write it as one level");
            return Err(WorkloadError::Contradiction(message));
        }
        let tables = field == "emb_parallel";
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

impl Strategies {
    /// Strategies that fit everywhere: tables sharded over all devices (replicated for language models, which have small
    /// ones), and all else fully sharded.
    pub fn default_for(model: &Layered, system: &System) -> Self {
        let embedding = if model.has_large_tables() { Parallel::Mp } else { Parallel::Ddp };
        Self {
            mlp: Strategy::flat(Parallel::Fsdp, system),
            embedding: Strategy::flat(embedding, system),
            transformer: Strategy::flat(Parallel::Fsdp, system),
        }
    }
}

impl Strategies {
    /// Refuses what MAD-Max does not have: FSDP on the second of two levels.
    pub(super) fn check_madmax(&self) -> Result<(), WorkloadError> {
        for (field, strategy) in [("mlp_parallel", &self.mlp), ("transformer_parallel", &self.transformer)] {
            if strategy.0.get(1).is_some_and(|level| level.parallel == Parallel::Fsdp) {
                return Err(WorkloadError::Contradiction(format!(
                    "{field} is {strategy}: MAD-Max's rules have FSDP on the first level only; use the cost model hierarchical"
                )));
            }
        }
        Ok(())
    }
}

impl Parallel {
    fn name(self) -> &'static str {
        match self {
            Parallel::Ddp => "DDP",
            Parallel::Fsdp => "FSDP",
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
            "tp" => Ok(Parallel::Tp),
            "mp" | "shard" | "sharding" | "4d" => Ok(Parallel::Mp),
            _ => Err(WorkloadError::Unknown {
                what: "parallelism",
                name: name.into(),
                known: "DDP, FSDP, TP, and MP for tables",
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
