//! Cross layers: `h = v·x`, `z = w·h + b`, `out = x0 ⊙ z + x`; at full rank `z = w·x + b`.
//!
//! As a chain of linear layers, cross layers give the bits of their parts one by one, and threads need not meet after every
//! part.

use super::chain::{CHAIN_LAYERS, apart, reads};
use super::{Check, Result, size};
use crate::{Buffer, ChainLayer, Device, KernelError, Space};

/// Linear maps of a cross layer. Neither has an activation, whatever it says.
#[derive(Clone, Copy, Debug)]
pub struct CrossMaps<'a> {
    /// Map to the inner vector; `None` at full rank.
    pub v: Option<ChainLayer<'a>>,
    /// Map of the inner vector, or of the input, to the width of the layer.
    pub w: ChainLayer<'a>,
}

/// Results of a cross layer's forward pass, which the backward pass reads.
#[derive(Debug)]
pub struct CrossKept {
    /// Inner vector of each sample, rows × rank; empty at full rank. Stored as the caller likes ([`Device::keeps_hidden`]), as are the gradients
    /// of `h` and `z` of a backward pass.
    pub h: Buffer<f32>,
    /// Result of the last map, rows × width.
    pub z: Buffer<f32>,
    /// Output of the layer, rows × width.
    pub output: Buffer<f32>,
}

impl CrossKept {
    /// Makes empty buffers in `space`.
    pub fn new(space: impl Into<Space>) -> Self {
        let space = space.into();
        Self { h: Buffer::new(&space), z: Buffer::new(&space), output: Buffer::new(&space) }
    }
}

/// Arguments of [`Device::cross_layers_forward`].
#[derive(Debug)]
pub struct CrossLayersForward<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Maps of each layer, first to last, at most [`CHAIN_LAYERS`].
    pub layers: &'a [CrossMaps<'a>],
    /// Input of the first of all cross layers, rows × width.
    pub x0: &'a Buffer<f32>,
    /// Input of the first of these layers, rows × width: `x0` where that is the first of all.
    pub x: &'a Buffer<f32>,
    /// Results of each layer, of their sizes.
    pub kept: &'a mut [CrossKept],
}

/// Arguments of [`Device::cross_layer_backward`].
#[derive(Debug)]
pub struct CrossLayerBackward<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Maps of the layer.
    pub maps: CrossMaps<'a>,
    /// Input of the first layer, rows × width.
    pub x0: &'a Buffer<f32>,
    /// Input of this layer, rows × width; `x0` if it is the first.
    pub x: &'a Buffer<f32>,
    /// Results of the layer's forward pass.
    pub kept: &'a CrossKept,
    /// Gradient of the layer's output, rows × width.
    pub gradient: &'a mut Buffer<f32>,
    /// Receives the gradient of `z`, rows × width.
    pub dz: &'a mut Buffer<f32>,
    /// Receives the gradient of `h`, rows × rank; untouched at full rank.
    pub dh: &'a mut Buffer<f32>,
    /// What happens to the gradients of `x` and `x0`.
    pub inputs: CrossInputs<'a>,
    /// Buffers that receive the gradients of the maps' parameters, as in [`ChainBackward`](crate::ChainBackward).
    pub gradients: &'a mut [Buffer<f32>],
}

/// What happens to the gradients of a cross layer's inputs. The sums are the same, in the same order.
#[derive(Debug)]
pub enum CrossInputs<'a> {
    /// Shares of `x0` are added up layer by layer, and the gradient of the output becomes that of the input, but for that share.
    Summed {
        /// Gradient of `x0`, rows × width.
        dx0: &'a mut Buffer<f32>,
        /// Whether the gradient of `x0` is added to what is there.
        accumulate: bool,
        /// Whether the layer is the first: then the gradient of its input is added to that of `x0`.
        first: bool,
    },
    /// The gradient of the output stays, and [`Device::cross_x0_gradient`] adds up the shares of `x0` of all layers in one go: memory
    /// against passes over it.
    Kept {
        /// Receives the gradient of the layer's input, but for the share of `x0`; rows × width.
        dx: &'a mut Buffer<f32>,
    },
}

