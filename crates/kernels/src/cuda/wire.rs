//! Blocks of bytes.

use super::Cuda;
use crate::op::Result;
use crate::{BlockCopy, Bytes, KernelError};

pub(super) fn copy_blocks(
    _cuda: &Cuda,
    _blocks: &[BlockCopy],
    _size: usize,
    _from: &Bytes,
    _to: &mut Bytes,
) -> Result {
    Err(KernelError::Device("copy_blocks is not there yet".into()))
}
