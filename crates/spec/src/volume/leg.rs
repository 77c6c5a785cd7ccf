//! Legs: the exchanges of vectors and of their gradients.

use super::{BatchSizes, Item, Traffic};
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

    /// Traffic of the leg, at `bytes` bytes per float.
    pub fn traffic(self, bytes: u64) -> Traffic {
        match self {
            Leg::Pooled => Traffic::ToSamples { item: Item::Vector, bytes },
            Leg::Gradient => Traffic::ToHolders { item: Item::Vector, bytes },
            Leg::Group => Traffic::ToGroup { bytes },
            Leg::Peer => Traffic::ToPeers { bytes },
            Leg::PeerGradient => Traffic::FromPeers { bytes },
            Leg::GroupGradient => Traffic::FromGroup { bytes },
        }
    }

    /// Floats that a rank lays out, those for itself included.
    pub(super) fn sent(self, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> u64 {
        let traffic = self.traffic(1);
        traffic
            .receivers(deployment, rank)
            .into_iter()
            .map(|to| traffic.block(deployment, sizes, rank, to))
            .sum()
    }

    /// Floats that arrive at a rank, those from itself included.
    pub(super) fn received(self, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> u64 {
        let traffic = self.traffic(1);
        // Who sends to a rank is whom it sends to.
        let senders = traffic.receivers(deployment, rank).into_iter();
        senders.map(|from| traffic.block(deployment, sizes, from, rank)).sum()
    }

    /// Floats that pass through a rank, from its host to all ranks of its index, in the second of two levels.
    pub(super) fn relayed(self, deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> u64 {
        let traffic = Traffic::BetweenHosts { of: Box::new(self.traffic(1)) };
        traffic
            .receivers(deployment, rank)
            .into_iter()
            .map(|to| traffic.block(deployment, sizes, rank, to))
            .sum()
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Leg::Pooled => "pooled",
            Leg::Gradient => "gradient",
            Leg::Group => "group",
            Leg::Peer => "peer",
            Leg::PeerGradient => "peer gradient",
            Leg::GroupGradient => "group gradient",
        })
    }
}
