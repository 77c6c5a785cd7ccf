//! Legs: the exchanges of vectors and of their gradients.

use super::{BatchSizes, Item, Traffic};
use crate::codec::Codec;
use crate::dataflow::Deployment;
use serde::Serialize;
use std::fmt;

/// Leg: an exchange of vectors towards the samples, or of their gradients back, that may be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leg {
    /// Flat dataflow: pooled vectors are sent to the samples.
    Pooled,
    /// Flat dataflow: gradients of pooled vectors are sent to the holders.
    Gradient,
    /// Step d of SPTT: vectors of whole tables are sent to the members of the group.
    Group,
    /// Step f of SPTT: columns that leave the group are sent to the samples, among peers.
    Peer,
    /// Step f of SPTT in reverse: gradients are sent back among peers.
    PeerGradient,
    /// Step d of SPTT in reverse: gradients are sent back to the holders in the group.
    GroupGradient,
}

impl Leg {
    /// Whether the leg carries gradients.
    pub fn backward(self) -> bool {
        matches!(self, Leg::Gradient | Leg::PeerGradient | Leg::GroupGradient)
    }

    /// Name of the leg.
    pub fn name(self) -> &'static str {
        match self {
            Leg::Pooled => "pooled",
            Leg::Gradient => "gradient",
            Leg::Group => "group",
            Leg::Peer => "peer",
            Leg::PeerGradient => "peer gradient",
            Leg::GroupGradient => "group gradient",
        }
    }

    /// Traffic of the leg, whose vectors are encoded by `codec`.
    pub fn traffic(self, codec: Codec) -> Traffic {
        match self {
            Leg::Pooled => Traffic::ToSamples { item: Item::Vector, codec },
            Leg::Gradient => Traffic::ToHolders { item: Item::Vector, codec },
            Leg::Group => Traffic::ToGroup { codec },
            Leg::Peer => Traffic::ToPeers { codec },
            Leg::PeerGradient => Traffic::FromPeers { codec },
            Leg::GroupGradient => Traffic::FromGroup { codec },
        }
    }

    /// Bytes that a rank lays out as `codec` encodes them, those for itself included.
    pub(super) fn sent(self, codec: Codec, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> u64 {
        let traffic = self.traffic(codec);
        traffic
            .receivers(deployment, rank)
            .into_iter()
            .map(|to| traffic.block(deployment, sizes, rank, to))
            .sum()
    }

    /// Bytes that arrive at a rank as `codec` encodes them, those from itself included.
    pub(super) fn received(
        self,
        codec: Codec,
        deployment: &Deployment,
        sizes: &BatchSizes,
        rank: usize,
    ) -> u64 {
        let traffic = self.traffic(codec);
        // Who sends to a rank is whom it sends to.
        let senders = traffic.receivers(deployment, rank).into_iter();
        senders.map(|from| traffic.block(deployment, sizes, from, rank)).sum()
    }

    /// Bytes that pass through a rank as `codec` encodes them, from its host to all ranks of its index, in the second of two
    /// levels.
    pub(super) fn relayed(
        self,
        codec: Codec,
        deployment: &Deployment,
        sizes: &BatchSizes,
        rank: usize,
    ) -> u64 {
        let traffic = Traffic::BetweenHosts { of: Box::new(self.traffic(codec)) };
        traffic
            .receivers(deployment, rank)
            .into_iter()
            .map(|to| traffic.block(deployment, sizes, rank, to))
            .sum()
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
