//! Sources of all kernels. A file is a module of its own; headers stand before it, since NVRTC may find no include files.

use super::compile::Source;

const COMMON: &str = include_str!("kernels/common.cuh");
const NUMBERS: &str = include_str!("kernels/numbers.cuh");
const PASSES: &str = include_str!("kernels/passes.cuh");
const RULES: &str = include_str!("kernels/rules.cuh");
const HOPPER: &str = include_str!("kernels/hopper.cuh");
const VECTORS: &str = include_str!("kernels/vectors.cuh");
const TABLES: &str = include_str!("kernels/tables.cuh");
const FORMATS: &str = include_str!("kernels/formats.cuh");
const RUNS: &str = include_str!("kernels/runs.cuh");
const UPDATE: &str = include_str!("kernels/update.cuh");

/// Modules of all cards.
pub(crate) const SOURCES: &[Source] = &[
    Source { name: "codec.cu", parts: &[COMMON, include_str!("kernels/codec.cu")] },
    Source { name: "dense.cu", parts: &[COMMON, NUMBERS, PASSES, include_str!("kernels/dense.cu")] },
    Source { name: "linear.cu", parts: &[COMMON, NUMBERS, PASSES, include_str!("kernels/linear.cu")] },
    Source { name: "cross.cu", parts: &[COMMON, NUMBERS, include_str!("kernels/cross.cu")] },
    Source { name: "interaction.cu", parts: &[COMMON, include_str!("kernels/interaction.cu")] },
    Source { name: "optimizer.cu", parts: &[COMMON, RULES, include_str!("kernels/optimizer.cu")] },
    Source { name: "draw.cu", parts: &[COMMON, include_str!("kernels/draw.cu")] },
    Source { name: "index.cu", parts: &[COMMON, TABLES, include_str!("kernels/index.cu")] },
    Source { name: "sort.cu", parts: &[COMMON, TABLES, include_str!("kernels/sort.cu")] },
    Source {
        name: "lookup.cu",
        parts: &[COMMON, NUMBERS, TABLES, FORMATS, include_str!("kernels/lookup.cu")],
    },
    Source {
        name: "update.cu",
        parts: &[COMMON, RULES, TABLES, FORMATS, RUNS, UPDATE, include_str!("kernels/update.cu")],
    },
    Source {
        name: "update_formats.cu",
        parts: &[COMMON, RULES, TABLES, FORMATS, RUNS, UPDATE, include_str!("kernels/update_formats.cu")],
    },
    Source {
        name: "pairs.cu",
        parts: &[COMMON, NUMBERS, RULES, TABLES, FORMATS, RUNS, VECTORS, include_str!("kernels/pairs.cu")],
    },
    Source {
        name: "rows.cu",
        parts: &[COMMON, RULES, TABLES, FORMATS, RUNS, include_str!("kernels/rows.cu")],
    },
    Source { name: "row_copies.cu", parts: &[COMMON, include_str!("kernels/row_copies.cu")] },
    Source { name: "marks.cu", parts: &[COMMON, TABLES, include_str!("kernels/marks.cu")] },
    Source { name: "tensor_train.cu", parts: &[COMMON, TABLES, include_str!("kernels/tensor_train.cu")] },
    Source { name: "memory.cu", parts: &[COMMON, include_str!("kernels/memory.cu")] },
    Source { name: "peak.cu", parts: &[COMMON, TABLES, include_str!("kernels/peak.cu")] },
];

/// Modules of compute capability 9.0 alone, whose instructions no other has.
pub(crate) const HOPPER_SOURCES: &[Source] = &[
    Source { name: "gradient.cu", parts: &[COMMON, HOPPER, include_str!("kernels/gradient.cu")] },
    Source { name: "gradient_tf32.cu", parts: &[COMMON, HOPPER, include_str!("kernels/gradient_tf32.cu")] },
    Source { name: "cross_product.cu", parts: &[COMMON, HOPPER, include_str!("kernels/cross_product.cu")] },
    Source {
        name: "weight_gradient.cu",
        parts: &[COMMON, HOPPER, include_str!("kernels/weight_gradient.cu")],
    },
];
