//! How much a phase computes, reads and sends: symbolic, because id counts vary from batch to batch.
//!
//! A [`Volume`] is a sum of terms, each a constant times a [`Quantity`]; a [`Traffic`] says what goes from each rank to
//! each other rank. Both become numbers when bound to the [`BatchSizes`] of a step, for one rank of a placement.

use crate::model::Model;
use crate::placement::{Placement, Shard, share};
use crate::topology::{LinkClass, Topology};
use serde::Serialize;
use std::fmt;

/// What a term of a volume multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// 1, every step.
    Step,
    /// Samples of this rank.
    Samples,
    /// Ids of this rank's samples.
    Ids,
    /// Ids of the whole world that fall into shards held here.
    HeldIds,
    /// Floats of the rows that those ids name.
    HeldRows,
    /// Floats of the rows that are looked up here: for the whole world, in replicated tables for this rank alone.
    LookedUpRows,
    /// Floats of the pooled vectors that come of it.
    LookedUpVectors,
}

/// A sum of constants times quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Volume(Vec<(u64, Quantity)>);

impl Volume {
    /// Nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// One term.
    pub fn of(each: u64, quantity: Quantity) -> Self {
        Self::none().and(each, quantity)
    }

    /// One term more.
    pub fn and(mut self, each: u64, quantity: Quantity) -> Self {
        if each > 0 {
            self.0.push((each, quantity));
        }
        self
    }

    /// The number this volume is for `rank`.
    pub fn bind(&self, placement: &Placement, sizes: &BatchSizes, rank: usize) -> u64 {
        let world_ids = |shard: &Shard| sizes.ids.iter().map(|ids| ids[shard.feature]).sum::<u64>();
        let world_samples = || sizes.samples.iter().sum::<u64>();
        let held = placement.held_by(rank);
        // A replicated table is looked up for this rank's samples, any other for the world's.
        let looked_up = |world: &dyn Fn(&Shard) -> u64, own: &dyn Fn(&Shard) -> u64| -> u64 {
            let count = |s: &Shard| if s.replicated { own(s) } else { world(s) };
            held.iter().map(|s| count(s) * s.columns.len() as u64).sum()
        };
        self.0
            .iter()
            .map(|&(each, quantity)| {
                each.saturating_mul(match quantity {
                    Quantity::Step => 1,
                    Quantity::Samples => sizes.samples[rank],
                    Quantity::Ids => sizes.ids[rank].iter().sum(),
                    Quantity::HeldIds => held.iter().map(world_ids).sum(),
                    Quantity::HeldRows => held.iter().map(|s| world_ids(s) * s.columns.len() as u64).sum(),
                    Quantity::LookedUpRows => looked_up(&|s| world_ids(s), &|s| sizes.ids[rank][s.feature]),
                    Quantity::LookedUpVectors => looked_up(&|_| world_samples(), &|_| sizes.samples[rank]),
                })
            })
            .fold(0, u64::saturating_add)
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.pad("–");
        }
        let terms: Vec<String> = self
            .0
            .iter()
            .map(|(each, quantity)| match quantity {
                Quantity::Step => each.to_string(),
                Quantity::Samples => format!("{each}·samples"),
                Quantity::Ids => format!("{each}·ids"),
                Quantity::HeldIds => format!("{each}·held ids"),
                Quantity::HeldRows => format!("{each}·held rows"),
                Quantity::LookedUpRows => format!("{each}·looked-up rows"),
                Quantity::LookedUpVectors => format!("{each}·looked-up vectors"),
            })
            .collect();
        f.pad(&terms.join(" + "))
    }
}

/// One thing that travels for a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// The length of a sample's bag; only of features whose bags vary.
    Length,
    /// An id.
    Id,
    /// An id's weight.
    Weight,
    /// A sample's pooled vector, or its gradient: as many scalars as the shard has columns.
    Vector,
}

