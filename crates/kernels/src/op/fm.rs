//! Factorization machines: the linear and the pairwise terms of a sample's rows.
//!
//! A row of a table holds a vector and, behind it, one linear weight. Each sample has `count` of them, `[v, w]` side by side.

use super::{Check, Result, size};
use crate::{Buffer, Device};

/// Sizes of a factorization machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FmShape {
    /// Number of samples.
    pub rows: usize,
    /// Number of vectors of a sample, each with a linear weight behind it.
    pub count: usize,
    /// Number of elements of a vector, without the weight.
    pub dim: usize,
}

impl FmShape {
    /// Number of columns of a sample: vectors and weights.
    ///
    /// ```
    /// assert_eq!(kernels::FmShape { rows: 1, count: 26, dim: 16 }.width(), 26 * 17);
    /// ```
    pub fn width(&self) -> usize {
        size([self.count, self.dim.saturating_add(1)])
    }
}

impl Device {
    /// Factorization machine: `out = Σ_f w_f + ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²)`, one number for each sample.
    ///
    /// ```
    /// use kernels::{Buffer, Device, FmShape};
    /// let device = Device::cpu(1)?;
    /// // One sample of two rows: the vector (1, 2) with weight 10, and (3, 4) with weight 20. ⟨v₀, v₁⟩ is 11.
    /// let rows = Buffer::from_slice(&device, &[1.0, 2.0, 10.0, 3.0, 4.0, 20.0])?;
    /// let mut out = Buffer::zeroed(&device, 1)?;
    /// device.fm_forward(FmShape { rows: 1, count: 2, dim: 2 }, &rows, &mut out)?;
    /// assert_eq!(out.to_vec()?, [41.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn fm_forward(&self, shape: FmShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        let check = Check::new("fm_forward", self);
        check.buffer("vectors", vectors, size([shape.rows, shape.width()]))?;
        check.buffer("out", out, shape.rows)?;
        self.backend().fm_forward(shape, vectors, out)
    }

    /// Gradient of [`Device::fm_forward`]: `dv_fd = dout·(Σ_g v_gd − v_fd)` and `dw_f = dout`. Overwrites `dvectors`.
    ///
    /// ```
    /// use kernels::{Buffer, Device, FmShape};
    /// let device = Device::cpu(1)?;
    /// let rows = Buffer::from_slice(&device, &[1.0, 2.0, 10.0, 3.0, 4.0, 20.0])?;
    /// let dout = Buffer::from_slice(&device, &[2.0])?;
    /// let mut drows = Buffer::zeroed(&device, 6)?;
    /// device.fm_backward(FmShape { rows: 1, count: 2, dim: 2 }, &rows, &dout, &mut drows)?;
    /// assert_eq!(drows.to_vec()?, [6.0, 8.0, 2.0, 2.0, 4.0, 2.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn fm_backward(
        &self,
        shape: FmShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        let check = Check::new("fm_backward", self);
        let len = size([shape.rows, shape.width()]);
        check.buffer("vectors", vectors, len)?;
        check.buffer("dout", dout, shape.rows)?;
        check.buffer("dvectors", dvectors, len)?;
        self.backend().fm_backward(shape, vectors, dout, dvectors)
    }
}
