//! Blocks of elements in another order.

use super::Cuda;
use super::memory::{CardMemory, Pointer};
use crate::op::Result;
use crate::{BlockCopy, Bytes};

/// Units that a CUDA block copies at a time.
const AT_ONCE: usize = 1024;

pub(super) fn copy_blocks(
    cuda: &Cuda,
    blocks: &[BlockCopy],
    size: usize,
    from: &Bytes,
    to: &mut Bytes,
) -> Result {
    let address = |bytes: &Bytes| bytes.memory.card().map_or(Pointer::NULL, CardMemory::address);
    let (from, to) = (address(from), address(to));
    let blocks: Vec<[usize; 3]> = blocks
        .iter()
        .filter(|block| block.len > 0)
        .map(|block| [block.from * size, block.to * size, block.len * size])
        .collect();
    if let [[at, place, len]] = *blocks {
        return cuda.stream().copy(to.plus(place).0, from.plus(at).0, len);
    }
    let unit = unit(&blocks);
    let mut before = 0;
    let mut list: Vec<[u64; 3]> = Vec::with_capacity(blocks.len() + 1);
    for [from, to, len] in &blocks {
        list.push([from / unit, to / unit, before].map(|units| units as u64));
        before += len / unit;
    }
    list.push([0, 0, before as u64]);
    let kernel = match unit {
        1 => "copy_blocks_1",
        2 => "copy_blocks_2",
        4 => "copy_blocks_4",
        8 => "copy_blocks_8",
        _ => "copy_blocks_16",
    };
    cuda.kernel(kernel)
        .grid(before.div_ceil(AT_ONCE).min(cuda.most_blocks()))
        .arg(cuda.transient(&list)?)
        .arg(blocks.len() as u32)
        .arg(from)
        .arg(to)
        .launch()
}

/// Largest number of bytes, up to 16, of which all offsets and lengths are multiples.
pub fn unit(blocks: &[[usize; 3]]) -> usize {
    let all = blocks.iter().flatten().fold(16, |all, bytes| all | bytes);
    1 << all.trailing_zeros()
}
