//! Volumes: how much a phase computes, reads and sends. They are symbolic, because id counts vary from batch to batch.
//!
//! A [`Volume`] is a sum of terms, each a constant times a [`Quantity`]; a [`Traffic`] says what goes from each rank to
//! each other rank. Both become numbers when bound to the [`BatchSizes`] of a step, for one rank of a placement.

mod copies;
mod leg;
mod traffic;

pub use copies::expected_distinct;
pub use leg::Leg;
pub use traffic::{CopyItem, Item, LinkBytes, ReducedVector, Traffic};

use crate::codec::Codec;
use crate::dataflow::{Deployment, Sptt};
use crate::model::Model;
use crate::placement::{CopyUpdate, Placement, Shard, share, width};
use crate::table_cache::CachedShard;
use serde::Serialize;
use std::fmt;

/// Bytes of a float.
const FLOAT: u64 = 4;

/// Quantity of a step that a term of a volume multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The number 1, in every step.
    Step,
    /// Number of samples of this rank.
    Samples,
    /// Number of ids of this rank's samples.
    Ids,
    /// Number of ids that come here for shards held here: of the whole world, or of the samples that a copy serves.
    HeldIds,
    /// Number of ids of the whole world that fall into shards held here which are updated sample by sample.
    UpdatedIds,
    /// Floats of the rows, in shards held here which are updated sample by sample, that the ids of the whole world name.
    HeldRows,
    /// Floats of the rows that are looked up here: for the whole world, in copies for the samples that they serve.
    LookedUpRows,
    /// Bytes of the rows of [`Quantity::HeldRows`], in the number formats of their tables.
    HeldBytes,
    /// Bytes of the rows of [`Quantity::LookedUpRows`], in the number formats of their tables.
    LookedUpBytes,
    /// Bytes of the rows that are not in memory, of those that ids of the whole world name: as many as if ids were uniform. Ids that
    /// prefer some rows find more of them in memory.
    MissingBytes,
    /// Floats of the pooled vectors that are looked up here.
    LookedUpVectors,
    /// Floats of the vectors of the whole world's samples in shards that this rank alone holds.
    OwnedVectors,
    /// Floats of the vectors of all features of this rank's group, for the samples of its peers.
    GatheredVectors,
    /// Floats that leave this rank's group for its peers' samples.
    LeavingVectors,
    /// FLOPs of the towers of this rank's group, forward, for its peers' samples.
    TowerFlops,
    /// Weights of the towers of this rank's group, and of its tensor trains.
    TowerWeights,
    /// Floats that this rank lays out for a leg, its own part included.
    Sent(Leg),
    /// Floats that arrive at this rank on a leg, including its own part.
    Received(Leg),
    /// Floats that pass through this rank from its host to others, where a leg goes in two levels.
    Relayed(Leg),
    /// Encoded bytes of what this rank lays out for a leg, its own part included.
    EncodedSent(Leg),
    /// Encoded bytes that arrive at this rank on a leg, including its own part.
    EncodedReceived(Leg),
    /// Encoded bytes that pass through this rank from its host to others, where a leg goes in two levels.
    EncodedRelayed(Leg),
    /// The number 1 on a rank with a copy of this feature's table, 0 on others.
    CopyOf(usize),
    /// Number of ids of this feature that the copy held here serves.
    CopiedIds(usize),
    /// Number of rows of this feature's table that are touched in the copy held here.
    TouchedRows(usize),
    /// Number of rows of this feature's table that are touched in all copies, added up over them, on a rank with a copy.
    CopiesTouched(usize),
}

/// Volume: a sum of constants times quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Volume(Vec<(u64, Quantity)>);

impl Volume {
    /// Empty volume.
    pub fn none() -> Self {
        Self::default()
    }

    /// Makes a volume of one term: `each` times a quantity.
    pub fn of(each: u64, quantity: Quantity) -> Self {
        Self::none().and(each, quantity)
    }

    /// Adds a term to the volume: `each` times a quantity.
    pub fn and(mut self, each: u64, quantity: Quantity) -> Self {
        if each > 0 {
            self.0.push((each, quantity));
        }
        self
    }

    /// Half of the volume, in every term.
    pub fn halved(self) -> Self {
        Self(self.0.into_iter().map(|(each, quantity)| (each / 2, quantity)).collect())
    }

    /// The volume without `each` times a quantity, as far as its terms have it.
    pub fn less(mut self, each: u64, quantity: Quantity) -> Self {
        if let Some(term) = self.0.iter_mut().find(|term| term.1 == quantity) {
            term.0 = term.0.saturating_sub(each);
        }
        self
    }

