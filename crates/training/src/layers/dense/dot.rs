//! `[v₀, ⟨v₁,v₀⟩, ⟨v₂,v₀⟩, ⟨v₂,v₁⟩, …]`: DLRM's interaction.

use super::Back;
use kernels::{Buffer, Device, KernelError};

/// Pairwise dot products of the vectors of a sample.
#[derive(Debug)]
pub struct Dot {
    vectors: usize,
    dim: usize,
    /// Output of the forward pass.
    pub output: Buffer<f32>,
}

impl Dot {
    /// Over `vectors` vectors of `dim`.
    pub fn new(vectors: usize, dim: usize) -> Self {
        Self { vectors, dim, output: Buffer::empty() }
    }

    /// Fills [`Dot::output`].
    pub fn forward(
        &mut self,
        device: &Device,
        rows: usize,
        features: &Buffer<f32>,
    ) -> Result<(), KernelError> {
        self.output.resize(rows * (self.dim + self.vectors * (self.vectors - 1) / 2))?;
        device.dot_forward(rows, self.vectors, self.dim, features, &mut self.output)
    }

    /// Fills the gradient of the vectors.
    pub fn backward(&mut self, device: &Device, rows: usize, back: Back<'_>) -> Result<(), KernelError> {
        let Back { input, gradient, input_gradient } = back;
        input_gradient.resize(rows * self.vectors * self.dim)?;
        device.dot_backward(rows, self.vectors, self.dim, input, gradient, input_gradient)
    }
}
