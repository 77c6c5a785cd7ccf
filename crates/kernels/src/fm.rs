//! Factorization machines: the linear and the pairwise terms of a sample's rows.
//!
//! A row of a table holds a vector and, behind it, one linear weight. Each sample has `count` of them, `[v, w]` side by side:
//!
//! ```text
//! out = Σ_f w_f + ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²)        dv_fd = dout·(Σ_g v_gd − v_fd)        dw_f = dout
//! ```
//!
//! ```
//! use kernels::{Buffer, Device, FmShape};
//! let device = Device::Reference;
//! // One sample of two rows: the vector (1, 2) with weight 10, and (3, 4) with weight 20. ⟨v₀, v₁⟩ is 11.
//! let rows = Buffer::from_slice(&device, &[1.0f32, 2.0, 10.0, 3.0, 4.0, 20.0])?;
//! let mut out = Buffer::zeroed(&device, 1)?;
//! device.fm_forward(FmShape { rows: 1, count: 2, dim: 2 }, &rows, &mut out)?;
//! assert_eq!(out.to_vec(), [41.0]);
//! # Ok::<(), kernels::KernelError>(())
//! ```

use crate::device::size;
use crate::error::need;
use crate::{Buffer, Device, KernelError, cpu, reference};

/// Shape of a factorization machine's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FmShape {
    /// Samples.
    pub rows: usize,
    /// Vectors of a sample, each with a linear weight behind it.
    pub count: usize,
    /// Length of a vector, without the weight.
    pub dim: usize,
}

impl FmShape {
    /// Columns of a sample.
    pub(crate) fn width(self) -> usize {
        size([self.count, self.dim.saturating_add(1)])
    }
}

impl Device {
    /// `out = Σ_f w_f + ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²)`: one number for each sample.
    pub fn fm_forward(
        &self,
        shape: FmShape,
        vectors: &Buffer<f32>,
        out: &mut Buffer<f32>,
    ) -> Result<(), KernelError> {
        const OP: &str = "fm_forward";
        need(OP, "vectors", size([shape.rows, shape.width()]), vectors.len())?;
        need(OP, "out", shape.rows, out.len())?;
        let (vectors, out) = (vectors.host(), out.host_mut());
        match self {
            Device::Reference => reference::fm::forward(shape, vectors, out),
            Device::Cpu(cpu) => cpu::fm::forward(cpu, shape, vectors, out),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The gradient of [`Device::fm_forward`]: `dv_fd = dout·(Σ_g v_gd − v_fd)` and `dw_f = dout`; overwrites `dvectors`.
    pub fn fm_backward(
        &self,
        shape: FmShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result<(), KernelError> {
        const OP: &str = "fm_backward";
        let len = size([shape.rows, shape.width()]);
        need(OP, "vectors", len, vectors.len())?;
        need(OP, "dout", shape.rows, dout.len())?;
        need(OP, "dvectors", len, dvectors.len())?;
        let (vectors, dout, dvectors) = (vectors.host(), dout.host(), dvectors.host_mut());
        match self {
            Device::Reference => reference::fm::backward(shape, vectors, dout, dvectors),
            Device::Cpu(cpu) => cpu::fm::backward(cpu, shape, vectors, dout, dvectors),
            Device::Idle => {}
        }
        Ok(())
    }
}
