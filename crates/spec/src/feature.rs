//! A sparse input and its embedding table.

use crate::Pooling;
use serde::{Deserialize, Serialize};

/// A sparse input: each sample brings a bag of ids, each id names a row of the feature's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Unique among the model's features.
    pub name: String,
    /// Rows of its table.
    pub rows: usize,
    /// How a bag becomes one vector.
    #[serde(default)]
    pub pooling: Pooling,
    /// How many ids a bag holds.
    #[serde(default)]
    pub hotness: Hotness,
    /// Whether every id carries a weight.
    #[serde(default)]
    pub weighted: bool,
}

/// How many ids a bag holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Hotness {
    /// Exactly one: lengths need not travel.
    #[default]
    One,
    /// Any number; `mean` is what planning counts with.
    Many {
        /// Ids per sample, on average.
        mean: u32,
    },
}

impl Hotness {
    /// Ids per sample, on average.
    pub fn mean(&self) -> u64 {
        match self {
            Hotness::One => 1,
            Hotness::Many { mean } => u64::from(*mean),
        }
    }
}