/// Arguments of [`Device::cross_layers_backward`].
#[derive(Debug)]
pub struct CrossLayersBackward<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Maps of each layer, first to last, at most [`CHAIN_LAYERS`].
    pub layers: &'a [CrossMaps<'a>],
    /// Input of the first layer, rows × width.
    pub x0: &'a Buffer<f32>,
    /// Results of each layer's forward pass.
    pub kept: &'a [CrossKept],
    /// Room for rows × width floats, then the gradient of each layer's output, of which the last is given.
    pub of_outputs: &'a mut [Buffer<f32>],
    /// Room for gradients of `z`, rows × width.
    pub dz: &'a mut Buffer<f32>,
    /// Room for gradients of `h`, rows × rank; untouched at full rank.
    pub dh: &'a mut Buffer<f32>,
    /// Receives the gradient of `x0`, rows × width.
    pub dx0: &'a mut Buffer<f32>,
    /// Buffers that receive the gradients of the maps' parameters, as in [`ChainBackward`](crate::ChainBackward).
    pub gradients: &'a mut [Buffer<f32>],
}

/// Arguments of [`Device::cross_x0_gradient`].
#[derive(Debug)]
pub struct CrossX0Gradient<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Columns of `x0`.
    pub width: usize,
    /// Results of each layer's forward pass, first to last.
    pub kept: &'a [CrossKept],
    /// Gradient of each layer's output, first to last; rows × width.
    pub gradients: &'a [Buffer<f32>],
    /// Gradient of the first layer's input but for the share of `x0`, rows × width.
    pub dx: &'a Buffer<f32>,
    /// Room for rows × width floats.
    pub room: &'a mut Buffer<f32>,
    /// Receives the gradient of `x0`, rows × width.
    pub dx0: &'a mut Buffer<f32>,
}

