//! Linear maps: `y = act(x·wᵀ + b)`, and the gradients of its operands.

use super::{Check, Result, size};
use crate::{Buffer, Device, PackedLinear};
use ground::Activation;

/// Sizes of a linear map of many samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearShape {
    /// Number of samples.
    pub rows: usize,
    /// Width of the input.
    pub inputs: usize,
    /// Width of the output.
    pub outputs: usize,
}

/// Offsets of a linear map's parameters in a buffer of many: the matrix first, the bias behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearAt {
    /// First element of the matrix, which is outputs × inputs, as PyTorch's.
    pub weight: usize,
    /// First element of the bias, at or behind the end of the matrix; `None` for a map without bias.
    pub bias: Option<usize>,
}

impl LinearAt {
    /// End of the last parameter; past every buffer when matrix and bias overlap.
    pub(crate) fn end(&self, shape: LinearShape) -> usize {
        let matrix = self.weight.saturating_add(size([shape.outputs, shape.inputs]));
        match self.bias {
            None => matrix,
            Some(bias) if bias >= matrix => bias.saturating_add(shape.outputs),
            Some(_) => usize::MAX,
        }
    }

    /// Matrix and bias among `parameters`.
    pub(crate) fn find<'a>(
        &self,
        shape: LinearShape,
        parameters: &'a [f32],
    ) -> (&'a [f32], Option<&'a [f32]>) {
        let matrix = &parameters[self.weight..][..shape.outputs * shape.inputs];
        (matrix, self.bias.map(|bias| &parameters[bias..][..shape.outputs]))
    }

    /// Matrix and bias among `all`, to be written.
    pub(crate) fn find_mut<'a>(
        &self,
        shape: LinearShape,
        all: &'a mut [f32],
    ) -> (&'a mut [f32], Option<&'a mut [f32]>) {
        let matrix = shape.outputs * shape.inputs;
        let (head, tail) = all.split_at_mut(self.weight + matrix);
        let bias = self.bias.map(|bias| &mut tail[bias - self.weight - matrix..][..shape.outputs]);
        (&mut head[self.weight..], bias)
    }
}

/// How the gradient of a linear map's input is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputGradient {
    /// Whether the gradient is added to what is there.
    pub accumulate: bool,
    /// Whether the input came out of a ReLU: then the gradient is zero where the input was not positive.
    pub relu: bool,
}

/// Arguments of [`Device::linear_forward`].
#[derive(Debug)]
pub struct LinearForward<'a> {
    /// Sizes of the map.
    pub shape: LinearShape,
    /// Input, rows × inputs.
    pub x: &'a Buffer<f32>,
    /// Buffer that holds matrix and bias.
    pub parameters: &'a Buffer<f32>,
    /// Offsets of matrix and bias in `parameters`.
    pub at: LinearAt,
    /// Matrix as [`Device::pack_linear`] packed it, of the same weights; `None` or empty: the matrix itself is read.
    pub packed: Option<&'a PackedLinear>,
    /// Activation applied to the sum.
    pub activation: Activation,
    /// Output, rows × outputs.
    pub y: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::linear_cross_forward`].
#[derive(Debug)]
pub struct LinearCrossForward<'a> {
    /// Sizes of the map.
    pub shape: LinearShape,
    /// Input of the map, rows × inputs.
    pub h: &'a Buffer<f32>,
    /// Buffer that holds matrix and bias.
    pub parameters: &'a Buffer<f32>,
    /// Offsets of matrix and bias in `parameters`.
    pub at: LinearAt,
    /// Matrix as [`Device::pack_linear`] packed it, of the same weights; `None` or empty: the matrix itself is read.
    pub packed: Option<&'a PackedLinear>,
    /// Input of the first cross layer, rows × outputs.
    pub x0: &'a Buffer<f32>,
    /// Input of this cross layer, rows × outputs.
    pub x: &'a Buffer<f32>,
    /// Output of the map, rows × outputs.
    pub z: &'a mut Buffer<f32>,
    /// Output of the cross layer, rows × outputs.
    pub out: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::linear_backward`].
#[derive(Debug)]
pub struct LinearBackward<'a> {
    /// Sizes of the map.
    pub shape: LinearShape,
    /// Input of the forward pass, rows × inputs.
    pub x: &'a Buffer<f32>,
    /// Buffer that holds matrix and bias.
    pub parameters: &'a Buffer<f32>,
    /// Offsets of matrix and bias in `parameters`, and of their gradients in each of `gradients`.
    pub at: LinearAt,
    /// Matrix as [`Device::pack_linear`] packed it, of the same weights; `None` or empty: the matrix itself is read.
    pub packed: Option<&'a PackedLinear>,
    /// Gradient of the output before the activation, rows × outputs.
    pub dy: &'a Buffer<f32>,
    /// Gradient of the input, rows × inputs, and how it is stored; `None` if nothing needs it.
    pub dx: Option<(&'a mut Buffer<f32>, InputGradient)>,
    /// Buffers that receive the gradients of matrix and bias: one for all samples or, where samples are cut into equal
    /// [`share`](ground::share)s, one for each share, over the samples of that share alone.
    pub gradients: &'a mut [Buffer<f32>],
}

