//! Traffic: the rule that says what one rank sends to another in a collective, for any number of ranks.

use super::copies::copies;
use super::{BatchSizes, FLOAT, peer_samples};
use crate::codec::Codec;
use crate::dataflow::{Dataflow, Deployment, Sptt};
use crate::placement::Shard;
use crate::program::Units;
use crate::topology::Groups;
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::Range;

/// Item that is sent for a feature: a scalar or a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// Length of the bag of a sample, for features whose bags vary.
    Length,
    /// Id of a row: as many bytes as its shard needs ([`Shard::id_bytes`]), whatever the codec.
    Id,
    /// Weight of an id.
    Weight,
    /// Pooled vector of a sample, or its gradient: as many scalars as the shard has columns.
    Vector,
}

/// Item that copies of a table send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyItem {
    /// Number of rows that a copy touches, for each table.
    Count,
    /// Number of each row that a copy touches.
    Row,
    /// Sum of the gradients of each row that a copy touches, in f32.
    Sum,
}

/// Traffic of a collective: what one rank sends to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// Items go from the rank that has the samples to every rank that holds a shard of their features.
    ToHolders {
        /// Item that is sent.
        item: Item,
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Items go from the only holder of a shard to the rank that has the samples; partial sums that a reduce-scatter adds up are
    /// no part of it.
    ToSamples {
        /// Item that is sent.
        item: Item,
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Vectors of whole shards go from their holder to each member of its group, for the samples of the member's peers.
    ToGroup {
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Gradients of the vectors of whole shards go from each member of a group back to the holder.
    FromGroup {
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Partial sums of tables of whose rows every member has a piece go from every member to every other, for the samples of
    /// the receiver, in SPTT also of the receiver's peers. Members are the ranks of the world or of a tower group.
    PartialSums {
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Gradients of the sums of tables of whose rows every member has a piece; every member gets the same ones.
    SumGradients {
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Columns that leave a rank's group go to its peers, for their samples.
    ToPeers {
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Gradients of the columns that left a rank's group go from its peers back to the rank.
    FromPeers {
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// Items of data-parallel tables go from every copy to every other. Copies are on the ranks of the world or of a tower
    /// group.
    ToCopies {
        /// Item that is sent.
        item: CopyItem,
        /// Features of the tables, in ascending order.
        features: Vec<usize>,
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
    /// A reduction of a vector over the world.
    AllReduce {
        /// Vector that is reduced.
        elements: ReducedVector,
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// A reduction of a vector inside every group.
    GroupAllReduce {
        /// Vector of each group.
        elements: Vec<ReducedVector>,
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
    /// A reduction of a vector among peers.
    PeerAllReduce {
        /// Vector that is reduced.
        elements: ReducedVector,
        /// Codec of the floats; words are written as they are.
        #[serde(rename = "bytes", serialize_with = "value_bytes")]
        codec: Codec,
    },
}

/// Vector that is reduced: the floats of a bucket, in which tensors lie apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReducedVector {
    /// Length of the vector, in floats.
    pub elements: usize,
    /// Tensors in the vector; what lies between them is padding.
    pub tensors: Vec<Range<usize>>,
}

impl ReducedVector {
    /// Vector of a single tensor.
    pub fn whole(elements: usize) -> Self {
        Self { elements, tensors: std::iter::once(0..elements).collect() }
    }

    /// Units of the vector that a codec never divides.
    pub fn units(&self, codec: Codec) -> Units {
        Units::of_tensors(codec, self.elements, &self.tensors)
    }
}

impl Serialize for ReducedVector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.elements.serialize(serializer)
    }
}

/// Bytes of one value without the header of its row: a whole number for codecs of whole bytes.
fn value_bytes<S: Serializer>(codec: &Codec, serializer: S) -> Result<S::Ok, S::Error> {
    match codec.bits() {
        bits if bits % 8 == 0 => (bits / 8).serialize(serializer),
        bits => (bits as f64 / 8.0).serialize(serializer),
    }
}

impl Traffic {
    /// Codec of the floats.
    pub fn codec(&self) -> Codec {
        match self {
            Traffic::ToHolders { codec, .. }
            | Traffic::ToSamples { codec, .. }
            | Traffic::ToGroup { codec }
            | Traffic::FromGroup { codec }
            | Traffic::PartialSums { codec }
            | Traffic::SumGradients { codec }
            | Traffic::ToPeers { codec }
            | Traffic::FromPeers { codec }
            | Traffic::AllReduce { codec, .. }
            | Traffic::GroupAllReduce { codec, .. }
            | Traffic::PeerAllReduce { codec, .. } => *codec,
            Traffic::ToCopies { .. } => Codec::F32,
            Traffic::InHost { of } | Traffic::BetweenHosts { of } => of.codec(),
        }
    }

    /// Vector that `rank` reduces; `None` for traffic that is no reduction to all members.
    pub fn reduced(&self, deployment: &Deployment, rank: usize) -> Option<&ReducedVector> {
        match self {
            Traffic::AllReduce { elements, .. } | Traffic::PeerAllReduce { elements, .. } => Some(elements),
            Traffic::GroupAllReduce { elements, .. } => {
                let groups = deployment.dataflow.sptt()?.groups();
                elements.get(groups.group_of(rank))
            }
            _ => None,
        }
    }

    /// Encoded bytes of the vector that a reduction to all members reduces, of the longest if groups differ; `None` for other
    /// traffic.
    pub fn reduced_bytes(&self) -> Option<u64> {
        let bytes = |vector: &ReducedVector, codec: Codec| {
            let units = vector.units(codec);
            units.bytes(0..units.count()) as u64
        };
        match self {
            Traffic::AllReduce { elements, codec } | Traffic::PeerAllReduce { elements, codec } => {
                Some(bytes(elements, *codec))
            }
            Traffic::GroupAllReduce { elements, codec } => {
                Some(elements.iter().map(|vector| bytes(vector, *codec)).max().unwrap_or(0))
            }
            _ => None,
        }
    }

    /// Bytes from `from` to `to`; none from a rank to itself. Reductions to all members are not pairwise: what they send follows
    /// from their program.
    pub fn between(&self, deployment: &Deployment, sizes: &BatchSizes, from: usize, to: usize) -> u64 {
        if from == to { 0 } else { self.block(deployment, sizes, from, to) }
    }

    /// Bytes that `from` has for `to`; if both are the same rank, the bytes that it keeps.
    pub fn block(&self, deployment: &Deployment, sizes: &BatchSizes, from: usize, to: usize) -> u64 {
        let Deployment { model, placement, dataflow, .. } = deployment;
        let bytes = |item: Item, codec: Codec, shard: &Shard, rank: usize| match item {
            Item::Length if !placement.lengths_vary(model, shard) => 0,
            Item::Length => codec.encoded_bytes(sizes.samples[rank], 1),
            Item::Id => shard.id_bytes() * sizes.ids_of(rank, shard),
            Item::Weight => codec.encoded_bytes(sizes.ids_of(rank, shard), 1),
            Item::Vector => codec.encoded_bytes(sizes.samples[rank], shard.columns.len() as u64),
        };
        match self {
            Traffic::ToHolders { item: Item::Vector, codec } => {
                let shards = placement.updated_by_samples(to, deployment.members());
                shards.map(|shard| bytes(Item::Vector, *codec, shard, from)).sum()
            }
            Traffic::ToHolders { item, codec } => {
                let served = placement.held_by(to).iter().filter(|shard| placement.serves(shard, to, from));
                served.map(|shard| bytes(*item, *codec, shard, from)).sum()
            }
            Traffic::ToSamples { item, codec } => {
                deployment.sent_by(from).iter().map(|shard| bytes(*item, *codec, shard, to)).sum()
            }
            Traffic::ToCopies { item, features } => {
                let of_copy = |shard: &Shard| match item {
                    CopyItem::Count => FLOAT,
                    CopyItem::Row => FLOAT * sizes.touched_in(from, shard),
                    CopyItem::Sum => FLOAT * sizes.touched_in(from, shard) * shard.columns.len() as u64,
                };
                let copies = copies(placement, from, features);
                copies.filter(|shard| shard.holders.ranks().binary_search(&to).is_ok()).map(of_copy).sum()
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
            _ => match dataflow {
                Dataflow::Flat(_) => self.sums(deployment, |rank| sizes.samples[rank], from, to),
                Dataflow::Sptt(sptt) => self.in_sptt(deployment, sptt, sizes, from, to),
            },
        }
    }

    /// Bytes from `from` to `to` of partial sums and their gradients, where each member has vectors of so many samples.
    fn sums(&self, deployment: &Deployment, samples: impl Fn(usize) -> u64, from: usize, to: usize) -> u64 {
        let shards = deployment.summed_by(from);
        match self {
            Traffic::PartialSums { codec } => encoded(codec, shards, samples(to)),
            Traffic::SumGradients { codec } => encoded(codec, shards, samples(from)),
            _ => 0,
        }
    }

    /// Bytes from `from` to `to` for what goes only inside groups, or only among peers.
    fn in_sptt(
        &self,
        deployment: &Deployment,
        sptt: &Sptt,
        sizes: &BatchSizes,
        from: usize,
        to: usize,
    ) -> u64 {
        let groups = sptt.groups();
        let together = groups.group_of(from) == groups.group_of(to);
        let peers = groups.index_of(from) == groups.index_of(to);
        let leaving = |codec: &Codec, rank: usize, samples: u64| -> u64 {
            let widths = sptt.plan(groups.group_of(rank)).vector_widths();
            widths.map(|width| codec.encoded_bytes(samples, width as u64)).sum()
        };
        let of_peers = |rank| peer_samples(sptt, sizes, rank);
        match self {
            Traffic::ToGroup { codec } if together => encoded(codec, deployment.sent_by(from), of_peers(to)),
            Traffic::FromGroup { codec } if together => {
                encoded(codec, deployment.sent_by(to), of_peers(from))
            }
            Traffic::ToPeers { codec } if peers => leaving(codec, from, sizes.samples[to]),
            Traffic::FromPeers { codec } if peers => leaving(codec, to, sizes.samples[from]),
            _ if together => self.sums(deployment, of_peers, from, to),
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
}

/// Bytes of the vectors of so many samples in `shards`.
fn encoded(codec: &Codec, shards: &[Shard], samples: u64) -> u64 {
    shards.iter().map(|shard| codec.encoded_bytes(samples, shard.columns.len() as u64)).sum()
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |item: &Item| match item {
            Item::Length => "lengths",
            Item::Id => "ids",
            Item::Weight => "weights",
            Item::Vector => "vectors",
        };
        let value = match self.codec().bits() {
            bits if bits % 8 == 0 => format!("{} B", bits / 8),
            bits => format!("{bits} bits"),
        };
        f.pad(&match self {
            Traffic::ToHolders { item, .. } => format!("{} → holders, {value} each", name(item)),
            Traffic::ToSamples { item, .. } => format!("{} → samples, {value} each", name(item)),
            Traffic::ToGroup { .. } => format!("vectors → group, for their peers, {value} each"),
            Traffic::FromGroup { .. } => format!("their gradients → holders, {value} each"),
            Traffic::PartialSums { .. } => format!("partial sums → members, {value} each"),
            Traffic::SumGradients { .. } => format!("gradients of sums → members, {value} each"),
            Traffic::ToPeers { .. } => format!("tower outputs → samples of peers, {value} each"),
            Traffic::FromPeers { .. } => format!("their gradients → towers, {value} each"),
            Traffic::ToCopies { item, features } => {
                let what = match item {
                    CopyItem::Count => "counts of touched rows",
                    CopyItem::Row => "touched rows",
                    CopyItem::Sum => "sums of touched rows",
                };
                let tables = if features.len() == 1 { "table" } else { "tables" };
                format!("{what} of {} {tables} → copies, {value} each", features.len())
            }
            Traffic::InHost { of } => format!("{of}, to the receiver's index"),
            Traffic::BetweenHosts { of } => format!("{of}, from the whole host"),
            Traffic::PeerAllReduce { elements, .. } if elements.elements == 1 => format!("1 sum of {value}"),
            Traffic::AllReduce { elements, .. } | Traffic::PeerAllReduce { elements, .. } => {
                format!("{} sums, {value} each", elements.elements)
            }
            Traffic::GroupAllReduce { elements, .. } => {
                let most = elements.iter().map(|vector| vector.elements).max().unwrap_or(0);
                format!("up to {most} sums, {value} each")
            }
        })
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
