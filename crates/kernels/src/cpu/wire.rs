//! Blocks of elements in another order; threads divide the blocks.
#![allow(unsafe_code)]

use super::Cpu;
use super::shared::Shared;
use crate::BlockCopy;

/// Copies blocks of elements of `size` bytes, which must not overlap in `to`; threads divide the blocks.
pub(crate) fn copy_blocks(cpu: &Cpu, blocks: &[BlockCopy], size: usize, from: &[u8], to: &mut [u8]) {
    let to = Shared::new(to);
    cpu.divide_finely(blocks.len(), 1, &|_, range| {
        for block in &blocks[range] {
            // SAFETY: blocks follow each other in `to`.
            let to = unsafe { to.piece(block.to * size..(block.to + block.len) * size) };
            to.copy_from_slice(&from[block.from * size..][..block.len * size]);
        }
    });
}
