//! Gradients of a linear map's weights in tf32 by a kernel of our own for Hopper: `dw = dyᵀ·x`.
//!
//! Both operands lie across the sum, which Hopper's tensor cores take in 16 bits alone, and cuBLASLt is slow there: the kernel turns
//! them on their way. The sum is taken in shares of the rows, which are added in order; their number follows from the sizes alone, so
//! that no bit depends on the card.

use super::Cuda;
use super::arrays::Scratch;
use super::linear::FLOAT;
use super::memory::Pointer;
use super::operand::Rows;
use super::product::Form;
use super::tensor_map::{Element, Matrix, TensorMap};
use crate::LinearShape;
use crate::op::Result;
use ground::precision::Precision;

/// Outputs and inputs of a tile of two blocks, and floats of it.
const TILE: usize = 256;
const TILE_FLOATS: usize = TILE * TILE;
/// Rows of a step of the sum, and columns of what one copy brings.
const TERMS: usize = 32;
const BOX_COLUMNS: usize = 32;
/// Pairs of blocks that work at once. No property of the card, so that bits are none either.
const PAIRS: usize = 66;
/// What beginning and ending a share costs, in steps.
const OVERHEAD: usize = 12;
/// Sizes from which on the kernel is faster than cuBLASLt: rows, and weights.
const LEAST_ROWS: usize = 16_384;
const LEAST_WEIGHTS: usize = 256 * 512;
/// Bytes of shared memory of a block: rings of dy, of x and of x turned, their barriers, and what aligns them.
pub const SHARED: usize = 4 * 32_768 + 3 * 16_384 + 3 * 16_384 + 2 * (4 + 3 + 3) * size_of::<u64>() + 1024;

/// `dw = dyᵀ·x`. Gives false, and does nothing, where cuBLASLt is as fast or the kernel cannot be used.
pub(super) fn weight_gradient_tf32(
    cuda: &Cuda,
    shape: LinearShape,
    x: Rows,
    dy: Rows,
    dw: Pointer,
) -> Result<bool> {
    let LinearShape { rows, inputs, outputs } = shape;
    let tf32 = cuda.precision() == Precision::Tf32 && [x.form, dy.form] == [Form::F32; 2];
    let [x, dy] = [x, dy].map(|of| Matrix { at: of.at, stride: of.stride, element: Element::Tf32 });
    let Some(plan) = Shares::of(shape).filter(|_| tf32 && cuda.gpu().capability() == (9, 0)) else {
        return Ok(false);
    };
    if !x.is_aligned() || !dy.is_aligned() {
        return Ok(false);
    }
    let map = |matrix, columns| TensorMap::new(matrix, [columns, rows], [BOX_COLUMNS, TERMS]);
    let (dy, x) = (map(dy, outputs)?, map(x, inputs)?);
    let (sizes, splits) = ([inputs, outputs].map(|size| size as u32), plan.splits as u32);
    let parts = cuda.scratch(Scratch::Parts, plan.tiles * plan.splits * TILE_FLOATS * FLOAT)?;
    cuda.kernel("weight_gradient")
        .block(512)
        .grid(2 * (plan.tiles * plan.splits).min(PAIRS))
        .shared(SHARED)
        .words(dy.words())
        .words(x.words())
        .arg(rows as u32)
        .arg(sizes[0])
        .arg(sizes[1])
        .arg(splits)
        .arg(parts)
        .launch()?;
    cuda.kernel("weight_gradient_sums")
        .block(128)
        .grid(plan.tiles * (TILE_FLOATS / 4 / 128))
        .arg(parts)
        .arg(sizes[0])
        .arg(sizes[1])
        .arg(splits)
        .arg(dw)
        .launch()?;
    Ok(true)
}

/// How a product is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Tiles of the weights.
    pub tiles: usize,
    /// Shares of the rows.
    pub splits: usize,
}

impl Shares {
    /// The shares of a product, where the kernel pays: large products that fill most of their tiles.
    pub fn of(shape: LinearShape) -> Option<Self> {
        let LinearShape { rows, inputs, outputs } = shape;
        let tiles = outputs.div_ceil(TILE) * inputs.div_ceil(TILE);
        let filled = 4 * inputs * outputs >= 3 * tiles * TILE_FLOATS;
        let pays = rows >= LEAST_ROWS && inputs * outputs >= LEAST_WEIGHTS && filled;
        if !pays || [rows, inputs, outputs].iter().any(|&size| size >= 1 << 30) {
            return None;
        }
        let steps = rows.div_ceil(TERMS);
        let turns = |splits: usize| (tiles * splits).div_ceil(PAIRS) * (steps.div_ceil(splits) + OVERHEAD);
        let splits = (1..=steps.min(PAIRS)).min_by_key(|&splits| turns(splits))?;
        Some(Self { tiles, splits })
    }
}
