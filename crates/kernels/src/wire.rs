//! Operations on what travels: formats of the wire, and blocks put in another order.

use crate::device::size;
use crate::error::need;
use crate::{Buffer, Device, Element, KernelError, cpu, reference};
use spec::wire::Format;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// A run of elements copied from one buffer to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    /// First element in the source.
    pub from: usize,
    /// First element in the destination.
    pub to: usize,
    /// Elements.
    pub len: usize,
}

impl Device {
    /// `to[block.to + i] = from[block.from + i]` in a format of 16 bits, rounded to the nearest, ties to even. NaN stays NaN,
    /// and what f16 cannot hold becomes infinite.
    pub fn encode(
        &self,
        format: Format,
        block: BlockCopy,
        from: &Buffer<f32>,
        to: &mut Buffer<u16>,
    ) -> Result {
        check("encode", format, block, from.len(), to.len())?;
        let from = &from.host()[block.from..][..block.len];
        let to = &mut to.host_mut()[block.to..][..block.len];
        match self {
            Device::Reference => reference::wire::encode(format, from, to),
            Device::Cpu(cpu) => cpu::wire::encode(cpu, format, from, to),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The other way: `to[block.to + i]` becomes the float that `from[block.from + i]` stands for.
    pub fn decode(
        &self,
        format: Format,
        block: BlockCopy,
        from: &Buffer<u16>,
        to: &mut Buffer<f32>,
    ) -> Result {
        check("decode", format, block, from.len(), to.len())?;
        let from = &from.host()[block.from..][..block.len];
        let to = &mut to.host_mut()[block.to..][..block.len];
        match self {
            Device::Reference => reference::wire::decode(format, from, to),
            Device::Cpu(cpu) => cpu::wire::decode(cpu, format, from, to),
            Device::Idle => {}
        }
        Ok(())
    }

    /// As [`Device::sum_blocks`], of blocks that are encoded: each is decoded, and the sum is in single precision.
    pub fn sum_encoded(
        &self,
        format: Format,
        count: usize,
        len: usize,
        blocks: &Buffer<u16>,
        out: &mut Buffer<f32>,
        out_at: usize,
    ) -> Result {
        const OP: &str = "sum_encoded";
        encodes(OP, format)?;
        need(OP, "blocks", size([count, len]), blocks.len())?;
        need(OP, "out", out_at.saturating_add(len), out.len())?;
        let (blocks, out) = (&blocks.host()[..count * len], &mut out.host_mut()[out_at..out_at + len]);
        match self {
            Device::Reference => reference::wire::sum_encoded(format, len, blocks, out),
            Device::Cpu(cpu) => cpu::wire::sum_encoded(cpu, format, len, blocks, out),
            Device::Idle => {}
        }
        Ok(())
    }

    /// Copies blocks: `to[b.to + i] = from[b.from + i]` for every block `b`. In `to` each begins at or behind the end of the one
    /// before.
    pub fn copy_blocks<T: Element>(
        &self,
        blocks: &[BlockCopy],
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result {
        const OP: &str = "copy_blocks";
        let mut end = 0;
        for block in blocks {
            need(OP, "the gap before a block", end, block.to)?;
            end = block.to.saturating_add(block.len);
            need(OP, "from", block.from.saturating_add(block.len), from.len())?;
            need(OP, "to", end, to.len())?;
        }
        let (from, to) = (from.host(), to.host_mut());
        match self {
            Device::Reference => {
                for BlockCopy { from: at, to: place, len } in blocks {
                    to[*place..place + len].copy_from_slice(&from[*at..at + len]);
                }
            }
            Device::Cpu(cpu) => cpu::wire::copy_blocks(cpu, blocks, from, to),
            Device::Idle => {}
        }
        Ok(())
    }
}

fn check(op: &'static str, format: Format, block: BlockCopy, from: usize, to: usize) -> Result {
    encodes(op, format)?;
    need(op, "from", block.from.saturating_add(block.len), from)?;
    need(op, "to", block.to.saturating_add(block.len), to)
}

/// Refuses a format in which floats stay as they are.
fn encodes(op: &'static str, format: Format) -> Result {
    let bytes = format.bytes() as usize;
    let what = "bytes of a float in the format";
    if format.encodes() { Ok(()) } else { Err(KernelError::Mismatch { op, what, expected: 2, got: bytes }) }
}
