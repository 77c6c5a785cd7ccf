//! Precision of a run, and of the parts of its network.

mod parts;

pub use ground::precision::Precision;
pub use parts::{PrecisionConfig, Precisions};
