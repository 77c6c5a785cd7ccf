//! Sources of all kernels. A file is a module of its own; headers stand before it, since NVRTC may find no include files.

use super::compile::Source;

const COMMON: &str = include_str!("kernels/common.cuh");

/// All modules.
pub(crate) const SOURCES: &[Source] =
    &[Source { name: "memory.cu", parts: &[COMMON, include_str!("kernels/memory.cu")] }];
