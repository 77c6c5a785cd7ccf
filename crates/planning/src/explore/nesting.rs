//! Ways to spread a class of layers, before they are laid on a system.

use crate::system::System;
use crate::workload::{Layered, Parallel, Strategies, Strategy};
use std::fmt;

/// One parallelism over all devices, or one inside nodes and another between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nesting {
    /// Parallelism inside nodes, or over all devices if there is no second level.
    pub inside: Parallel,
    /// Parallelism between nodes, if there are two levels.
    pub between: Option<Parallel>,
}

/// A nesting for each class of layers of a model that is only simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Nesting of bottom and top MLPs.
    pub mlp: Nesting,
    /// Nesting of transformer layers.
    pub transformer: Nesting,
    /// Nesting of embedding tables.
    pub embedding: Nesting,
}

/// What a plan is chosen from; of a class that a model does not have, there is one.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    mlp: Vec<Nesting>,
    transformer: Vec<Nesting>,
    embedding: Vec<Nesting>,
}

impl Nesting {
    const fn flat(inside: Parallel) -> Self {
        Self { inside, between: None }
    }

    /// All ways to spread layers by some parallelisms. Two levels only where a system has two.
    fn all(parallels: &[Parallel], system: &System) -> Vec<Self> {
        let two_levels = system.nodes > 1 && system.devices_per_node > 1;
        let mut all: Vec<Self> = parallels.iter().copied().map(Self::flat).collect();
        if two_levels {
            for &inside in parallels {
                let others = parallels.iter().filter(|&&between| between != inside);
                all.extend(others.map(|&between| Self { inside, between: Some(between) }));
            }
        }
        all
    }

    /// Strategy of this nesting on a system.
    pub fn on(self, system: &System) -> Strategy {
        match self.between {
            None => Strategy::flat(self.inside, system),
            Some(between) => Strategy::nested(self.inside, between, system),
        }
    }
}

impl fmt::Display for Nesting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.between {
            None => f.pad(&format!("({})", self.inside)),
            Some(between) => f.pad(&format!("({}, {between})", self.inside)),
        }
    }
}

impl Plan {
    /// Plan that others are compared with: [`Strategies::default_for`] the model.
    pub fn baseline(model: &Layered) -> Self {
        let embedding = if model.has_large_tables() { Parallel::Mp } else { Parallel::Ddp };
        Self {
            mlp: Nesting::flat(Parallel::Fsdp),
            transformer: Nesting::flat(Parallel::Fsdp),
            embedding: Nesting::flat(embedding),
        }
    }

    /// Strategies of this plan on a system.
    pub fn on(&self, system: &System) -> Strategies {
        Strategies {
            mlp: self.mlp.on(system),
            embedding: self.embedding.on(system),
            transformer: self.transformer.on(system),
        }
    }

    /// Only the classes that a model has: `MLPs (TP, DDP), tables (MP)`.
    pub fn of(&self, model: &Layered) -> String {
        let classes = [
            ("MLPs", self.mlp, model.bottom_layers + model.top_layers > 0),
            ("transformers", self.transformer, model.transformer.is_some()),
            ("tables", self.embedding, model.sparse.is_some()),
        ];
        let present = classes.iter().filter(|(.., has)| *has);
        let named: Vec<String> = present.map(|(class, nesting, _)| format!("{class} {nesting}")).collect();
        named.join(", ")
    }
}

impl Choices {
    pub fn new(model: &Layered, system: &System) -> Self {
        use Parallel::{Ddp, Fsdp, Mp, Tp};
        let baseline = Plan::baseline(model);
        let choose = |has: bool, parallels: &[Parallel], default| match has {
            true => Nesting::all(parallels, system),
            false => vec![default],
        };
        let layers = [Ddp, Fsdp, Tp];
        Self {
            mlp: choose(model.bottom_layers + model.top_layers > 0, &layers, baseline.mlp),
            transformer: choose(model.transformer.is_some(), &layers, baseline.transformer),
            embedding: choose(model.sparse.is_some(), &[Mp, Ddp], baseline.embedding),
        }
    }

    pub fn len(&self) -> usize {
        self.mlp.len() * self.transformer.len() * self.embedding.len()
    }

    pub fn plan(&self, index: usize) -> Plan {
        let (rest, embedding) = (index / self.embedding.len(), index % self.embedding.len());
        let (mlp, transformer) = (rest / self.transformer.len(), rest % self.transformer.len());
        Plan {
            mlp: self.mlp[mlp],
            transformer: self.transformer[transformer],
            embedding: self.embedding[embedding],
        }
    }
}
