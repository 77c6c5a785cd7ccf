//! Traffic: the rule that says what one rank sends to another in a collective, for any number of ranks.

use super::{BatchSizes, peer_samples};
use crate::dataflow::{Deployment, Sptt};
use crate::placement::{Placement, Shard, share, width};
use crate::topology::{Groups, LinkClass};
use serde::Serialize;
use std::fmt;

/// Item that is sent for a feature: a scalar or a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// Length of the bag of a sample, for features whose bags vary.
    Length,
    /// Id of a row.
    Id,
    /// Weight of an id.
    Weight,
    /// Pooled vector of a sample, or its gradient: as many scalars as the shard has columns.
    Vector,
}

/// Traffic of a collective: what one rank sends to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// Items go from the rank that has the samples to every rank that holds a shard of their features.
    ToHolders {
        /// Item that is sent.
        item: Item,
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// Items go from the only holder of a shard to the rank that has the samples.
    ToSamples {
        /// Item that is sent.
        item: Item,
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// Vectors of whole shards go from their holder to each member of its group, for the samples of the member's peers.
    ToGroup {
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// Gradients of the vectors of whole shards go from each member of a group back to the holder.
    FromGroup {
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// Partial sums of tables cut by rows go from every member of a group to every other, for the samples of the receiver's
    /// peers.
    PartialSums {
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// Gradients of the sums of tables cut by rows; every member of the group gets the same ones.
    SumGradients {
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// Columns that leave a rank's group go to its peers, for their samples.
    ToPeers {
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// Gradients of the columns that left a rank's group go from its peers back to the rank.
    FromPeers {
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// First level of an exchange over the world: items go, inside a host, to the rank with the receiver's index.
    InHost {
        /// Traffic of the whole exchange.
        of: Box<Traffic>,
    },
    /// Second level of an exchange over the world: all that a host has for a receiver is sent by the rank with the
    /// receiver's index.
    BetweenHosts {
        /// Traffic of the whole exchange.
        of: Box<Traffic>,
    },
    /// A reduction of a vector over the world, as a reduce-scatter and an all-gather over [`share`]s of it.
    AllReduce {
        /// Length of the vector.
        elements: usize,
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// A reduction of a vector inside every group, as a reduce-scatter and an all-gather.
    GroupAllReduce {
        /// Length of each group's vector.
        elements: Vec<usize>,
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
    /// A reduction of a vector among peers, as a reduce-scatter and an all-gather.
    PeerAllReduce {
        /// Length of the vector.
        elements: usize,
        /// Size of one scalar in the wire format, in bytes.
        bytes: u64,
    },
}

impl Traffic {
    /// Bytes of one scalar on the wire.
    pub fn scalar_bytes(&self) -> u64 {
        match self {
            Traffic::ToHolders { bytes, .. }
            | Traffic::ToSamples { bytes, .. }
            | Traffic::ToGroup { bytes }
            | Traffic::FromGroup { bytes }
            | Traffic::PartialSums { bytes }
            | Traffic::SumGradients { bytes }
            | Traffic::ToPeers { bytes }
            | Traffic::FromPeers { bytes }
            | Traffic::AllReduce { bytes, .. }
            | Traffic::GroupAllReduce { bytes, .. }
            | Traffic::PeerAllReduce { bytes, .. } => *bytes,
            Traffic::InHost { of } | Traffic::BetweenHosts { of } => of.scalar_bytes(),
        }
    }

    /// Bytes from `from` to `to`; none from a rank to itself.
    pub fn between(&self, deployment: &Deployment, sizes: &BatchSizes, from: usize, to: usize) -> u64 {
        if from == to { 0 } else { self.block(deployment, sizes, from, to) }
    }

    /// Bytes that `from` has for `to`; if both are the same rank, the bytes that it keeps.
    pub fn block(&self, deployment: &Deployment, sizes: &BatchSizes, from: usize, to: usize) -> u64 {
        let Deployment { model, placement, dataflow, .. } = deployment;
        let scalars = |item: Item, shard: &Shard, rank: usize| match item {
            Item::Length if !placement.lengths_vary(model, shard) => 0,
            Item::Length => sizes.samples[rank],
            Item::Id | Item::Weight => sizes.ids_of(rank, shard),
            Item::Vector => sizes.samples[rank] * shard.columns.len() as u64,
        };
        match self {
            Traffic::ToHolders { item, bytes } => {
                placement.held_by(to).iter().map(|shard| bytes * scalars(*item, shard, from)).sum()
            }
            Traffic::ToSamples { item, bytes } => {
                placement.owned_by(from).iter().map(|shard| bytes * scalars(*item, shard, to)).sum()
            }
            Traffic::AllReduce { elements, bytes } => {
                let part = |rank| share(*elements, placement.topology().ranks(), rank).len() as u64;
                bytes * (part(to) + part(from))
            }
            Traffic::InHost { of } => {
                let hosts = Groups::of_hosts(placement.topology());
                let direct = |receiver| of.block(deployment, sizes, from, receiver);
                let together = hosts.group_of(from) == hosts.group_of(to);
                if together { hosts.peers(hosts.index_of(to)).map(direct).sum() } else { 0 }
            }
            Traffic::BetweenHosts { of } => {
                let hosts = Groups::of_hosts(placement.topology());
                let direct = |sender| of.block(deployment, sizes, sender, to);
                let equal = hosts.index_of(from) == hosts.index_of(to);
                if equal { hosts.members(hosts.group_of(from)).map(direct).sum() } else { 0 }
            }
            _ => dataflow.sptt().map_or(0, |sptt| self.in_sptt(sptt, placement, sizes, from, to)),
        }
    }

    /// Bytes from `from` to `to` for what goes only inside groups, or only among peers.
    fn in_sptt(&self, sptt: &Sptt, placement: &Placement, sizes: &BatchSizes, from: usize, to: usize) -> u64 {
        let groups = sptt.groups();
        let together = groups.group_of(from) == groups.group_of(to);
        let peers = groups.index_of(from) == groups.index_of(to);
        let whole = |rank| width(placement.whole_by(rank)) as u64;
        let rows = |rank| width(placement.rows_by(rank)) as u64;
        let leaving = |rank| sptt.plan(groups.group_of(rank)).output_width() as u64;
        match self {
            Traffic::ToGroup { bytes } if together => bytes * whole(from) * peer_samples(sptt, sizes, to),
            Traffic::FromGroup { bytes } if together => bytes * whole(to) * peer_samples(sptt, sizes, from),
            Traffic::PartialSums { bytes } if together => bytes * rows(from) * peer_samples(sptt, sizes, to),
            Traffic::SumGradients { bytes } if together => {
                bytes * rows(from) * peer_samples(sptt, sizes, from)
            }
            Traffic::ToPeers { bytes } if peers => bytes * leaving(from) * sizes.samples[to],
            Traffic::FromPeers { bytes } if peers => bytes * leaving(to) * sizes.samples[from],
            Traffic::GroupAllReduce { elements, bytes } if together => {
                let elements = elements[groups.group_of(from)];
                let part = |rank| share(elements, groups.size(), groups.index_of(rank)).len() as u64;
                bytes * (part(to) + part(from))
            }
            Traffic::PeerAllReduce { elements, bytes } if peers => {
                let part = |rank| share(*elements, groups.count(), groups.group_of(rank)).len() as u64;
                bytes * (part(to) + part(from))
            }
            _ => 0,
        }
    }

    /// Ranks that a rank may send to, itself included.
    pub fn receivers(&self, deployment: &Deployment, rank: usize) -> Vec<usize> {
        let topology = deployment.placement.topology();
        let groups = match self {
            Traffic::ToHolders { .. } | Traffic::ToSamples { .. } | Traffic::AllReduce { .. } => None,
            Traffic::InHost { .. } | Traffic::BetweenHosts { .. } => Some(Groups::of_hosts(topology)),
            _ => deployment.dataflow.sptt().map(Sptt::groups),
        };
        let Some(groups) = groups else { return (0..topology.ranks()).collect() };
        match self {
            Traffic::ToPeers { .. }
            | Traffic::FromPeers { .. }
            | Traffic::PeerAllReduce { .. }
            | Traffic::BetweenHosts { .. } => groups.peers(groups.index_of(rank)).collect(),
            _ => groups.members(groups.group_of(rank)).collect(),
        }
    }

    /// Bytes that `rank` sends, by class of links.
    pub fn sent(&self, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> LinkBytes {
        let topology = deployment.placement.topology();
        let mut sent = LinkBytes::default();
        for to in self.receivers(deployment, rank) {
            let bytes = self.between(deployment, sizes, rank, to);
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
            Traffic::ToGroup { bytes } => f.pad(&format!("vectors → group, for their peers, {bytes} B each")),
            Traffic::FromGroup { bytes } => f.pad(&format!("their gradients → holders, {bytes} B each")),
            Traffic::PartialSums { bytes } => {
                f.pad(&format!("partial sums → group, for their peers, {bytes} B each"))
            }
            Traffic::SumGradients { bytes } => f.pad(&format!("gradients of sums → group, {bytes} B each")),
            Traffic::ToPeers { bytes } => f.pad(&format!("tower outputs → samples of peers, {bytes} B each")),
            Traffic::FromPeers { bytes } => f.pad(&format!("their gradients → towers, {bytes} B each")),
            Traffic::InHost { of } => f.pad(&format!("{of}, to the receiver's index")),
            Traffic::BetweenHosts { of } => f.pad(&format!("{of}, from the whole host")),
            Traffic::PeerAllReduce { elements: 1, bytes } => f.pad(&format!("1 sum of {bytes} B")),
            Traffic::AllReduce { elements, bytes } | Traffic::PeerAllReduce { elements, bytes } => {
                f.pad(&format!("{elements} sums, {bytes} B each"))
            }
            Traffic::GroupAllReduce { elements, bytes } => {
                let most = elements.iter().max().unwrap_or(&0);
                f.pad(&format!("up to {most} sums, {bytes} B each"))
            }
        }
    }
}

/// Bytes by class of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkBytes {
    /// Bytes sent inside a host.
    pub host: u64,
    /// Bytes sent between hosts.
    pub network: u64,
}

impl std::ops::AddAssign for LinkBytes {
    fn add_assign(&mut self, other: Self) {
        self.host += other.host;
        self.network += other.network;
    }
}