/// What goes from one rank to another in a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// From the rank that has the samples to every rank that holds a shard of their features.
    ToHolders {
        /// What travels.
        item: Item,
        /// Bytes of one scalar on the wire.
        bytes: u64,
    },
    /// From the only holder of a shard to the rank that has the samples.
    ToSamples {
        /// What travels.
        item: Item,
        /// Bytes of one scalar on the wire.
        bytes: u64,
    },
    /// A reduction of a vector, as a reduce-scatter and an all-gather over [`share`]s of it.
    AllReduce {
        /// Length of the vector.
        elements: usize,
        /// Bytes of one scalar on the wire.
        bytes: u64,
    },
}

impl Traffic {
    /// Bytes from `from` to `to`.
    pub fn between(
        &self,
        model: &Model,
        placement: &Placement,
        sizes: &BatchSizes,
        from: usize,
        to: usize,
    ) -> u64 {
        let scalars = |item: Item, shard: &Shard, rank: usize| match item {
            Item::Length if model.features()[shard.feature].hotness == crate::feature::Hotness::One => 0,
            Item::Length => sizes.samples[rank],
            Item::Id | Item::Weight => sizes.ids[rank][shard.feature],
            Item::Vector => sizes.samples[rank] * shard.columns.len() as u64,
        };
        match *self {
            _ if from == to => 0,
            Traffic::ToHolders { item, bytes } => {
                placement.held_by(to).iter().map(|shard| bytes * scalars(item, shard, from)).sum()
            }
            Traffic::ToSamples { item, bytes } => {
                placement.owned_by(from).iter().map(|shard| bytes * scalars(item, shard, to)).sum()
            }
            Traffic::AllReduce { elements, bytes } => {
                let ranks = placement.topology().ranks();
                let part = |rank| share(elements, ranks, rank).len() as u64;
                bytes * (part(to) + part(from))
            }
        }
    }

    /// Bytes that `rank` sends, by what they cross.
    pub fn sent(&self, model: &Model, placement: &Placement, sizes: &BatchSizes, rank: usize) -> LinkBytes {
        let topology: Topology = placement.topology();
        let mut sent = LinkBytes::default();
        for to in 0..topology.ranks() {
            let bytes = self.between(model, placement, sizes, rank, to);
            match topology.link(rank, to) {
                LinkClass::Local => {}
                LinkClass::Host => sent.host += bytes,
                LinkClass::Network => sent.network += bytes,
            }
        }
        sent
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |item: &Item| match item {
            Item::Length => "lengths",
            Item::Id => "ids",
            Item::Weight => "weights",
            Item::Vector => "vectors",
        };
        match self {
            Traffic::ToHolders { item, bytes } => f.pad(&format!("{} → holders, {bytes} B each", name(item))),
            Traffic::ToSamples { item, bytes } => f.pad(&format!("{} → samples, {bytes} B each", name(item))),
            Traffic::AllReduce { elements, bytes } => f.pad(&format!("{elements} sums, {bytes} B each")),
        }
    }
}

/// Bytes by what they cross.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkBytes {
    /// Inside a host.
    pub host: u64,
    /// Between hosts.
    pub network: u64,
}

impl std::ops::AddAssign for LinkBytes {
    fn add_assign(&mut self, other: Self) {
        self.host += other.host;
        self.network += other.network;
    }
}

/// The sizes of one step's batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// Samples of each rank.
    pub samples: Vec<u64>,
    /// Ids of each rank, by feature.
    pub ids: Vec<Vec<u64>>,
}

impl BatchSizes {
    /// A global batch shared out evenly, every bag of its feature's mean size.
    pub fn typical(model: &Model, topology: Topology, batch: usize) -> Self {
        let ranks = topology.ranks();
        let samples: Vec<u64> = (0..ranks).map(|rank| share(batch, ranks, rank).len() as u64).collect();
        let ids = samples
            .iter()
            .map(|&samples| model.features().iter().map(|f| f.hotness.mean() * samples).collect())
            .collect();
        Self { samples, ids }
    }
}
