//! `Σ_f w_f + ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²)`: a factorization machine over rows `[v, w]`.

use super::Back;
use kernels::{Buffer, Device, FmShape, KernelError, Space};

/// The linear weights of a sample's rows, and the products of all pairs of their vectors, added up.
#[derive(Debug)]
pub struct Fm {
    vectors: usize,
    dim: usize,
    /// Output of the forward pass: one number for each sample.
    pub output: Buffer<f32>,
}

impl Fm {
    /// A factorization machine over `vectors` vectors of `dim`, each with a linear weight behind it, whose output lies in `space`.
    pub fn new(space: &Space, vectors: usize, dim: usize) -> Self {
        Self { vectors, dim, output: Buffer::new(space) }
    }

    fn shape(&self, rows: usize) -> FmShape {
        FmShape { rows, count: self.vectors, dim: self.dim }
    }

    /// Fills [`Fm::output`].
    pub fn forward(&mut self, device: &Device, rows: usize, input: &Buffer<f32>) -> Result<(), KernelError> {
        self.output.resize(rows)?;
        device.fm_forward(self.shape(rows), input, &mut self.output)
    }

    /// Fills the gradient of the rows.
    pub fn backward(&mut self, device: &Device, rows: usize, back: Back<'_>) -> Result<(), KernelError> {
        let Back { input, gradient, input_gradient } = back;
        input_gradient.resize(rows * self.vectors * (self.dim + 1))?;
        device.fm_backward(self.shape(rows), input, gradient, input_gradient)
    }
}
