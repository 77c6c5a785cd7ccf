//! The cluster: H hosts of L ranks, ranks numbered host by host.
//!
//! ```
//! use spec::topology::{LinkClass, Topology};
//! let cluster = Topology::new(2, 2).unwrap();
//! assert_eq!(cluster.ranks(), 4);
//! assert_eq!(cluster.host_of(3), 1);
//! assert_eq!(cluster.link(0, 1), LinkClass::Host);
//! assert_eq!(cluster.link(0, 2), LinkClass::Network);
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

/// The most ranks a topology may have: far beyond any cluster, and small enough that per-rank vectors stay cheap.
pub const MAX_RANKS: usize = 65_536;

/// H hosts × L ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Topology {
    hosts: usize,
    ranks_per_host: usize,
}

/// What a message between two ranks crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkClass {
    /// Nothing: a rank to itself.
    Local,
    /// The fast links inside one host.
    Host,
    /// The network between hosts.
    Network,
}

impl Topology {
    /// A cluster of `hosts` hosts with `ranks_per_host` ranks each.
    pub fn new(hosts: usize, ranks_per_host: usize) -> Result<Self, TopologyError> {
        if hosts == 0 || ranks_per_host == 0 {
            return Err(TopologyError::Empty { hosts, ranks_per_host });
        }
        match hosts.checked_mul(ranks_per_host) {
            Some(ranks) if ranks <= MAX_RANKS => Ok(Self { hosts, ranks_per_host }),
            _ => Err(TopologyError::TooLarge { hosts, ranks_per_host }),
        }
    }

    /// Number of hosts, H.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Ranks on each host, L.
    pub fn ranks_per_host(&self) -> usize {
        self.ranks_per_host
    }

    /// Ranks in all, G = H·L.
    pub fn ranks(&self) -> usize {
        self.hosts * self.ranks_per_host
    }

    /// The host that `rank` lives on.
    pub fn host_of(&self, rank: usize) -> usize {
        rank / self.ranks_per_host
    }

    /// What a message from `from` to `to` crosses.
    pub fn link(&self, from: usize, to: usize) -> LinkClass {
        if from == to {
            LinkClass::Local
        } else if self.host_of(from) == self.host_of(to) {
            LinkClass::Host
        } else {
            LinkClass::Network
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.hosts, self.ranks_per_host)
    }
}

/// Why a topology cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// No hosts, or hosts without ranks.
    #[error("a cluster of {hosts} hosts × {ranks_per_host} ranks has no rank; both must be at least 1")]
    Empty {
        /// Hosts asked for.
        hosts: usize,
        /// Ranks per host asked for.
        ranks_per_host: usize,
    },
    /// Beyond [`MAX_RANKS`].
    #[error("{hosts} hosts × {ranks_per_host} ranks is more than {MAX_RANKS} ranks")]
    TooLarge {
        /// Hosts asked for.
        hosts: usize,
        /// Ranks per host asked for.
        ranks_per_host: usize,
    },
}