impl Device {
    /// Cross layers one after the other: `out = x0 ⊙ (w·(v·x) + b) + x`, where `x` is the output of the layer before.
    ///
    /// ```
    /// use kernels::{Buffer, ChainLayer, CrossKept, CrossLayersForward, CrossMaps, Device, LinearAt};
    /// let device = Device::cpu(1)?;
    /// let (parameters, at) = (Buffer::from_slice(&device, &[3.0])?, LinearAt { weight: 0, bias: None });
    /// let activation = ground::Activation::Identity;
    /// let (inputs, outputs, packed) = (1, 1, None);
    /// let w = ChainLayer { inputs, outputs, activation, parameters: &parameters, at, packed };
    /// let (x0, mut kept) = (Buffer::from_slice(&device, &[2.0])?, CrossKept::new(&device));
    /// kept.z.resize(1)?;
    /// kept.output.resize(1)?;
    /// device.cross_layers_forward(CrossLayersForward {
    ///     rows: 1,
    ///     layers: &[CrossMaps { v: None, w }],
    ///     x0: &x0,
    ///     x: &x0,
    ///     kept: std::slice::from_mut(&mut kept),
    /// })?;
    /// assert_eq!((kept.z.to_vec()?, kept.output.to_vec()?), (vec![6.0], vec![2.0 * 6.0 + 2.0]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn cross_layers_forward(&self, args: CrossLayersForward) -> Result {
        let op = "cross_layers_forward";
        let check = Check::new(op, self);
        let CrossLayersForward { rows, layers, x0, x, kept } = &args;
        if layers.len() > CHAIN_LAYERS {
            let what = "most layers of a chain";
            return Err(KernelError::Mismatch { op, what, expected: CHAIN_LAYERS, got: layers.len() });
        }
        let width = layers.first().map_or(0, |layer| layer.w.outputs);
        check.rows("x0", x0, *rows, width)?;
        check.rows("x", x, *rows, width)?;
        check.count("kept", layers.len(), kept.len())?;
        for (maps, kept) in layers.iter().zip(&**kept) {
            maps.check(&check, op, *rows, width)?;
            kept.check(&check, *rows, maps)?;
        }
        if layers.is_empty() { Ok(()) } else { self.backend().cross_layers_forward(args) }
    }

    /// Gradients of one cross layer, with `g` the gradient of its output: `dz = g ⊙ x0`, `dx0 (+)= g ⊙ z`, `dh = dz·w`,
    /// `g += dh·v` (at full rank `g += dz·w`), and those of the maps' parameters; `dx0 += g` if the layer is the first.
    ///
    /// ```
    /// use kernels::{Buffer, ChainLayer, CrossInputs, CrossKept, CrossLayerBackward, CrossMaps, Device, LinearAt};
    /// let device = Device::cpu(1)?;
    /// let buffer = |value: f32| Buffer::from_slice(&device, &[value]);
    /// let (parameters, at) = (buffer(3.0)?, LinearAt { weight: 0, bias: None });
    /// let activation = ground::Activation::Identity;
    /// let (inputs, outputs, packed) = (1, 1, None);
    /// let w = ChainLayer { inputs, outputs, activation, parameters: &parameters, at, packed };
    /// let (x0, kept) = (buffer(2.0)?, CrossKept { h: buffer(0.0)?, z: buffer(6.0)?, output: buffer(14.0)? });
    /// let [mut gradient, mut dz, mut dh, mut dx0, mut dw] =
    ///     [buffer(1.0)?, buffer(0.0)?, buffer(0.0)?, buffer(0.0)?, buffer(0.0)?];
    /// device.cross_layer_backward(CrossLayerBackward {
    ///     rows: 1,
    ///     maps: CrossMaps { v: None, w },
    ///     x0: &x0,
    ///     x: &x0,
    ///     kept: &kept,
    ///     gradient: &mut gradient,
    ///     dz: &mut dz,
    ///     dh: &mut dh,
    ///     inputs: CrossInputs::Summed { dx0: &mut dx0, accumulate: false, first: true },
    ///     gradients: std::slice::from_mut(&mut dw),
    /// })?;
    /// // The derivative of 3·x² + x at 2, and that by the weight.
    /// assert_eq!((dx0.to_vec()?, dw.to_vec()?), (vec![13.0], vec![4.0]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn cross_layer_backward(&self, args: CrossLayerBackward) -> Result {
        let op = "cross_layer_backward";
        let check = Check::new(op, self);
        let CrossLayerBackward { rows, maps, .. } = args;
        let width = maps.w.outputs;
        maps.check(&check, op, rows, width)?;
        args.kept.check(&check, rows, &maps)?;
        for (operand, buffer) in [("x0", args.x0), ("x", args.x), ("gradient", &*args.gradient)] {
            check.rows(operand, buffer, rows, width)?;
        }
        reads(&check, &maps.w, args.dz)?;
        check.hidden("dz", args.dz, rows, width)?;
        match &args.inputs {
            CrossInputs::Summed { dx0, .. } => check.buffer("dx0", dx0, size([rows, width]))?,
            CrossInputs::Kept { dx } => check.rows("dx", dx, rows, width)?,
        }
        inner(&check, "dh", args.dh, rows, &maps)?;
        for map in maps.v.iter().chain([&maps.w]) {
            for gradient in &*args.gradients {
                check.buffer("gradients", gradient, map.at.end(map.shape(rows)))?;
            }
        }
        apart(op, maps.v.iter().chain([&maps.w]))?;
        self.backend().cross_layer_backward(args)
    }

    /// Gradients of all cross layers of a net: those of [`Device::cross_layer_backward`] for each layer, last first, whose gradients are
    /// kept, and in the end that of [`Device::cross_x0_gradient`].
    ///
    /// ```
    /// use kernels::{Buffer, ChainLayer, CrossKept, CrossLayersBackward, CrossMaps, Device, LinearAt};
    /// let device = Device::cpu(1)?;
    /// let buffer = |value: f32| Buffer::from_slice(&device, &[value]);
    /// let (parameters, at) = (buffer(3.0)?, LinearAt { weight: 0, bias: None });
    /// let activation = ground::Activation::Identity;
    /// let (inputs, outputs, packed) = (1, 1, None);
    /// let w = ChainLayer { inputs, outputs, activation, parameters: &parameters, at, packed };
    /// let kept = CrossKept { h: buffer(0.0)?, z: buffer(6.0)?, output: buffer(14.0)? };
    /// let [mut dz, mut dh, mut dx0, mut dw] = [buffer(0.0)?, buffer(0.0)?, buffer(0.0)?, buffer(0.0)?];
    /// device.cross_layers_backward(CrossLayersBackward {
    ///     rows: 1,
    ///     layers: &[CrossMaps { v: None, w }],
    ///     x0: &buffer(2.0)?,
    ///     kept: &[kept],
    ///     of_outputs: &mut [buffer(0.0)?, buffer(1.0)?],
    ///     dz: &mut dz,
    ///     dh: &mut dh,
    ///     dx0: &mut dx0,
    ///     gradients: std::slice::from_mut(&mut dw),
    /// })?;
    /// // The derivative of 3·x² + x at 2, and that by the weight.
    /// assert_eq!((dx0.to_vec()?, dw.to_vec()?), (vec![13.0], vec![4.0]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn cross_layers_backward(&self, args: CrossLayersBackward) -> Result {
        let op = "cross_layers_backward";
        let check = Check::new(op, self);
        let CrossLayersBackward { rows, layers, kept, .. } = args;
        if layers.len() > CHAIN_LAYERS {
            let what = "most layers of a chain";
            return Err(KernelError::Mismatch { op, what, expected: CHAIN_LAYERS, got: layers.len() });
        }
        let width = layers.first().map_or(0, |layer| layer.w.outputs);
        check.equal("kept", layers.len(), kept.len())?;
        check.equal("gradients of layers", layers.len() + 1, args.of_outputs.len())?;
        check.rows("x0", args.x0, rows, width)?;
        check.rows("dz", args.dz, rows, width)?;
        check.buffer("dx0", args.dx0, size([rows, width]))?;
        for gradient in &*args.of_outputs {
            check.rows("gradients of layers", gradient, rows, width)?;
        }
        for (maps, kept) in layers.iter().zip(kept) {
            maps.check(&check, op, rows, width)?;
            kept.check(&check, rows, maps)?;
            inner(&check, "dh", args.dh, rows, maps)?;
            for map in maps.v.iter().chain([&maps.w]) {
                for gradient in &*args.gradients {
                    check.buffer("gradients", gradient, map.at.end(map.shape(rows)))?;
                }
            }
        }
        apart(op, layers.iter().flat_map(|maps| maps.v.iter().chain([&maps.w])))?;
        if layers.is_empty() { Ok(()) } else { self.backend().cross_layers_backward(args) }
    }

    /// Gradient of `x0` of cross layers whose gradients were kept: `dx0 = Σ g ⊙ z + dx`, the last layer first, with `g` the gradient
    /// of a layer's output.
    ///
    /// ```
    /// use kernels::{Buffer, CrossKept, CrossX0Gradient, Device};
    /// let device = Device::cpu(1)?;
    /// let buffer = |value: f32| Buffer::from_slice(&device, &[value]);
    /// let kept = CrossKept { h: buffer(0.0)?, z: buffer(6.0)?, output: buffer(14.0)? };
    /// let (gradient, dx, [mut room, mut dx0]) = (buffer(1.0)?, buffer(7.0)?, [buffer(0.0)?, buffer(0.0)?]);
    /// device.cross_x0_gradient(CrossX0Gradient {
    ///     rows: 1,
    ///     width: 1,
    ///     kept: &[kept],
    ///     gradients: &[gradient],
    ///     dx: &dx,
    ///     room: &mut room,
    ///     dx0: &mut dx0,
    /// })?;
    /// assert_eq!(dx0.to_vec()?, [13.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn cross_x0_gradient(&self, args: CrossX0Gradient) -> Result {
        let check = Check::new("cross_x0_gradient", self);
        let CrossX0Gradient { rows, width, .. } = args;
        check.equal("gradients of layers", args.kept.len(), args.gradients.len())?;
        for (kept, gradient) in args.kept.iter().zip(args.gradients) {
            check.rows("z", &kept.z, rows, width)?;
            check.rows("gradients", gradient, rows, width)?;
        }
        check.rows("dx", args.dx, rows, width)?;
        check.rows("room", args.room, rows, width)?;
        check.buffer("dx0", args.dx0, size([rows, width]))?;
        self.backend().cross_x0_gradient(args)
    }
}

