//! Dense layers with explicit forward and backward passes over reused buffers. Data-parallel: every rank has them all.

mod cross;
mod dot;
mod fm;
mod mlp;
mod parameters;
mod project;

use kernels::Buffer;

pub use cross::CrossNet;
pub use dot::Dot;
pub use fm::Fm;
pub use mlp::{Linear, Mlp};
pub use parameters::{BucketState, Parameters, Weights};
pub use project::{Maps, Project};

/// What a layer reads and fills on the way back.
#[derive(Debug)]
pub struct Back<'a> {
    /// Input of the forward pass.
    pub input: &'a Buffer<f32>,
    /// Gradient of the output. A layer may take the buffer and leave another in its place.
    pub gradient: &'a mut Buffer<f32>,
    /// Gradient of the input, which the layer fills.
    pub input_gradient: &'a mut Buffer<f32>,
}
