//! Ways to spread a class of layers, before they are laid on a system.

use crate::system::System;
use crate::workload::{Activations, LayerGroup, Layered, Parallel, Strategies, Strategy, describe};
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
    /// Nesting of the bottom MLP.
    pub bottom: Nesting,
    /// Nesting of the top MLP.
    pub top: Nesting,
    /// Nesting of experts.
    pub experts: Nesting,
    /// Nesting of transformer layers.
    pub transformer: Nesting,
    /// Nesting of embedding tables.
    pub embedding: Nesting,
    /// What transformer layers keep for the backward pass.
    pub activations: Activations,
}

/// What a plan is chosen from; of a class that a model does not have, there is one.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    bottom: Vec<Nesting>,
    top: Vec<Nesting>,
    experts: Vec<Nesting>,
    transformer: Vec<Nesting>,
    embedding: Vec<Nesting>,
    activations: Vec<Activations>,
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
                let others = parallels.iter().filter(|between| !between.is_like(inside));
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
        let sharded = Nesting::flat(Parallel::Fsdp);
        Self {
            bottom: sharded,
            top: sharded,
            experts: sharded,
            transformer: sharded,
            embedding: Nesting::flat(embedding),
            activations: Activations::Keep,
        }
    }

    /// Nesting of a class of layers.
    pub fn nesting(&self, group: LayerGroup) -> Nesting {
        match group {
            LayerGroup::Bottom => self.bottom,
            LayerGroup::Top => self.top,
            LayerGroup::Experts => self.experts,
            LayerGroup::Transformer => self.transformer,
            LayerGroup::Tables => self.embedding,
        }
    }

    /// Strategies of this plan on a system.
    pub fn on(&self, system: &System) -> Strategies {
        Strategies {
            bottom: self.bottom.on(system),
            top: self.top.on(system),
            experts: self.experts.on(system),
            transformer: self.transformer.on(system),
            embedding: self.embedding.on(system),
        }
    }

    /// Only the classes that a model has: `MLPs (TP, DDP), tables (MP)`.
    pub fn of(&self, model: &Layered) -> String {
        describe(model, self.activations, |group| self.nesting(group).to_string())
    }
}

impl Choices {
    /// Choices for a model on a system. Where nothing goes back, activations are not kept in any case.
    pub fn new(model: &Layered, system: &System, trains: bool) -> Self {
        use Parallel::{Ddp, Fsdp, FsdpPrefetch, Mp, Tp};
        let baseline = Plan::baseline(model);
        let choose = |group: LayerGroup, parallels: &[Parallel]| match model.has(group) {
            true => Nesting::all(parallels, system),
            false => vec![baseline.nesting(group)],
        };
        let layers = [Ddp, Fsdp, FsdpPrefetch, Tp];
        let mut activations = vec![Activations::Keep];
        activations.extend((trains && model.transformer.is_some()).then_some(Activations::Recompute));
        Self {
            bottom: choose(LayerGroup::Bottom, &layers),
            top: choose(LayerGroup::Top, &layers),
            experts: choose(LayerGroup::Experts, &layers),
            transformer: choose(LayerGroup::Transformer, &layers),
            embedding: choose(LayerGroup::Tables, &[Mp, Ddp]),
            activations,
        }
    }

    fn lists(&self) -> [&Vec<Nesting>; 5] {
        [&self.embedding, &self.transformer, &self.experts, &self.top, &self.bottom]
    }

    pub fn len(&self) -> usize {
        self.lists().iter().map(|list| list.len()).product::<usize>() * self.activations.len()
    }

    /// A plan by its number. Tables change fastest, then transformer layers, experts, top and bottom MLP, activations.
    pub fn plan(&self, mut index: usize) -> Plan {
        let [embedding, transformer, experts, top, bottom] = self.lists().map(|list| {
            let nesting = list[index % list.len()];
            index /= list.len();
            nesting
        });
        Plan { bottom, top, experts, transformer, embedding, activations: self.activations[index] }
    }
}
