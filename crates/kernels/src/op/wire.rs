//! Operations on data that ranks exchange: floats encoded in 16 bits, and blocks put in another order.

use super::{Check, Result, size};
use crate::{Buffer, Device, Element, KernelError};
use spec::codec::Codec;

/// Copy of a block: a run of elements from one buffer to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    /// First element in the source.
    pub from: usize,
    /// First element in the destination.
    pub to: usize,
    /// Number of elements.
    pub len: usize,
}

/// Wire format of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfFormat {
    /// IEEE half precision: 11 significant bits, beyond ±65504 infinite.
    F16,
    /// bfloat16, the upper half of an f32: 8 significant bits, the range of f32.
    Bf16,
}

impl HalfFormat {
    /// 16-bit format of a wire format; `None` for f32, which encodes nothing.
    ///
    /// ```
    /// use kernels::HalfFormat;
    /// use spec::codec::Codec;
    /// assert_eq!(HalfFormat::of(Codec::Bf16), Some(HalfFormat::Bf16));
    /// assert_eq!(HalfFormat::of(Codec::F32), None);
    /// ```
    pub fn of(format: Codec) -> Option<Self> {
        match format {
            Codec::F16 => Some(HalfFormat::F16),
            Codec::Bf16 => Some(HalfFormat::Bf16),
            _ => None,
        }
    }
}

/// Refuses a format in which floats stay as they are.
fn half(op: &'static str, format: Codec) -> Result<HalfFormat> {
    let (what, got) = ("bytes of a float in the format", format.encoded_bytes(1, 1) as usize);
    HalfFormat::of(format).ok_or(KernelError::Mismatch { op, what, expected: 2, got })
}

/// Arguments of [`Device::sum_encoded`].
#[derive(Debug)]
pub struct SumEncoded<'a> {
    /// Number of blocks.
    pub count: usize,
    /// Number of elements of a block.
    pub len: usize,
    /// Encoded blocks one behind the other.
    pub blocks: &'a Buffer<u16>,
    /// Buffer that receives the sums.
    pub out: &'a mut Buffer<f32>,
    /// First element of `out` that is written.
    pub out_at: usize,
}

impl Device {
    /// Encodes floats: `to[block.to + i] = from[block.from + i]` in a format of 16 bits, rounded to the nearest, ties to
    /// even. NaN stays NaN, and what f16 cannot hold becomes infinite.
    ///
    /// ```
    /// use kernels::{BlockCopy, Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[1.0, -2.0])?;
    /// let mut to = Buffer::zeroed(&device, 2)?;
    /// device.encode(spec::codec::Codec::F16, BlockCopy { from: 0, to: 0, len: 2 }, &from, &mut to)?;
    /// assert_eq!(to.to_vec()?, [0x3c00, 0xc000]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn encode(
        &self,
        format: Codec,
        block: BlockCopy,
        from: &Buffer<f32>,
        to: &mut Buffer<u16>,
    ) -> Result {
        const OP: &str = "encode";
        let format = half(OP, format)?;
        check_block(&Check::new(OP, self), block, from, to)?;
        self.backend().encode(format, block, from, to)
    }

    /// Decodes floats: `to[block.to + i]` becomes the float that the 16 bits `from[block.from + i]` stand for.
    ///
    /// ```
    /// use kernels::{BlockCopy, Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[0x3f80u16, 0xc000])?;
    /// let mut to = Buffer::zeroed(&device, 2)?;
    /// device.decode(spec::codec::Codec::Bf16, BlockCopy { from: 0, to: 0, len: 2 }, &from, &mut to)?;
    /// assert_eq!(to.to_vec()?, [1.0, -2.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn decode(
        &self,
        format: Codec,
        block: BlockCopy,
        from: &Buffer<u16>,
        to: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "decode";
        let format = half(OP, format)?;
        check_block(&Check::new(OP, self), block, from, to)?;
        self.backend().decode(format, block, from, to)
    }

    /// Ordered sum of encoded blocks: as [`Device::sum_blocks`], where each block is decoded; the sum is in single
    /// precision.
    ///
    /// ```
    /// use kernels::{Buffer, Device, SumEncoded};
    /// let device = Device::cpu(1)?;
    /// let blocks = Buffer::from_slice(&device, &[0x3f80u16, 0xc000])?;
    /// let mut out = Buffer::zeroed(&device, 1)?;
    /// let sum = SumEncoded { count: 2, len: 1, blocks: &blocks, out: &mut out, out_at: 0 };
    /// device.sum_encoded(spec::codec::Codec::Bf16, sum)?;
    /// assert_eq!(out.to_vec()?, [1.0 - 2.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn sum_encoded(&self, format: Codec, args: SumEncoded) -> Result {
        const OP: &str = "sum_encoded";
        let (format, check) = (half(OP, format)?, Check::new(OP, self));
        check.buffer("blocks", args.blocks, size([args.count, args.len]))?;
        check.buffer("out", args.out, args.out_at.saturating_add(args.len))?;
        self.backend().sum_encoded(format, args)
    }

    /// Copies blocks: `to[b.to + i] = from[b.from + i]` for every block `b`. In `to` each block begins at or behind the end
    /// of the one before.
    ///
    /// ```
    /// use kernels::{BlockCopy, Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[1u32, 2, 3])?;
    /// let mut to = Buffer::zeroed(&device, 3)?;
    /// let swapped = [BlockCopy { from: 1, to: 0, len: 2 }, BlockCopy { from: 0, to: 2, len: 1 }];
    /// device.copy_blocks(&swapped, &from, &mut to)?;
    /// assert_eq!(to.to_vec()?, [2, 3, 1]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn copy_blocks<T: Element>(
        &self,
        blocks: &[BlockCopy],
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result {
        let check = Check::new("copy_blocks", self);
        check.buffer("from", from, 0)?;
        check.buffer("to", to, 0)?;
        let mut end = 0;
        for block in blocks {
            check.count("the gap before a block", end, block.to)?;
            end = block.to.saturating_add(block.len);
            check.count("from", block.from.saturating_add(block.len), from.len())?;
            check.count("to", end, to.len())?;
        }
        self.backend().copy_blocks(blocks, size_of::<T>(), &from.bytes, &mut to.bytes)
    }
}

fn check_block<A: Element, B: Element>(
    check: &Check,
    block: BlockCopy,
    from: &Buffer<A>,
    to: &Buffer<B>,
) -> Result {
    check.buffer("from", from, block.from.saturating_add(block.len))?;
    check.buffer("to", to, block.to.saturating_add(block.len))
}
