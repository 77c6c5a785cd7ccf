//! The cluster: H hosts of L ranks, numbered host by host unless told otherwise.
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

/// The most ranks a topology may have: far beyond any cluster, and small enough that per-rank vectors stay cheap.
pub const MAX_RANKS: usize = 65_536;

/// H hosts × L ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Topology {
    hosts: usize,
    ranks_per_host: usize,
    numbering: Numbering,
}

/// How ranks are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbering {
    /// Host by host.
    #[default]
    ByHost,
    /// In the peer order of groups of so many hosts.
    ByPeer {
        /// K.
        hosts_per_group: usize,
    },
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

    /// Ranks on each host, L.
    pub fn ranks_per_host(&self) -> usize {
        self.ranks_per_host
    }

    /// Ranks in all, G = H·L.
    pub fn ranks(&self) -> usize {
        self.hosts * self.ranks_per_host
    }

    /// How ranks are numbered.
    pub fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// The host that `rank` lives on.
    pub fn host_of(&self, rank: usize) -> usize {
        match self.numbering {
            Numbering::ByHost => rank / self.ranks_per_host,
            Numbering::ByPeer { hosts_per_group } => {
                let groups = self.hosts / hosts_per_group;
                rank % groups * hosts_per_group + rank / groups / self.ranks_per_host
            }
        }
    }

    /// The ranks of a host, ascending.
    pub fn ranks_of(&self, host: usize) -> impl Iterator<Item = usize> {
        let this = *self;
        (0..self.ranks()).filter(move |&rank| this.host_of(rank) == host)
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

/// Tower groups: P groups of K consecutive hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Groups {
    topology: Topology,
    hosts_per_group: usize,
}

impl Groups {
    /// Groups of `hosts_per_group` hosts. A topology in peer order must be in that of these groups.
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

    /// Every host a group, of ranks that are numbered host by host.
    pub fn of_hosts(topology: Topology) -> Self {
        Self { topology: Topology { numbering: Numbering::ByHost, ..topology }, hosts_per_group: 1 }
    }

    /// Groups of the same ranks, numbered in peer order.
    pub fn in_peer_order(self) -> Self {
        let numbering = Numbering::ByPeer { hosts_per_group: self.hosts_per_group };
        Self { topology: Topology { numbering, ..self.topology }, ..self }
    }

    /// The cluster.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// Hosts of a group, K.
    pub fn hosts_per_group(&self) -> usize {
        self.hosts_per_group
    }

    /// Groups, P.
    pub fn count(&self) -> usize {
        self.topology.hosts / self.hosts_per_group
    }

    /// Ranks of a group, S.
    pub fn size(&self) -> usize {
        self.topology.ranks_per_host * self.hosts_per_group
    }

    /// The group of a rank.
    pub fn group_of(&self, rank: usize) -> usize {
        match self.topology.numbering {
            Numbering::ByHost => rank / self.size(),
            Numbering::ByPeer { .. } => rank % self.count(),
        }
    }

    /// A rank's index in its group.
    pub fn index_of(&self, rank: usize) -> usize {
        match self.topology.numbering {
            Numbering::ByHost => rank % self.size(),
            Numbering::ByPeer { .. } => rank / self.count(),
        }
    }

    /// The rank of this index in this group.
    pub fn rank(&self, group: usize, index: usize) -> usize {
        match self.topology.numbering {
            Numbering::ByHost => group * self.size() + index,
            Numbering::ByPeer { .. } => index * self.count() + group,
        }
    }

    /// The ranks of a group, by index.
    pub fn members(&self, group: usize) -> impl Iterator<Item = usize> {
        let this = *self;
        (0..self.size()).map(move |index| this.rank(group, index))
    }

    /// The ranks of this index, by group: peers of each other.
    pub fn peers(&self, index: usize) -> impl Iterator<Item = usize> {
        let this = *self;
        (0..self.count()).map(move |group| this.rank(group, index))
    }

    /// All ranks by (index in group, group).
    pub fn peer_order(&self) -> Vec<usize> {
        (0..self.size()).flat_map(|index| self.peers(index)).collect()
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
    /// Hosts that do not divide into groups.
    #[error("{hosts} hosts do not divide into groups of {hosts_per_group}")]
    Groups {
        /// Hosts.
        hosts: usize,
        /// Hosts of a group asked for.
        hosts_per_group: usize,
    },
    /// Ranks numbered in the peer order of other groups.
    #[error("ranks are numbered in the peer order of groups of {own} hosts, not of {hosts_per_group}")]
    Numbering {
        /// Hosts of the groups in whose peer order ranks are numbered.
        own: usize,
        /// Hosts of a group asked for.
        hosts_per_group: usize,
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
