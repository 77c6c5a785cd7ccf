//! Interactions of vectors: pairwise dot products, and the element-wise half of cross layers.

use super::{Check, Result, size};
use crate::{Buffer, Device};

/// Sizes of pairwise dot products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotShape {
    /// Number of samples.
    pub rows: usize,
    /// Number of vectors of a sample.
    pub count: usize,
    /// Number of elements of a vector.
    pub dim: usize,
}

impl DotShape {
    /// Width of an output row of [`Device::dot_forward`]: vector 0, and a number for each pair.
    ///
    /// ```
    /// assert_eq!(kernels::DotShape { rows: 1, count: 4, dim: 16 }.width(), 16 + 6);
    /// ```
    pub fn width(&self) -> usize {
        self.dim.saturating_add(size([self.count, self.count.saturating_sub(1)]) / 2)
    }
}

/// Arguments of [`Device::cross_backward`].
#[derive(Debug)]
pub struct CrossBackward<'a> {
    /// Number of elements.
    pub len: usize,
    /// Input of the first cross layer.
    pub x0: &'a Buffer<f32>,
    /// Product of the forward pass.
    pub z: &'a Buffer<f32>,
    /// Gradient of the layer's output.
    pub dout: &'a Buffer<f32>,
    /// Receives the gradient of `z`.
    pub dz: &'a mut Buffer<f32>,
    /// Receives the gradient of `x0`.
    pub dx0: &'a mut Buffer<f32>,
    /// Whether the gradient of `x0` is added to what is there.
    pub accumulate: bool,
}

impl Device {
    /// Pairwise dot products. Each row of `vectors` holds `count` vectors of `dim`; each row of `out` becomes vector 0,
    /// then `⟨vᵢ, vⱼ⟩` for i > j in the order (1,0), (2,0), (2,1), (3,0) …
    ///
    /// ```
    /// use kernels::{Buffer, Device, DotShape};
    /// let device = Device::cpu(1)?;
    /// let vectors = Buffer::from_slice(&device, &[1.0, 2.0, 3.0, 4.0])?;
    /// let mut out = Buffer::zeroed(&device, 3)?;
    /// device.dot_forward(DotShape { rows: 1, count: 2, dim: 2 }, &vectors, &mut out)?;
    /// assert_eq!(out.to_vec()?, [1.0, 2.0, 3.0 * 1.0 + 4.0 * 2.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn dot_forward(&self, shape: DotShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        let check = Check::new("dot_forward", self);
        let DotShape { rows, count, dim } = shape;
        check.buffer("vectors", vectors, size([rows, count, dim]))?;
        check.rows("out", out, rows, shape.width())?;
        self.backend().dot_forward(shape, vectors, out)
    }

    /// Gradient of [`Device::dot_forward`]: `dvᵢ = Σⱼ≠ᵢ dout[⟨vᵢ, vⱼ⟩]·vⱼ`, and `dv₀` also gets the gradient of the copy of
    /// `v₀`. Overwrites `dvectors`.
    ///
    /// ```
    /// use kernels::{Buffer, Device, DotShape};
    /// let device = Device::cpu(1)?;
    /// let vectors = Buffer::from_slice(&device, &[1.0, 2.0, 3.0, 4.0])?;
    /// let dout = Buffer::from_slice(&device, &[0.5, 0.5, 10.0])?;
    /// let mut dvectors = Buffer::zeroed(&device, 4)?;
    /// device.dot_backward(DotShape { rows: 1, count: 2, dim: 2 }, &vectors, &dout, &mut dvectors)?;
    /// assert_eq!(dvectors.to_vec()?, [30.5, 40.5, 10.0, 20.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn dot_backward(
        &self,
        shape: DotShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        let check = Check::new("dot_backward", self);
        let DotShape { rows, count, dim } = shape;
        check.buffer("vectors", vectors, size([rows, count, dim]))?;
        check.rows("dout", dout, rows, shape.width())?;
        check.buffer("dvectors", dvectors, size([rows, count, dim]))?;
        self.backend().dot_backward(shape, vectors, dout, dvectors)
    }

    /// Gradients of `out = x0 ⊙ z + x` but for `x`, whose gradient is `dout` itself: `dz = dout ⊙ x0`, and
    /// `dx0 = dout ⊙ z` (`dx0 += dout ⊙ z` when `accumulate`).
    ///
    /// ```
    /// use kernels::{Buffer, CrossBackward, Device};
    /// let device = Device::cpu(1)?;
    /// let buffer = |value: f32| Buffer::from_slice(&device, &[value]);
    /// let (mut dz, mut dx0) = (buffer(0.0)?, buffer(100.0)?);
    /// device.cross_backward(CrossBackward {
    ///     len: 1,
    ///     x0: &buffer(2.0)?,
    ///     z: &buffer(3.0)?,
    ///     dout: &buffer(10.0)?,
    ///     dz: &mut dz,
    ///     dx0: &mut dx0,
    ///     accumulate: true,
    /// })?;
    /// assert_eq!((dz.to_vec()?, dx0.to_vec()?), (vec![20.0], vec![130.0]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn cross_backward(&self, args: CrossBackward) -> Result {
        let check = Check::new("cross_backward", self);
        let inputs = [("x0", args.x0), ("z", args.z), ("dout", args.dout)];
        for (operand, buffer) in inputs.into_iter().chain([("dz", &*args.dz), ("dx0", &*args.dx0)]) {
            check.buffer(operand, buffer, args.len)?;
        }
        self.backend().cross_backward(args)
    }
}
