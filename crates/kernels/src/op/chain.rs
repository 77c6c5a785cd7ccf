//! Chains of linear layers: `x₁ = act₁(x·w₁ᵀ + b₁)`, `x₂ = act₂(x₁·w₂ᵀ + b₂)` …, and the gradients of all operands.
//!
//! A chain gives the bits of its layers one by one; where buffers between layers store bf16, values are rounded on their way. It is an operation of its own so that threads need not meet after every
//! layer: each takes samples through all of them.

use super::{Check, Result};
use crate::{Buffer, Device, InputGradient, KernelError, LinearAt, LinearShape, PackedLinear, Stored};
use ground::Activation;

/// The most layers of a chain.
pub const CHAIN_LAYERS: usize = 8;

/// Linear layer of a chain.
#[derive(Clone, Copy, Debug)]
pub struct ChainLayer<'a> {
    /// Width of the input: for every layer but the first the width of the output below.
    pub inputs: usize,
    /// Width of the output.
    pub outputs: usize,
    /// Activation applied to the sum.
    pub activation: Activation,
    /// Buffer that holds matrix and bias.
    pub parameters: &'a Buffer<f32>,
    /// Offsets of matrix and bias in `parameters`.
    pub at: LinearAt,
    /// The matrix as the device reads it fastest; `None` if it was not packed.
    pub packed: Option<&'a PackedLinear>,
}

/// Arguments of [`Device::chain_forward`].
#[derive(Debug)]
pub struct ChainForward<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Layers of the chain, first to last, at most [`CHAIN_LAYERS`].
    pub layers: &'a [ChainLayer<'a>],
    /// Input of the first layer, rows × inputs.
    pub x: &'a Buffer<f32>,
    /// Output of each layer, rows × outputs; stored as the caller likes ([`Device::keeps_hidden`]).
    pub outputs: &'a mut [Buffer<f32>],
}

/// Arguments of [`Device::chain_backward`].
#[derive(Debug)]
pub struct ChainBackward<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Layers of the chain, first to last, at most [`CHAIN_LAYERS`].
    pub layers: &'a [ChainLayer<'a>],
    /// Input of the first layer in the forward pass, rows × inputs.
    pub x: &'a Buffer<f32>,
    /// Output of each layer in the forward pass, rows × outputs.
    pub outputs: &'a [Buffer<f32>],
    /// Gradient of each layer's output before its activation, rows × outputs. The last one is an input, the others are filled.
    pub output_gradients: &'a mut [Buffer<f32>],
    /// Whether the last gradient is that of the output after the activation: then it becomes the one before it.
    pub activated: bool,
    /// Gradient of `x`, rows × inputs, and how it is stored; `None` if nothing needs it.
    pub dx: Option<(&'a mut Buffer<f32>, InputGradient)>,
    /// Buffers that receive the gradients of all matrices and biases, where these lie in `parameters`: one for all samples or,
    /// where samples are cut into equal [`share`](ground::share)s, one for each share, over the samples of that
    /// share alone.
    pub gradients: &'a mut [Buffer<f32>],
}

impl ChainLayer<'_> {
    /// Sizes of the layer for so many samples.
    pub(crate) fn shape(&self, rows: usize) -> LinearShape {
        LinearShape { rows, inputs: self.inputs, outputs: self.outputs }
    }

    /// Refuses parameters that are too short, and a packed matrix of another device or of other sizes.
    pub(crate) fn check(&self, check: &Check, rows: usize) -> Result {
        let shape = self.shape(rows);
        check.buffer("parameters", self.parameters, self.at.end(shape))?;
        check.packed(self.packed, shape)
    }

    /// Whether negative sums become zero.
    pub(crate) fn relu(&self) -> bool {
        self.activation == Activation::Relu
    }
}

