//! Sources of all kernels. A file is a module of its own; headers stand before it, since NVRTC may find no include files.

use super::compile::Source;

const COMMON: &str = include_str!("kernels/common.cuh");
const RULES: &str = include_str!("kernels/rules.cuh");
const TABLES: &str = include_str!("kernels/tables.cuh");
const RUNS: &str = include_str!("kernels/runs.cuh");

/// All modules.
pub(crate) const SOURCES: &[Source] = &[
    Source { name: "codec.cu", parts: &[COMMON, include_str!("kernels/codec.cu")] },
    Source { name: "dense.cu", parts: &[COMMON, include_str!("kernels/dense.cu")] },
    Source { name: "interaction.cu", parts: &[COMMON, include_str!("kernels/interaction.cu")] },
    Source { name: "optimizer.cu", parts: &[COMMON, RULES, include_str!("kernels/optimizer.cu")] },
    Source { name: "draw.cu", parts: &[COMMON, include_str!("kernels/draw.cu")] },
    Source { name: "index.cu", parts: &[COMMON, TABLES, include_str!("kernels/index.cu")] },
    Source { name: "sort.cu", parts: &[COMMON, TABLES, include_str!("kernels/sort.cu")] },
    Source { name: "lookup.cu", parts: &[COMMON, TABLES, include_str!("kernels/lookup.cu")] },
    Source { name: "update.cu", parts: &[COMMON, RULES, TABLES, RUNS, include_str!("kernels/update.cu")] },
    Source { name: "rows.cu", parts: &[COMMON, RULES, TABLES, RUNS, include_str!("kernels/rows.cu")] },
    Source { name: "memory.cu", parts: &[COMMON, include_str!("kernels/memory.cu")] },
    Source { name: "peak.cu", parts: &[COMMON, TABLES, include_str!("kernels/peak.cu")] },
];
