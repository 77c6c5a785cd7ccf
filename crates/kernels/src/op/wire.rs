//! Operations on data that ranks exchange: blocks put in another order.

use super::{Check, Result};
use crate::{Buffer, Device, Element};

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

impl Device {
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