impl Device {
    /// Linear map with activation: `y = act(x·wᵀ + b)`.
    ///
    /// ```
    /// use kernels::{Buffer, Device, LinearAt, LinearForward, LinearShape};
    /// let device = Device::cpu(1)?;
    /// let x = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// let parameters = Buffer::from_slice(&device, &[3.0, 4.0, 0.5])?;
    /// let mut y = Buffer::zeroed(&device, 1)?;
    /// device.linear_forward(LinearForward {
    ///     shape: LinearShape { rows: 1, inputs: 2, outputs: 1 },
    ///     x: &x,
    ///     parameters: &parameters,
    ///     at: LinearAt { weight: 0, bias: Some(2) },
    ///     packed: None,
    ///     activation: ground::Activation::Relu,
    ///     y: &mut y,
    /// })?;
    /// assert_eq!(y.to_vec()?, [1.0 * 3.0 + 2.0 * 4.0 + 0.5]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn linear_forward(&self, args: LinearForward) -> Result {
        let check = Check::new("linear_forward", self);
        let LinearShape { rows, inputs, outputs } = args.shape;
        check.rows("x", args.x, rows, inputs)?;
        check.buffer("parameters", args.parameters, args.at.end(args.shape))?;
        check.packed(args.packed, args.shape)?;
        check.rows("y", args.y, rows, outputs)?;
        self.backend().linear_forward(args)
    }

    /// Last product of a cross layer, and the layer's output: `z = h·wᵀ + b`, `out = x0 ⊙ z + x`.
    ///
    /// ```
    /// use kernels::{Buffer, Device, LinearAt, LinearCrossForward, LinearShape};
    /// let device = Device::cpu(1)?;
    /// let buffer = |values: &[f32]| Buffer::from_slice(&device, values);
    /// let (mut z, mut out) = (buffer(&[0.0])?, buffer(&[0.0])?);
    /// device.linear_cross_forward(LinearCrossForward {
    ///     shape: LinearShape { rows: 1, inputs: 2, outputs: 1 },
    ///     h: &buffer(&[1.0, 2.0])?,
    ///     parameters: &buffer(&[3.0, 4.0])?,
    ///     at: LinearAt { weight: 0, bias: None },
    ///     packed: None,
    ///     x0: &buffer(&[10.0])?,
    ///     x: &buffer(&[0.5])?,
    ///     z: &mut z,
    ///     out: &mut out,
    /// })?;
    /// assert_eq!((z.to_vec()?, out.to_vec()?), (vec![11.0], vec![110.5]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn linear_cross_forward(&self, args: LinearCrossForward) -> Result {
        let check = Check::new("linear_cross_forward", self);
        let LinearShape { rows, inputs, outputs } = args.shape;
        check.buffer("h", args.h, size([rows, inputs]))?;
        check.buffer("parameters", args.parameters, args.at.end(args.shape))?;
        check.packed(args.packed, args.shape)?;
        for (operand, buffer) in [("x0", args.x0), ("x", args.x), ("z", &*args.z), ("out", &*args.out)] {
            check.buffer(operand, buffer, size([rows, outputs]))?;
        }
        self.backend().linear_cross_forward(args)
    }

    /// Gradients of `y = x·wᵀ + b`: `dw = dyᵀ·x`, `db = Σ dy` and `dx = dy·w`. The gradients of `w` and `b` land in
    /// `gradients` where `w` and `b` lie in `parameters`.
    ///
    /// ```
    /// use kernels::{Buffer, Device, InputGradient, LinearAt, LinearBackward, LinearShape};
    /// let device = Device::cpu(1)?;
    /// let buffer = |values: &[f32]| Buffer::from_slice(&device, values);
    /// let (mut dx, mut gradient) = (buffer(&[0.0; 2])?, buffer(&[0.0; 3])?);
    /// device.linear_backward(LinearBackward {
    ///     shape: LinearShape { rows: 1, inputs: 2, outputs: 1 },
    ///     x: &buffer(&[1.0, 2.0])?,
    ///     parameters: &buffer(&[3.0, 4.0, 0.5])?,
    ///     at: LinearAt { weight: 0, bias: Some(2) },
    ///     packed: None,
    ///     dy: &buffer(&[10.0])?,
    ///     dx: Some((&mut dx, InputGradient::default())),
    ///     gradients: std::slice::from_mut(&mut gradient),
    /// })?;
    /// assert_eq!(dx.to_vec()?, [30.0, 40.0]);
    /// assert_eq!(gradient.to_vec()?, [10.0, 20.0, 10.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn linear_backward(&self, args: LinearBackward) -> Result {
        let check = Check::new("linear_backward", self);
        let LinearShape { rows, inputs, outputs } = args.shape;
        check.rows("x", args.x, rows, inputs)?;
        check.buffer("parameters", args.parameters, args.at.end(args.shape))?;
        check.packed(args.packed, args.shape)?;
        for gradient in &*args.gradients {
            check.buffer("gradients", gradient, args.at.end(args.shape))?;
        }
        check.rows("dy", args.dy, rows, outputs)?;
        if let Some((dx, _)) = &args.dx {
            check.rows("dx", dx, rows, inputs)?;
        }
        self.backend().linear_backward(args)
    }
}