    /// Value of the volume for `rank` and the sizes of a batch.
    pub fn bind(&self, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> u64 {
        let terms = self.0.iter();
        let bound =
            terms.map(|&(each, quantity)| each.saturating_mul(quantity.bind(deployment, sizes, rank)));
        bound.fold(0, u64::saturating_add)
    }
}

impl Quantity {
    fn bind(self, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> u64 {
        let Deployment { model, placement, dataflow, .. } = deployment;
        let world_samples = || sizes.samples.iter().sum::<u64>();
        let held = placement.held_by(rank);
        let copied = placement.copied_by(rank);
        let by_samples = &held[..held.len() - copied.len()];
        // Copies get what belongs to the samples that they serve, all others what belongs to the world's.
        let ids_of = |s: &Shard| placement.served_by(s, rank).map(|r| sizes.ids_of(r, s)).sum::<u64>();
        let samples_of = |s: &Shard| placement.served_by(s, rank).map(|r| sizes.samples[r]).sum::<u64>();
        // A replicated table is looked up for this rank's samples.
        let looked_up =
            |all: &dyn Fn(&Shard) -> u64, own: &dyn Fn(&Shard) -> u64, each: &dyn Fn(&Shard) -> u64| {
                let count = |s: &Shard| match s.holders.copy_update() {
                    Some(CopyUpdate::Samples) => own(s),
                    Some(CopyUpdate::Rows) | None => all(s),
                    // Rows of tensor trains are computed, not looked up.
                    Some(CopyUpdate::Cores) => 0,
                };
                held.iter().map(|s| count(s) * each(s)).sum::<u64>()
            };
        let floats = |s: &Shard| s.columns.len() as u64;
        let bytes = |s: &Shard| model.table_format(s.feature).row_bytes(s.columns.len()) as u64;
        let copy = |feature: usize| copied.iter().find(|shard| shard.feature == feature);
        let of_group = |of: &dyn Fn(&Sptt, usize) -> u64| {
            dataflow.sptt().map_or(0, |sptt| of(sptt, sptt.groups().group_of(rank)))
        };
        let peers = |sptt: &Sptt| peer_samples(sptt, sizes, rank);
        fn towers(sptt: &Sptt, group: usize) -> &[usize] {
            &sptt.plan(group).towers
        }
        match self {
            Quantity::Step => 1,
            Quantity::Samples => sizes.samples[rank],
            Quantity::Ids => sizes.ids[rank].iter().flatten().sum(),
            Quantity::HeldIds => held.iter().map(ids_of).sum(),
            Quantity::UpdatedIds => by_samples.iter().map(ids_of).sum(),
            Quantity::HeldRows => by_samples.iter().map(|s| ids_of(s) * floats(s)).sum(),
            Quantity::HeldBytes => by_samples.iter().map(|s| ids_of(s) * bytes(s)).sum(),
            Quantity::LookedUpRows => looked_up(&ids_of, &|s| sizes.ids_of(rank, s), &floats),
            Quantity::LookedUpBytes => looked_up(&ids_of, &|s| sizes.ids_of(rank, s), &bytes),
            Quantity::MissingBytes => deployment.cached.as_ref().map_or(0, |cached| {
                let shards = held.iter().zip(cached.of_rank(rank));
                let missing = |(s, cached): (&Shard, &Option<CachedShard>)| {
                    let Some(CachedShard { slots, row_bytes }) = *cached else { return 0 };
                    let (rows, ids) = (s.rows.len(), ids_of(s));
                    let resident = slots as f64 / rows.max(1) as f64;
                    (expected_distinct(ids, rows) as f64 * (1.0 - resident)) as u64 * row_bytes as u64
                };
                shards.map(missing).sum()
            }),
            Quantity::LookedUpVectors => looked_up(&samples_of, &|_| sizes.samples[rank], &floats),
            Quantity::OwnedVectors => world_samples() * width(placement.owned_by(rank)) as u64,
            Quantity::GatheredVectors => of_group(&|sptt, g| peers(sptt) * sptt.plan(g).input_width as u64),
            Quantity::LeavingVectors => of_group(&|sptt, g| peers(sptt) * sptt.plan(g).output_width() as u64),
            Quantity::TowerFlops => of_group(&|sptt, g| {
                let flops = towers(sptt, g).iter().map(|&t| model.towers()[t].forward_flops()).sum::<u64>();
                flops.saturating_mul(peers(sptt))
            }),
            Quantity::TowerWeights => {
                let trains = placement.tensor_trains_by(rank).iter();
                let cores =
                    trains.filter_map(|s| model.tensor_train(s.feature)).map(|t| t.parameters() as u64);
                let cores = cores.sum::<u64>();
                of_group(&|sptt, g| {
                    towers(sptt, g).iter().map(|&t| model.towers()[t].weights()).sum::<u64>() + cores
                })
            }
            Quantity::Sent(leg) => leg.sent(Codec::F32, deployment, sizes, rank) / FLOAT,
            Quantity::Received(leg) => leg.received(Codec::F32, deployment, sizes, rank) / FLOAT,
            Quantity::Relayed(leg) => leg.relayed(Codec::F32, deployment, sizes, rank) / FLOAT,
            Quantity::EncodedSent(leg) => leg.sent(deployment.wire.of(leg), deployment, sizes, rank),
            Quantity::EncodedReceived(leg) => leg.received(deployment.wire.of(leg), deployment, sizes, rank),
            Quantity::EncodedRelayed(leg) => leg.relayed(deployment.wire.of(leg), deployment, sizes, rank),
            Quantity::CopyOf(feature) => copy(feature).map_or(0, |_| 1),
            Quantity::CopiedIds(feature) => copy(feature).map_or(0, ids_of),
            Quantity::TouchedRows(feature) => copy(feature).map_or(0, |s| sizes.touched_in(rank, s)),
            Quantity::CopiesTouched(feature) => copy(feature)
                .map_or(0, |s| s.holders.ranks().iter().map(|&holder| sizes.touched_in(holder, s)).sum()),
        }
    }
}

/// Samples of a rank and its peers.
fn peer_samples(sptt: &Sptt, sizes: &BatchSizes, rank: usize) -> u64 {
    sptt.groups().peers(sptt.groups().index_of(rank)).map(|peer| sizes.samples[peer]).sum()
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
                Quantity::UpdatedIds => format!("{each}·updated ids"),
                Quantity::HeldRows => format!("{each}·held rows"),
                Quantity::LookedUpRows => format!("{each}·looked-up rows"),
                Quantity::HeldBytes => format!("{each}·bytes of held rows"),
                Quantity::LookedUpBytes => format!("{each}·bytes of looked-up rows"),
                Quantity::MissingBytes => format!("{each}·bytes of missing rows"),
                Quantity::LookedUpVectors => format!("{each}·looked-up vectors"),
                Quantity::OwnedVectors => format!("{each}·owned vectors"),
                Quantity::GatheredVectors => format!("{each}·gathered vectors"),
                Quantity::LeavingVectors => format!("{each}·leaving vectors"),
                Quantity::TowerFlops => format!("{each}·tower FLOPs"),
                Quantity::TowerWeights => format!("{each}·tower weights"),
                Quantity::Sent(leg) => format!("{each}·floats sent in the {leg} exchange"),
                Quantity::Received(leg) => format!("{each}·floats received in the {leg} exchange"),
                Quantity::Relayed(leg) => format!("{each}·floats relayed in the {leg} exchange"),
                Quantity::EncodedSent(leg) => format!("{each}·bytes sent in the {leg} exchange"),
                Quantity::EncodedReceived(leg) => format!("{each}·bytes received in the {leg} exchange"),
                Quantity::EncodedRelayed(leg) => format!("{each}·bytes relayed in the {leg} exchange"),
                Quantity::CopyOf(feature) => format!("{each}·copies of table {feature}"),
                Quantity::CopiedIds(feature) => format!("{each}·ids of the copy of table {feature}"),
                Quantity::TouchedRows(feature) => format!("{each}·rows touched in table {feature}"),
                Quantity::CopiesTouched(feature) => {
                    format!("{each}·rows touched in all copies of table {feature}")
                }
            })
            .collect();
        f.pad(&terms.join(" + "))
    }
}

