//! `[v₀, ⟨v₁,v₀⟩, ⟨v₂,v₀⟩, ⟨v₂,v₁⟩, …]`: DLRM's interaction.

use kernels::{Buffer, Device, KernelError};

/// Pairwise dot products of the vectors of a sample.
#[derive(Debug)]
pub struct Dot {
    vectors: usize,
    dim: usize,
    /// What forward gave.
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

    /// Fills the gradient of the features.
    pub fn backward(
        &mut self,
        device: &Device,
        rows: usize,
        features: &Buffer<f32>,
        gradient: &Buffer<f32>,
        dfeatures: &mut Buffer<f32>,
    ) -> Result<(), KernelError> {
        dfeatures.resize(rows * self.vectors * self.dim)?;
        device.dot_backward(rows, self.vectors, self.dim, features, gradient, dfeatures)
    }
}
