//! All-reduce of dense gradients: the algorithm that a user names, or one that follows from the cluster.
//!
//! One algorithm serves all buckets of a run: those of dense layers over the world, and those of tower modules inside their
//! tower groups. The norm of gradients, one float, is always reduced directly. `auto` chooses among the algorithms whose sums have a
//! fixed order; `nccl` must be named.
//!
//! ```
//! use spec::program::Algorithm;
//! use spec::run::AllReduce;
//! use spec::topology::Topology;
//! let auto: AllReduce = "auto".parse().unwrap();
//! // 4 MB over 8 hosts of 2 ranks.
//! assert_eq!(auto.algorithm(Topology::new(8, 2).unwrap(), 4_000_000), Algorithm::TwoLevel);
//! ```

use crate::program::Algorithm;
use crate::text::{as_text, listed};
use crate::topology::Topology;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// All-reduce of dense gradients as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllReduce {
    /// Algorithm that follows from the cluster and the size of the buckets: `auto`.
    Auto,
    /// Algorithm by name.
    By(Algorithm),
}

/// Number of bytes that a link carries in the time that one more message costs: 50 µs of TCP at 10 Gbit/s, or 5 µs at
/// 100 Gbit/s. A constant, so that a run does not depend on measurements.
const MESSAGE_COST: u64 = 64 << 10;
/// Number of bytes that a link carries in the time that a message takes to arrive, after which the next may be sent that depends
/// on it.
const LATENCY_COST: u64 = 4 * MESSAGE_COST;

impl AllReduce {
    /// Algorithm for a cluster on which vectors of at most `bytes` bytes are reduced at once.
    ///
    /// On H hosts of L ranks, `auto` asks two questions:
    /// 1. *Are there several hosts of several ranks?* Then ranks of a host sum one share each before anything leaves the host, and
    ///    the links between hosts carry L times fewer bytes than with `direct`: `two-level`. Otherwise there is one level, and
    ///    `direct` needs the fewest rounds, two.
    /// 2. *Are messages between hosts so short that their number costs more than their bytes?* Of a share of n bytes, `direct` and
    ///    `two-level` send 2·(H − 1) messages of n/H bytes to other hosts, in two exchanges. `recursive-doubling` has three exchanges
    ///    in each of log₂ H rounds, one after the other: of n/2, n/2 and, on the way back, n bytes; and two more of n bytes if H is
    ///    no power of two. A message costs as much as 64 KiB, and an exchange as much as 256 KiB more. What costs less is chosen:
    ///    recursive doubling for short vectors on 40 hosts or more.
    ///
    /// `auto` never chooses `ring`: a ring sends as many bytes as `direct` in as many messages, but one after the other, and a lossy
    /// codec encodes every sum again in each of its rounds.
    pub fn algorithm(self, topology: Topology, bytes: u64) -> Algorithm {
        let (hosts, ranks) = (topology.hosts() as u64, topology.ranks_per_host() as u64);
        match self {
            AllReduce::By(algorithm) => algorithm,
            AllReduce::Auto if hosts == 1 => Algorithm::Direct,
            AllReduce::Auto => {
                let share = bytes.div_ceil(ranks);
                let messages = (2 * (hosts - 1)).saturating_mul(MESSAGE_COST + share.div_ceil(hosts));
                let in_shares = messages.saturating_add(2 * LATENCY_COST);
                let exchange = MESSAGE_COST + LATENCY_COST;
                let round = share.saturating_mul(2).saturating_add(3 * exchange);
                let fold = share.saturating_add(exchange).saturating_mul(2);
                let rounds = u64::from(hosts.ilog2()).saturating_mul(round);
                let doubling = rounds.saturating_add(if hosts.is_power_of_two() { 0 } else { fold });
                match ranks {
                    _ if doubling < in_shares => Algorithm::RecursiveDoubling,
                    1 => Algorithm::Direct,
                    _ => Algorithm::TwoLevel,
                }
            }
        }
    }
}

impl Default for AllReduce {
    /// Direct, as it was before there was a choice.
    fn default() -> Self {
        AllReduce::By(Algorithm::default())
    }
}

impl fmt::Display for AllReduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllReduce::Auto => f.pad("auto"),
            AllReduce::By(algorithm) => algorithm.fmt(f),
        }
    }
}

impl FromStr for AllReduce {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(AllReduce::Auto);
        }
        let names = ["auto"].into_iter().chain(Algorithm::ALL.map(Algorithm::name)).collect::<Vec<_>>();
        let unknown = |_| format!("unknown all-reduce {text:?}; use {}", listed(&names));
        text.parse().map(AllReduce::By).map_err(unknown)
    }
}

as_text!(AllReduce);

impl JsonSchema for AllReduce {
    fn schema_name() -> Cow<'static, str> {
        "AllReduce".into()
    }

    /// Shape of the value in a config, as `FromStr` accepts it.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut named = generator.subschema_for::<Algorithm>();
        named.insert("description".into(), "An algorithm by name.".into());
        json_schema!({
            "description": "All-reduce of dense gradients.",
            "oneOf": [
                named,
                {
                    "type": "string",
                    "const": "auto",
                    "description": "Algorithm that follows from the number of hosts and ranks and from the size of the buckets, never from \
                                    a measurement; the config of the run names it."
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests;
