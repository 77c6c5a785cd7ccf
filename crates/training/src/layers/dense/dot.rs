//! `[v₀, ⟨v₁,v₀⟩, ⟨v₂,v₀⟩, ⟨v₂,v₁⟩, …]`: DLRM's interaction.

use super::Back;
use kernels::{Buffer, Device, DotShape, KernelError, Space};

/// Pairwise dot products of the vectors of a sample.
#[derive(Debug)]
pub struct Dot {
    vectors: usize,
    dim: usize,
    /// Output of the forward pass.
    pub output: Buffer<f32>,
}

impl Dot {
    /// Products of `vectors` vectors of `dim`, which are put in `space`.
    pub fn new(space: &Space, vectors: usize, dim: usize) -> Self {
        Self { vectors, dim, output: Buffer::new(space) }
    }

    /// Fills [`Dot::output`].
    pub fn forward(
        &mut self,
        device: &Device,
        rows: usize,
        features: &Buffer<f32>,
    ) -> Result<(), KernelError> {
        self.output.resize(rows * (self.dim + self.vectors * (self.vectors - 1) / 2))?;
        device.dot_forward(DotShape { rows, count: self.vectors, dim: self.dim }, features, &mut self.output)
    }

    /// Fills the gradient of the vectors.
    pub fn backward(&mut self, device: &Device, rows: usize, back: Back<'_>) -> Result<(), KernelError> {
        let Back { input, gradient, input_gradient } = back;
        input_gradient.resize(rows * self.vectors * self.dim)?;
        device.dot_backward(
            DotShape { rows, count: self.vectors, dim: self.dim },
            input,
            gradient,
            input_gradient,
        )
    }
}