impl Device {
    /// Linear layers one after the other, as [`Device::linear_forward`] computes each.
    ///
    /// ```
    /// use kernels::{Buffer, ChainForward, ChainLayer, Device, LinearAt};
    /// let device = Device::cpu(1)?;
    /// let parameters = Buffer::from_slice(&device, &[3.0, 4.0, 10.0])?;
    /// let layer = |inputs, weight, activation| {
    ///     let at = LinearAt { weight, bias: None };
    ///     ChainLayer { inputs, outputs: 1, activation, parameters: &parameters, at, packed: None }
    /// };
    /// let mut outputs = [Buffer::zeroed(&device, 1)?, Buffer::zeroed(&device, 1)?];
    /// device.chain_forward(ChainForward {
    ///     rows: 1,
    ///     layers: &[layer(2, 0, ground::Activation::Relu), layer(1, 2, ground::Activation::Identity)],
    ///     x: &Buffer::from_slice(&device, &[1.0, 2.0])?,
    ///     outputs: &mut outputs,
    /// })?;
    /// assert_eq!(outputs[0].to_vec()?, [1.0 * 3.0 + 2.0 * 4.0]);
    /// assert_eq!(outputs[1].to_vec()?, [11.0 * 10.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn chain_forward(&self, args: ChainForward) -> Result {
        let check = Check::new("chain_forward", self);
        check_layers(&check, "chain_forward", args.rows, args.layers, args.x)?;
        check_each(&check, "outputs", args.rows, args.layers, args.outputs)?;
        if args.layers.is_empty() { Ok(()) } else { self.backend().chain_forward(args) }
    }

    /// Gradients of [`Device::chain_forward`], layer by layer from the last, as [`Device::linear_backward`] computes each.
    ///
    /// ```
    /// use kernels::{Buffer, ChainBackward, ChainLayer, Device, LinearAt};
    /// let device = Device::cpu(1)?;
    /// let buffer = |values: &[f32]| Buffer::from_slice(&device, values);
    /// let parameters = buffer(&[3.0, 4.0, 10.0])?;
    /// let layer = |inputs, weight, activation| {
    ///     let at = LinearAt { weight, bias: None };
    ///     ChainLayer { inputs, outputs: 1, activation, parameters: &parameters, at, packed: None }
    /// };
    /// let mut output_gradients = [buffer(&[0.0])?, buffer(&[1.0])?];
    /// let mut gradient = buffer(&[0.0; 3])?;
    /// device.chain_backward(ChainBackward {
    ///     rows: 1,
    ///     layers: &[layer(2, 0, ground::Activation::Relu), layer(1, 2, ground::Activation::Identity)],
    ///     x: &buffer(&[1.0, 2.0])?,
    ///     outputs: &[buffer(&[11.0])?, buffer(&[110.0])?],
    ///     output_gradients: &mut output_gradients,
    ///     activated: true,
    ///     dx: None,
    ///     gradients: std::slice::from_mut(&mut gradient),
    /// })?;
    /// assert_eq!(output_gradients[0].to_vec()?, [10.0]);
    /// assert_eq!(gradient.to_vec()?, [10.0, 20.0, 11.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn chain_backward(&self, args: ChainBackward) -> Result {
        let check = Check::new("chain_backward", self);
        let ChainBackward { rows, layers, .. } = args;
        check_layers(&check, "chain_backward", rows, layers, args.x)?;
        check_each(&check, "outputs", rows, layers, args.outputs)?;
        check_each(&check, "output_gradients", rows, layers, args.output_gradients)?;
        for (gradient, layer) in args.gradients.iter().flat_map(|g| layers.iter().map(move |l| (g, l))) {
            check.buffer("gradients", gradient, layer.at.end(layer.shape(rows)))?;
        }
        apart("chain_backward", layers.iter())?;
        if let (Some((dx, into)), Some(first)) = (&args.dx, layers.first()) {
            if into.accumulate {
                // Sums are not rounded on their way.
                check.rows("dx", dx, rows, first.inputs)?;
            }
            reads(&check, first, dx)?;
            check.hidden("dx", dx, rows, first.inputs)?;
        }
        if let (Some(last), true) = (layers.last(), args.activated) {
            for (operand, buffers) in
                [("outputs", args.outputs), ("output_gradients", &*args.output_gradients)]
            {
                check.rows(operand, &buffers[layers.len() - 1], rows, last.outputs)?;
            }
        }
        if layers.is_empty() { Ok(()) } else { self.backend().chain_backward(args) }
    }
}

/// Refuses chains that are too long, layers that do not fit each other, and parameters and inputs that are too short.
fn check_layers(
    check: &Check,
    op: &'static str,
    rows: usize,
    layers: &[ChainLayer],
    x: &Buffer<f32>,
) -> Result {
    if layers.len() > CHAIN_LAYERS {
        let what = "most layers of a chain";
        return Err(KernelError::Mismatch { op, what, expected: CHAIN_LAYERS, got: layers.len() });
    }
    for layer in layers {
        layer.check(check, rows)?;
    }
    for pair in layers.windows(2) {
        let (expected, got) = (pair[0].outputs, pair[1].inputs);
        if expected != got {
            return Err(KernelError::Mismatch { op, what: "inputs of a layer", expected, got });
        }
    }
    let Some(first) = layers.first() else { return Ok(()) };
    reads(check, first, x)?;
    check.hidden("x", x, rows, first.inputs)
}

/// Refuses panels of bf16 as the input or output of a layer with one output, which reads and writes floats.
pub(crate) fn reads(check: &Check, layer: &ChainLayer, x: &Buffer<f32>) -> Result {
    match x.stored() {
        Stored::Bf16Panels { .. } if layer.outputs == 1 => Err(KernelError::StoredAsRows { op: check.op }),
        _ => Ok(()),
    }
}

/// Refuses layers whose parameters overlap: several threads write the gradients of all at once.
pub(crate) fn apart<'a>(
    op: &'static str,
    layers: impl Iterator<Item = &'a ChainLayer<'a>> + Clone,
) -> Result {
    let range = |layer: &ChainLayer| (layer.at.weight, layer.at.end(layer.shape(0)));
    for (i, (first, end)) in layers.clone().map(range).enumerate() {
        for (from, to) in layers.clone().skip(i + 1).map(range) {
            if from < end && first < to {
                let (expected, got) = if first <= from { (end, from) } else { (to, first) };
                return Err(KernelError::Mismatch {
                    op,
                    what: "start of a layer's parameters",
                    expected,
                    got,
                });
            }
        }
    }
    Ok(())
}

/// Refuses fewer buffers than layers, and buffers that are shorter than their layer's output.
fn check_each(
    check: &Check,
    operand: &'static str,
    rows: usize,
    layers: &[ChainLayer],
    buffers: &[Buffer<f32>],
) -> Result {
    check.count(operand, layers.len(), buffers.len())?;
    for (i, (layer, buffer)) in layers.iter().zip(buffers).enumerate() {
        // What a layer writes, the one above reads.
        for reader in [Some(layer), layers.get(i + 1)].into_iter().flatten() {
            reads(check, reader, buffer)?;
        }
        check.hidden(operand, buffer, rows, layer.outputs)?;
    }
    Ok(())
}
