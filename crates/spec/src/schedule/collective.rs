//! Collectives of a step: kind, group of ranks, traffic and wire format.

use super::Part;
use crate::codec::Codec;
use crate::volume::Traffic;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A collective over a group of ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Collective {
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// Ranks that take part together.
    pub group: Group,
    /// Rule that says how many bytes go from each rank to each other rank.
    pub traffic: Traffic,
    /// Wire format of floats. A reduction encodes and decodes floats itself; those of an all-to-all are encoded by the phase
    /// before it. Ids and lengths are never encoded.
    pub wire: Codec,
}

/// Collectives that a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveKind {
    /// Every rank sends a different part to every other rank.
    AllToAll,
    /// Every rank gets the sum over all ranks.
    AllReduce,
    /// Every rank gets one part of the sum over all ranks.
    ReduceScatter,
    /// Every rank gets the parts of all ranks.
    AllGather,
}

/// Ranks that take part in a collective together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// All ranks.
    World,
    /// Ranks of a tower group; all tower groups at once.
    #[serde(rename = "group")]
    Tower,
    /// Ranks of equal index in their tower groups; all indices at once.
    Peers,
    /// Ranks of a host; all hosts at once.
    Host,
    /// Ranks of equal index on their hosts; all indices at once.
    Across,
}

impl CollectiveKind {
    /// All collectives.
    pub const ALL: [Self; 4] = [Self::AllToAll, Self::AllReduce, Self::ReduceScatter, Self::AllGather];

    /// Name that tables, traces and errors show.
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllGather => "all-gather",
        }
    }
}

impl Group {
    /// Name that tables, traces and errors show.
    pub fn name(self) -> &'static str {
        match self {
            Group::World => "world",
            Group::Tower => "group",
            Group::Peers => "peers",
            Group::Host => "host",
            Group::Across => "ranks of equal index on their hosts",
        }
    }
}

impl Collective {
    /// Part of a step that the collective belongs to.
    pub fn part(&self) -> Part {
        part_of(&self.traffic)
    }
}

fn part_of(traffic: &Traffic) -> Part {
    match traffic {
        Traffic::AllReduce { .. } | Traffic::GroupAllReduce { .. } | Traffic::PeerAllReduce { .. } => {
            Part::DenseExchange
        }
        Traffic::ToSamples { .. }
        | Traffic::ToGroup { .. }
        | Traffic::PartialSums { .. }
        | Traffic::ToPeers { .. } => Part::VectorExchange,
        Traffic::ToHolders { .. }
        | Traffic::FromGroup { .. }
        | Traffic::SumGradients { .. }
        | Traffic::FromPeers { .. } => Part::GradientExchange,
        Traffic::InHost { of } | Traffic::BetweenHosts { of } => part_of(of),
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
