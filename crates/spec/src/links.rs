//! Link models: the time of a collective as a line, `time = latency + bytes / bandwidth`. `planning::fit` fits it to a sweep
//! of sizes.
//!
//! ```
//! use spec::links::{GroupSpan, LinkModel};
//! use spec::schedule::CollectiveKind;
//! let (collective, group) = (CollectiveKind::AllToAll, GroupSpan::World);
//! let algorithm = Default::default(); // direct
//! let line = LinkModel { collective, algorithm, group, ranks: 4, latency_s: 10e-6, bytes_per_s: 1e9 };
//! assert!((line.seconds(1e6) - 1.01e-3).abs() < 1e-8);
//! ```

use crate::program::Algorithm;
use crate::schedule::CollectiveKind;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Ranks that take part in a measured collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupSpan {
    /// All ranks.
    World,
    /// Ranks of a host; all hosts at once.
    Host,
    /// Ranks of equal index on all hosts; all indices at once.
    Peers,
}

/// Time of one collective as a line over bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkModel {
    /// Collective that was measured.
    pub collective: CollectiveKind,
    /// Ranks that took part together.
    pub group: GroupSpan,
    /// Number of ranks that take part together.
    pub ranks: usize,
    /// Latency: time of an empty message, in seconds.
    pub latency_s: f64,
    /// Bandwidth: bytes per second that a rank sends or reduces.
    pub bytes_per_s: f64,
    /// Algorithm of an all-reduce; direct for other collectives, and in files that name none.
    #[serde(default)]
    pub algorithm: Algorithm,
}

impl LinkModel {
    /// Time of the collective for `bytes` bytes, in seconds.
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.latency_s + bytes / self.bytes_per_s
    }

    /// Collective with its algorithm, unless that is the direct one: `two-level all-reduce`.
    pub fn described(&self) -> String {
        described(self.collective, self.algorithm)
    }
}

/// Collective with its algorithm, unless that is the direct one: `two-level all-reduce`.
pub fn described(collective: CollectiveKind, algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Direct => collective.to_string(),
        algorithm => format!("{algorithm} {collective}"),
    }
}

impl GroupSpan {
    /// Number of ranks that take part together.
    pub fn members(self, topology: Topology) -> usize {
        match self {
            GroupSpan::World => topology.ranks(),
            GroupSpan::Host => topology.ranks_per_host(),
            GroupSpan::Peers => topology.hosts(),
        }
    }
}

impl fmt::Display for GroupSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            GroupSpan::World => "world",
            GroupSpan::Host => "host",
            GroupSpan::Peers => "peers",
        })
    }
}

#[cfg(test)]
mod tests;
