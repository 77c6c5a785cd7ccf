//! Collectives of a step: kind, group of ranks, traffic and wire format.

use super::Part;
use crate::codec::Compensation;
use crate::dataflow::Deployment;
use crate::program::{Algorithm, Program};
use crate::topology::LinkClass;
use crate::volume::{BatchSizes, LinkBytes, Traffic};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// A collective over a group of ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// Ranks that take part together.
    pub group: Group,
    /// Rule that says what goes from each rank to each other rank, and with which codec. A reduction encodes and decodes floats
    /// itself; those of an all-to-all are encoded by the phase before it. Ids and lengths are never encoded.
    pub traffic: Traffic,
    /// Algorithm of an all-reduce; other collectives are always direct.
    pub algorithm: Algorithm,
    /// Whether a reduction carries what encoding loses to the next step.
    pub compensation: Compensation,
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
    /// Direct collective, which carries no errors.
    pub fn new(kind: CollectiveKind, group: Group, traffic: Traffic) -> Self {
        Self { kind, group, traffic, algorithm: Algorithm::Direct, compensation: Compensation::None }
    }

    /// World ranks of the group that `rank` is in, in the order of the group.
    pub fn members(&self, deployment: &Deployment, rank: usize) -> Vec<usize> {
        self.traffic.receivers(deployment, rank)
    }

    /// Program that `rank` carries out in an all-reduce; `None` for other collectives.
    pub fn program(&self, deployment: &Deployment, rank: usize) -> Option<Program> {
        let units = self.traffic.reduced(deployment, rank)?.units(self.traffic.codec());
        let members = self.members(deployment, rank);
        let topology = deployment.placement.topology();
        let hosts: Vec<usize> = members.iter().map(|&member| topology.host_of(member)).collect();
        let me = members.iter().position(|&member| member == rank)?;
        Some(Program::all_reduce(self.algorithm, &units, &hosts, me, self.compensation))
    }

    /// Bytes that `rank` sends, by class of links.
    pub fn sent(&self, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> LinkBytes {
        let topology = deployment.placement.topology();
        let members = self.members(deployment, rank);
        let mut sent = LinkBytes::default();
        let mut add = |to: usize, bytes: u64| match topology.link(rank, to) {
            LinkClass::Local => {}
            LinkClass::Host => sent.host += bytes,
            LinkClass::Network => sent.network += bytes,
        };
        match self.program(deployment, rank) {
            Some(program) => program.sent().for_each(|part| add(members[part.member], part.len as u64)),
            None => {
                let between = |to| self.traffic.between(deployment, sizes, rank, to);
                members.iter().for_each(|&to| add(to, between(to)));
            }
        }
        sent
    }

    /// Part of a step that the collective belongs to.
    pub fn part(&self) -> Part {
        part_of(&self.traffic)
    }
}

impl Serialize for Collective {
    /// All fields, and the codec of the traffic as `wire`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, group, traffic, algorithm, compensation } = self;
        let mut fields = serializer.serialize_struct("Collective", 6)?;
        fields.serialize_field("kind", kind)?;
        fields.serialize_field("group", group)?;
        fields.serialize_field("traffic", traffic)?;
        fields.serialize_field("wire", &traffic.codec())?;
        fields.serialize_field("algorithm", algorithm)?;
        fields.serialize_field("compensation", compensation)?;
        fields.end()
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
        | Traffic::FromPeers { .. }
        | Traffic::ToCopies { .. } => Part::GradientExchange,
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
