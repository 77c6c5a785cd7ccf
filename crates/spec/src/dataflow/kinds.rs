//! What a user chooses by name.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A dataflow by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataflowKind {
    /// Over the world, at once.
    #[default]
    Flat,
    /// SPTT: vectors are exchanged inside tower groups, then among peers.
    Sptt,
}

/// How the flat dataflow carries out its exchanges of vectors and of their gradients. Ids and lengths go directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllToAll {
    /// Every rank sends to every other.
    #[default]
    Flat,
    /// In two levels: inside each host to the rank that has the receiver's index there, and from it to the receiver, together
    /// with what its host-mates have for the same receiver. Messages between hosts are fewer and longer by the ranks of a host.
    Hierarchical,
}

/// Values that SPTT brings into peer order in step c.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerPermute {
    /// The pooled vectors, after the lookup, at 4 bytes a column; their gradients go back.
    Vectors,
    /// The bags of ids, before the lookup (steps b and c swapped): vectors and gradients come out in peer order. By bytes
    /// this always wins here: ids stay where they arrived, and the index that finds their bags is written anyway.
    #[default]
    Ids,
    /// Nothing: ranks are numbered in peer order from the start.
    None,
}

impl FromStr for DataflowKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flat" => Ok(DataflowKind::Flat),
            "sptt" => Ok(DataflowKind::Sptt),
            _ => Err(format!("{text:?} is no dataflow; there are flat and sptt")),
        }
    }
}

impl FromStr for AllToAll {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flat" => Ok(AllToAll::Flat),
            "hierarchical" => Ok(AllToAll::Hierarchical),
            _ => Err(format!("{text:?} is no all-to-all; there are flat and hierarchical")),
        }
    }
}

impl fmt::Display for AllToAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AllToAll::Flat => "flat",
            AllToAll::Hierarchical => "hierarchical",
        })
    }
}

impl FromStr for PeerPermute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "vectors" => Ok(PeerPermute::Vectors),
            "ids" => Ok(PeerPermute::Ids),
            "none" => Ok(PeerPermute::None),
            _ => Err(format!("{text:?} is no peer permute; there are vectors, ids and none")),
        }
    }
}

impl fmt::Display for PeerPermute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PeerPermute::Vectors => "vectors",
            PeerPermute::Ids => "ids",
            PeerPermute::None => "none",
        })
    }
}