impl CrossMaps<'_> {
    fn check(&self, check: &Check, op: &'static str, rows: usize, width: usize) -> Result {
        let inner = self.v.map_or(width, |v| v.outputs);
        let fit = [
            ("width of a cross layer", width, self.w.outputs),
            ("inputs of w", inner, self.w.inputs),
            ("inputs of v", width, self.v.map_or(width, |v| v.inputs)),
        ];
        for (what, expected, got) in fit {
            if expected != got {
                return Err(KernelError::Mismatch { op, what, expected, got });
            }
        }
        for map in self.v.iter().chain([&self.w]) {
            map.check(check, rows)?;
        }
        Ok(())
    }
}

impl CrossKept {
    fn check(&self, check: &Check, rows: usize, maps: &CrossMaps) -> Result {
        inner(check, "h", &self.h, rows, maps)?;
        check.rows("z", &self.z, rows, maps.w.outputs)?;
        check.rows("output", &self.output, rows, maps.w.outputs)
    }
}

/// Checks a buffer of inner vectors; at full rank there are none.
fn inner(
    check: &Check,
    operand: &'static str,
    buffer: &Buffer<f32>,
    rows: usize,
    maps: &CrossMaps,
) -> Result {
    let Some(v) = maps.v else { return check.buffer(operand, buffer, 0) };
    reads(check, &v, buffer)?;
    reads(check, &maps.w, buffer)?;
    check.hidden(operand, buffer, rows, v.outputs)
}
