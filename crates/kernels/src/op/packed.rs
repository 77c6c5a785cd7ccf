//! Matrices of linear maps as the products of a device read them fastest.
//!
//! Products of a CPU read their operands in tiles of their own order, and some of a GPU's in tf32 read the matrix turned. A matrix that many
//! products read is brought into that order once, whenever its weights have changed, instead of once for each product.

use super::{Check, Result};
use crate::memory::Space;
use crate::{Buffer, Device, LinearAt, LinearShape};
use ground::precision::Precision;

/// Matrix of a linear map as the products of a device read it fastest; empty where the device reads the matrix itself.
///
/// A CPU gives the same bits with a packed matrix and without. A GPU that stores the output as bf16 packs the bias too, and adds it as
/// bf16 if it is packed; in tf32 it has another order of sums. A matrix that was packed for another precision or for other instructions than the device's is
/// ignored. The caller packs again whenever the weights have changed: [`Device::pack_linear`].
#[derive(Debug)]
pub struct PackedLinear {
    /// Panels of the forward product, and behind them those of the product that gives the input's gradient.
    pub(crate) panels: Buffer<u16>,
    /// What is packed; `None` if nothing is.
    pub(crate) made: Option<Packing>,
}

/// What a [`PackedLinear`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) precision: Precision,
    /// Instructions that the products of a CPU are made of, on which the order depends; empty for a GPU.
    pub(crate) instructions: &'static str,
    /// Whether the panels of the input's gradient are there too.
    pub(crate) backward: bool,
}

impl PackedLinear {
    /// Makes an empty packed matrix in `space`; allocates nothing.
    pub fn new(space: impl Into<Space>) -> Self {
        Self { panels: Buffer::new(space), made: None }
    }

    /// Whether nothing is packed.
    pub fn is_empty(&self) -> bool {
        self.made.is_none()
    }

    /// Bytes that the packed matrix takes.
    pub fn bytes(&self) -> usize {
        self.made.map_or(0, |_| self.panels.len() * size_of::<u16>())
    }

    /// Forgets what is packed, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.made = None;
    }
}

/// Arguments of [`Device::pack_linear`].
#[derive(Debug)]
pub struct PackLinear<'a> {
    /// Sizes of the map; the number of rows does not matter.
    pub shape: LinearShape,
    /// Buffer that holds the matrix.
    pub parameters: &'a Buffer<f32>,
    /// Offsets of matrix and bias in `parameters`.
    pub at: LinearAt,
    /// Whether [`Device::linear_backward`] is going to read the packed matrix too.
    pub backward: bool,
    /// Whether a ReLU masks the gradient of the map's input.
    pub masked: bool,
    /// Receives the packed matrix, or becomes empty where the device reads the matrix itself.
    pub packed: &'a mut PackedLinear,
}

impl Check<'_> {
    /// Refuses a packed matrix of another device, or of other sizes.
    pub(crate) fn packed(&self, packed: Option<&PackedLinear>, shape: LinearShape) -> Result {
        let Some((packed, made)) = packed.and_then(|packed| Some((packed, packed.made?))) else {
            return Ok(());
        };
        self.buffer("packed", &packed.panels, 0)?;
        self.equal("inputs of the packed matrix", shape.inputs, made.inputs)?;
        self.equal("outputs of the packed matrix", shape.outputs, made.outputs)
    }
}

impl Device {
    /// Brings the matrix of a linear map into the order that products of this device, in its precision, read fastest. To be
    /// called whenever the weights have changed, or the precision.
    ///
    /// ```
    /// use kernels::{Buffer, Device, LinearAt, LinearShape, PackLinear, PackedLinear};
    /// let device = Device::cpu(1)?;
    /// let parameters = Buffer::from_slice(&device, &[3.0, 4.0])?;
    /// let mut packed = PackedLinear::new(&device);
    /// device.pack_linear(PackLinear {
    ///     shape: LinearShape { rows: 0, inputs: 1, outputs: 2 },
    ///     parameters: &parameters,
    ///     at: LinearAt { weight: 0, bias: None },
    ///     backward: true,
    ///     masked: false,
    ///     packed: &mut packed,
    /// })?;
    /// assert!(packed.bytes() >= 2 * 4); // Each output has its place in a tile.
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn pack_linear(&self, args: PackLinear) -> Result {
        self.pack_linears(&mut [args])
    }

    /// As [`Device::pack_linear`], for the matrices of several maps at once.
    pub fn pack_linears(&self, maps: &mut [PackLinear]) -> Result {
        let check = Check::new("pack_linear", self);
        for PackLinear { shape, parameters, at, packed, .. } in &*maps {
            check.buffer("parameters", parameters, at.end(*shape))?;
            check.buffer("packed", &packed.panels, 0)?;
        }
        self.backend().pack_linears(maps)
    }
}
