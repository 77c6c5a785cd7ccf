//! Algorithms of the all-reduce. A new one is a variant here, and a file beside this one that appends its steps.

use super::{Program, Units, direct, recursive_doubling, ring, two_level};
use crate::codec::Compensation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Algorithm of an all-reduce.
///
/// ```
/// use spec::program::Algorithm;
/// assert_eq!("two-level".parse(), Ok(Algorithm::TwoLevel));
/// assert_eq!(Algorithm::default().name(), "direct");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Every member sums one share of the vector, which all others send to it, and sends the sum to all others.
    #[default]
    Direct,
    /// Shares travel round a ring of all members: once to be summed, once more to be shared out.
    Ring,
    /// Members of a host sum one share each; members of equal index on all hosts then sum theirs in pairs, pairs of pairs, and
    /// so on.
    RecursiveDoubling,
    /// Members of a host sum one share each; members of equal index on all hosts then sum theirs directly.
    TwoLevel,
    /// NCCL adds, in an order of its own, where `--transport nccl` joins the ranks. Campanile counts and prices the bytes of
    /// `direct`, which are as few as any all-reduce sends.
    Nccl,
}

impl Algorithm {
    /// Algorithms whose sums have a fixed order, so that results have the same bits in every run.
    pub const ORDERED: [Self; 4] = [Self::Direct, Self::Ring, Self::RecursiveDoubling, Self::TwoLevel];
    /// All algorithms.
    pub const ALL: [Self; 5] =
        [Self::Direct, Self::Ring, Self::RecursiveDoubling, Self::TwoLevel, Self::Nccl];

    /// Name of the algorithm as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Ring => "ring",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::TwoLevel => "two-level",
            Self::Nccl => "nccl",
        }
    }

    /// Appends the steps of an all-reduce to a program without steps. Member `i` is on host `hosts[i]`.
    pub(super) fn append(
        self,
        program: &mut Program,
        units: &Units,
        hosts: &[usize],
        compensation: Compensation,
    ) {
        match self {
            Self::Direct | Self::Nccl => direct::all_reduce(program, units, hosts, compensation),
            Self::Ring => ring::all_reduce(program, units, hosts, compensation),
            Self::RecursiveDoubling => recursive_doubling::all_reduce(program, units, hosts, compensation),
            Self::TwoLevel => two_level::all_reduce(program, units, hosts, compensation),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        known.ok_or_else(|| {
            let [others @ .., last] = Self::ALL.map(Self::name);
            format!("unknown all-reduce algorithm {text:?}; use {} or {last}", others.join(", "))
        })
    }
}
