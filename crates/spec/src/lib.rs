//! The nouns of Campanile: pure values, checked once, printable and serialisable. No I/O, no threads; devices by name only.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod byte_size;
pub mod dataflow;
pub mod emulation;
pub mod feature;
pub mod fuse;
pub mod links;
pub mod machine_rates;
pub mod memory;
pub mod model;
pub mod pace;
pub mod placement;
pub mod plan;
pub mod precision;
pub mod presets;
pub mod program;
pub mod run;
pub mod schedule;
pub mod schema;
pub mod statistics;
pub mod synthetic;
pub mod table_cache;
pub mod topology;
pub mod towers;
pub mod transport;
pub mod volume;
pub mod wire;

use ground::text;
pub use ground::{Activation, Pooling, codec, device, optimizer, random, table_format, tensor_train};
