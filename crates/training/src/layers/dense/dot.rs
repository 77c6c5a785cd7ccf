//! `[v₀, ⟨v₁,v₀⟩, ⟨v₂,v₀⟩, ⟨v₂,v₁⟩, …]`: DLRM's interaction.

use super::Back;
use kernels::{Buffer, Device, DotShape, KernelError, Space, Stored};

/// Pairwise dot products of the vectors of a sample.
#[derive(Debug)]
pub struct Dot {
    vectors: usize,
    dim: usize,
    /// Output of the forward pass.
    pub output: Buffer<f32>,
    /// Whether the output goes to a reader that takes it as the device keeps it.
    pub keeps_output: bool,
}

impl Dot {
    /// Products of `vectors` vectors of `dim`, which are put in `space`.
    pub fn new(space: &Space, vectors: usize, dim: usize) -> Self {
        Self { vectors, dim, output: Buffer::new(space), keeps_output: false }
    }

    /// Fills [`Dot::output`].
    pub fn forward(
        &mut self,
        device: &Device,
        rows: usize,
        features: &Buffer<f32>,
    ) -> Result<(), KernelError> {
        self.make_room(device, rows)?;
        device.dot_forward(self.shape(rows), features, &mut self.output)
    }

    /// Sizes for `rows` samples.
    pub fn shape(&self, rows: usize) -> DotShape {
        DotShape { rows, count: self.vectors, dim: self.dim }
    }

    /// Gives the output its size.
    pub fn make_room(&mut self, device: &Device, rows: usize) -> Result<(), KernelError> {
        let width = self.shape(rows).width();
        let stored = if self.keeps_output { device.keeps(width) } else { Stored::Plain };
        self.output.resize_rows(stored, rows, width)
    }

    /// Fills the gradient of the vectors.
    pub fn backward(&mut self, device: &Device, rows: usize, back: Back<'_>) -> Result<(), KernelError> {
        let Back { input, gradient, input_gradient } = back;
        input_gradient.resize(rows * self.vectors * self.dim)?;
        device.dot_backward(self.shape(rows), input, gradient, input_gradient)
    }
}
