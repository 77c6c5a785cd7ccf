//! Topology of a cluster: H hosts of L ranks, by default numbered host by host.
//!
//! ```
//! use spec::topology::{LinkClass, Topology};
//! let cluster = Topology::new(2, 2).unwrap();
//! assert_eq!(cluster.ranks(), 4);
//! assert_eq!(cluster.host_of(3), 1);
//! assert_eq!(cluster.link(0, 1), LinkClass::Host);
//! assert_eq!(cluster.link(0, 2), LinkClass::Network);
//! ```
//!
//! Tower groups are K consecutive hosts each: S = L·K ranks, P = H/K groups. Peers are ranks of equal index inside their
//! groups. Sorted by (index, group), ranks are in *peer order*; a process group may number its ranks so from the start.
//!
//! ```
//! use spec::topology::{Groups, Topology};
//! let groups = Groups::new(Topology::new(2, 2).unwrap(), 1).unwrap();
//! assert_eq!(groups.peer_order(), [0, 2, 1, 3]);
//! let renumbered = groups.in_peer_order();
//! assert_eq!(renumbered.peer_order(), [0, 1, 2, 3]);
//! assert_eq!(renumbered.topology().host_of(1), 1);
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest number of ranks of a topology: far beyond any cluster, and small enough that per-rank vectors stay cheap.
pub const MAX_RANKS: usize = 65_536;

/// Topology of a cluster: H hosts with L ranks each, and the numbering of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Topology {
    hosts: usize,
    ranks_per_host: usize,
    numbering: Numbering,
}

/// Numbering of the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbering {
    /// Ranks are numbered host by host.
    #[default]
    ByHost,
    /// Ranks are numbered in the peer order of tower groups.
    ByPeer {
        /// Number of hosts of a tower group, K.
        hosts_per_group: usize,
    },
}

/// Class of the links that a message between two ranks crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkClass {
    /// No link: a rank sends to itself.
    Local,
    /// Fast links inside one host.
    Host,
    /// Network between hosts.
    Network,
}

impl Topology {
    /// Makes a cluster of `hosts` hosts with `ranks_per_host` ranks each.
    pub fn new(hosts: usize, ranks_per_host: usize) -> Result<Self, TopologyError> {
        if hosts == 0 || ranks_per_host == 0 {
            return Err(TopologyError::Empty { hosts, ranks_per_host });
        }
        match hosts.checked_mul(ranks_per_host) {
            Some(ranks) if ranks <= MAX_RANKS => {
                Ok(Self { hosts, ranks_per_host, numbering: Numbering::ByHost })
            }
            _ => Err(TopologyError::TooLarge { hosts, ranks_per_host }),
        }
    }

    /// Number of hosts, H.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Number of ranks on each host, L.
    pub fn ranks_per_host(&self) -> usize {
        self.ranks_per_host
    }

    /// Number of all ranks, G = H·L.
    pub fn ranks(&self) -> usize {
        self.hosts * self.ranks_per_host
    }

    /// Numbering of the ranks.
    pub fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// Host of `rank`.
    pub fn host_of(&self, rank: usize) -> usize {
        match self.numbering {
            Numbering::ByHost => rank / self.ranks_per_host,
            Numbering::ByPeer { hosts_per_group } => {
                let groups = self.hosts / hosts_per_group;
                rank % groups * hosts_per_group + rank / groups / self.ranks_per_host
            }
        }
    }

    /// Ranks of a host, ascending.
    pub fn ranks_of(&self, host: usize) -> impl Iterator<Item = usize> {
        let this = *self;
        (0..self.ranks()).filter(move |&rank| this.host_of(rank) == host)
    }

    /// Class of the links that a message from `from` to `to` crosses.
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

/// Tower groups: P groups of K consecutive hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Groups {
    topology: Topology,
    hosts_per_group: usize,
}

