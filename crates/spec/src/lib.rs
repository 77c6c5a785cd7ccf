//! The nouns of Campanile: pure values, checked once, printable and serialisable. No I/O, no threads; devices by name only.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod byte_size;
pub mod codec;
pub mod dataflow;
pub mod device;
pub mod emulation;
pub mod feature;
pub mod fuse;
pub mod links;
pub mod machine_rates;
pub mod memory;
pub mod model;
pub mod optimizer;
pub mod pace;
pub mod placement;
pub mod plan;
pub mod precision;
pub mod presets;
pub mod program;
pub mod random;
pub mod run;
pub mod schedule;
pub mod schema;
pub mod statistics;
pub mod synthetic;
pub mod table_cache;
pub mod table_format;
pub mod tensor_train;
mod text;
pub mod topology;
pub mod towers;
pub mod transport;
pub mod volume;
pub mod wire;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pooling: how the rows of a bag become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Sum of the rows, each times its weight where the feature carries weights. An empty bag gives zeros.
    #[default]
    Sum,
    /// (Weighted) sum of the rows divided by their number. An empty bag gives zeros.
    Mean,
}

/// Activation function after a linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// No activation.
    Identity,
    /// `max(x, 0)`.
    Relu,
}