/// Sizes of the batch of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// Number of samples of each rank.
    pub samples: Vec<u64>,
    /// Number of ids of each rank, by feature, and by the pieces into which the rows of the feature's table are cut.
    pub ids: Vec<Vec<Vec<u64>>>,
    /// Number of different rows that the samples touch which the copy on each rank serves, by feature; 0 for tables without
    /// such copies. Empty where no table has any.
    pub touched: Vec<Vec<u64>>,
}

impl BatchSizes {
    /// Sizes of a typical global batch: samples are divided evenly among ranks, every bag has the mean size of its feature,
    /// and ids are spread evenly over rows. Rows that copies touch are as many as ids drawn at random name on average.
    pub fn typical(model: &Model, placement: &Placement, batch: usize) -> Self {
        let ranks = placement.topology().ranks();
        let samples: Vec<u64> = (0..ranks).map(|rank| share(batch, ranks, rank).len() as u64).collect();
        // What does not divide goes to another piece on every rank.
        let of_feature = |rank: usize, samples: u64, feature: usize| {
            let ids = (model.features()[feature].hotness.mean() * samples) as usize;
            let pieces = placement.row_pieces(feature);
            (0..pieces).map(|piece| share(ids, pieces, (piece + rank) % pieces).len() as u64).collect()
        };
        let of_rank = |(rank, &samples): (usize, &u64)| {
            (0..model.features().len()).map(|feature| of_feature(rank, samples, feature)).collect()
        };
        let ids = samples.iter().enumerate().map(of_rank).collect();
        let mut sizes = Self { samples, ids, touched: Vec::new() };
        if placement.copied().next().is_some() {
            sizes.touch(model, placement);
        }
        sizes
    }

    /// Number of ids of a rank that fall into a shard.
    pub fn ids_of(&self, rank: usize, shard: &Shard) -> u64 {
        self.ids[rank][shard.feature][shard.piece()]
    }
}