impl Groups {
    /// Makes groups of `hosts_per_group` hosts. A topology in peer order must be in the peer order of these groups.
    pub fn new(topology: Topology, hosts_per_group: usize) -> Result<Self, TopologyError> {
        let hosts = topology.hosts;
        if hosts_per_group == 0 || !hosts.is_multiple_of(hosts_per_group) {
            return Err(TopologyError::Groups { hosts, hosts_per_group });
        }
        match topology.numbering {
            Numbering::ByPeer { hosts_per_group: own } if own != hosts_per_group => {
                Err(TopologyError::Numbering { own, hosts_per_group })
            }
            _ => Ok(Self { topology, hosts_per_group }),
        }
    }

    /// Makes groups of one host each, for ranks that are numbered host by host.
    pub fn of_hosts(topology: Topology) -> Self {
        Self { topology: Topology { numbering: Numbering::ByHost, ..topology }, hosts_per_group: 1 }
    }

    /// Groups of the same ranks, numbered in peer order.
    pub fn in_peer_order(self) -> Self {
        let numbering = Numbering::ByPeer { hosts_per_group: self.hosts_per_group };
        Self { topology: Topology { numbering, ..self.topology }, ..self }
    }

    /// Topology of the cluster.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// Number of hosts of a group, K.
    pub fn hosts_per_group(&self) -> usize {
        self.hosts_per_group
    }

    /// Number of groups, P.
    pub fn count(&self) -> usize {
        self.topology.hosts / self.hosts_per_group
    }

    /// Number of ranks of a group, S.
    pub fn size(&self) -> usize {
        self.topology.ranks_per_host * self.hosts_per_group
    }

    /// Group of a rank.
    pub fn group_of(&self, rank: usize) -> usize {
        match self.topology.numbering {
            Numbering::ByHost => rank / self.size(),
            Numbering::ByPeer { .. } => rank % self.count(),
        }
    }

    /// Index of a rank in its group.
    pub fn index_of(&self, rank: usize) -> usize {
        match self.topology.numbering {
            Numbering::ByHost => rank % self.size(),
            Numbering::ByPeer { .. } => rank / self.count(),
        }
    }

    /// Rank with this index in this group.
    pub fn rank(&self, group: usize, index: usize) -> usize {
        match self.topology.numbering {
            Numbering::ByHost => group * self.size() + index,
            Numbering::ByPeer { .. } => index * self.count() + group,
        }
    }

    /// Ranks of a group, by index.
    pub fn members(&self, group: usize) -> impl Iterator<Item = usize> {
        let this = *self;
        (0..self.size()).map(move |index| this.rank(group, index))
    }

    /// Peers: the ranks with this index in their groups, by group.
    pub fn peers(&self, index: usize) -> impl Iterator<Item = usize> {
        let this = *self;
        (0..self.count()).map(move |group| this.rank(group, index))
    }

    /// All ranks in peer order: sorted by (index in group, group).
    pub fn peer_order(&self) -> Vec<usize> {
        (0..self.size()).flat_map(|index| self.peers(index)).collect()
    }
}

/// Reason why a topology or its groups are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There are no hosts, or hosts have no ranks.
    #[error("a cluster of {hosts} hosts × {ranks_per_host} ranks has no rank; both must be at least 1")]
    Empty {
        /// Number of hosts that was requested.
        hosts: usize,
        /// Number of ranks per host that was requested.
        ranks_per_host: usize,
    },
    /// The hosts cannot be divided into groups of this size.
    #[error("{hosts} hosts cannot be divided into groups of {hosts_per_group}; use a divisor of {hosts}")]
    Groups {
        /// Number of hosts.
        hosts: usize,
        /// Number of hosts per group that was requested.
        hosts_per_group: usize,
    },
    /// The ranks are numbered in the peer order of other groups.
    #[error("ranks are numbered in the peer order of groups of {own} hosts, not of {hosts_per_group}")]
    Numbering {
        /// Number of hosts of the groups in whose peer order the ranks are numbered.
        own: usize,
        /// Number of hosts per group that was requested.
        hosts_per_group: usize,
    },
    /// There are more ranks than [`MAX_RANKS`].
    #[error("{hosts} hosts × {ranks_per_host} ranks are more than {MAX_RANKS} ranks; use fewer")]
    TooLarge {
        /// Number of hosts that was requested.
        hosts: usize,
        /// Number of ranks per host that was requested.
        ranks_per_host: usize,
    },
}
