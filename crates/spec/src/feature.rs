//! A sparse input and its embedding table.

use crate::Pooling;
use crate::table_format::TableFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sparse feature: an input of which each sample has a bag of ids; each id names a row of the feature's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Name of the feature, unique in the model.
    pub name: String,
    /// Number of rows of the feature's table.
    pub rows: usize,
    /// Pooling: how the rows of a bag become one vector.
    #[serde(default)]
    pub pooling: Pooling,
    /// Number of ids in a bag.
    #[serde(default)]
    pub hotness: Hotness,
    /// Whether every id carries a weight.
    #[serde(default)]
    pub weighted: bool,
    /// Length of the feature's embedding vectors. Default: `model.dim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// Number format of the feature's table: `f32`, `f16`, `bf16` or `int8`. Default: `tables.format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<TableFormat>,
    /// Whether rows of the feature's table may lie outside of memory, where `tables.memory` is too little for all tables; `false` keeps the
    /// table whole in memory. Default: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<bool>,
    /// Rank of the tensor train that the feature's table is: rows are products of three small cores, which are dense parameters on every
    /// rank that serves the feature; 8 to 64 is usual. Default: `tables.tt_rank`, if the table is large enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tt_rank: Option<usize>,
}

/// Hotness of a feature: the number of ids in a bag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Hotness {
    /// Every bag holds exactly one id, so that bag lengths need not be sent.
    #[default]
    One,
    /// A bag holds any number of ids; planning uses the mean.
    Many {
        /// Mean number of ids per sample.
        mean: u32,
    },
}

impl Hotness {
    /// Mean number of ids per sample.
    pub fn mean(&self) -> u64 {
        match self {
            Hotness::One => 1,
            Hotness::Many { mean } => u64::from(*mean),
        }
    }
}
