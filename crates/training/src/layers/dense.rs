//! Dense layers with explicit forward and backward passes over reused buffers. Data-parallel: every rank has them all.

mod cross;
mod dot;
mod mlp;
mod parameters;

pub use cross::CrossNet;
pub use dot::Dot;
pub use mlp::{Linear, Mlp};
pub use parameters::{BucketState, Parameters};
