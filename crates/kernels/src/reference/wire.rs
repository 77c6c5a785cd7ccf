//! Blocks of elements in another order.

use crate::BlockCopy;

/// Copies blocks of elements of `size` bytes: `to[b.to + i] = from[b.from + i]` for every block `b`.
pub fn copy_blocks(blocks: &[BlockCopy], size: usize, from: &[u8], to: &mut [u8]) {
    for BlockCopy { from: at, to: place, len } in blocks {
        to[place * size..][..len * size].copy_from_slice(&from[at * size..][..len * size]);
    }
}
