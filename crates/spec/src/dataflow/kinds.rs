//! Options of a dataflow that users choose by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Kind of dataflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataflowKind {
    /// Flat dataflow: one all-to-all over the world.
    #[default]
    Flat,
    /// SPTT: vectors are exchanged inside tower groups, then among peers.
    Sptt,
}

/// How the flat dataflow exchanges vectors and their gradients. Ids and bag lengths are always exchanged directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllToAll {
    /// Every rank sends directly to every other rank.
    #[default]
    Flat,
    /// All-to-all in two levels: first inside each host, to the rank with the receiver's index, and then between hosts,
    /// together with the data of all ranks of the host for the same receiver. Messages between hosts are fewer and longer by
    /// the number of ranks per host.
    Hierarchical,
}

/// Values that SPTT brings into peer order in step c.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerPermute {
    /// Pooled vectors are permuted after the lookup, at 4 bytes per column, and their gradients are permuted back.
    Vectors,
    /// Bags of ids are permuted before the lookup (steps b and c are swapped), so that vectors and gradients come out in
    /// peer order. This moves the fewest bytes: ids stay where they arrived, and the index that finds their bags is written
    /// anyway.
    #[default]
    Ids,
    /// Nothing is permuted: ranks are numbered in peer order from the start.
    None,
}

impl FromStr for DataflowKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flat" => Ok(DataflowKind::Flat),
            "sptt" => Ok(DataflowKind::Sptt),
            _ => Err(format!("unknown dataflow {text:?}; use flat or sptt")),
        }
    }
}

impl FromStr for AllToAll {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flat" => Ok(AllToAll::Flat),
            "hierarchical" => Ok(AllToAll::Hierarchical),
            _ => Err(format!("unknown all-to-all {text:?}; use flat or hierarchical")),
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
            _ => Err(format!("unknown peer permute {text:?}; use vectors, ids or none")),
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
