//! Gradients of a linear map's inputs in bf16 by a kernel of our own for Hopper: `dx = (dy·w) ⊙ [y > 0]`, and `db = Σ dx` over the
//! rows, for the bias of the layer below, in one pass over memory.
//!
//! Sums are those of the rounded gradients, in an order that the number of rows fixes: each column over 64 rows, then as
//! [`LaterSums`](super::operand::LaterSums) adds parts. Other cards multiply by cuBLASLt and mask in a pass of their own.

#[doc(hidden)]
pub mod probe;

use super::Cuda;
use super::memory::Pointer;
use super::tensor_map::{Matrix, TensorMap};
use crate::op::Result;

/// Rows of a block's tile.
const TILE_ROWS: usize = 128;
/// Rows that a sum of a column goes over at first.
pub(super) const SUM_ROWS: usize = 64;
/// Terms of a step of the sum.
const TERMS: usize = 64;
/// Columns of what one copy brings, and bytes of 64 rows of it.
const BOX_COLUMNS: usize = 64;
const BOX_BYTES: usize = 8192;
/// Tiles below which narrow ones are taken, so that more multiprocessors work. No property of the card, so that bits are none either.
const FEW_TILES: usize = 128;

/// Operands of [`masked_input_gradient`]: matrices of bf16.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskedInputGradient {
    /// Rows of dy, y and dx.
    pub(super) rows: usize,
    /// Columns of w, y and dx.
    pub(super) inputs: usize,
    /// Columns of dy, rows of w.
    pub(super) outputs: usize,
    /// Gradient of the map's output.
    pub(super) dy: Matrix,
    /// Weights.
    pub(super) w: Matrix,
    /// Output of the ReLU below: the gradient is 0 where it is 0 or less.
    pub(super) y: Option<Matrix>,
    /// Gradient of the map's input, overwritten.
    pub(super) dx: Matrix,
    /// f32 sums of the columns of dx over each [`SUM_ROWS`] rows, overwritten: a row of `inputs` floats each.
    pub(super) parts: Option<Pointer>,
}

/// Gradient of a linear map's inputs, masked and added up. Gives false, and does nothing, where the card is no Hopper, a matrix has
/// rows that the copy engine cannot read or write to their end, or there is nothing to compute.
pub(super) fn masked_input_gradient(cuda: &Cuda, args: MaskedInputGradient) -> Result<bool> {
    let MaskedInputGradient { rows, inputs, outputs, dy, w, y, dx, parts } = args;
    let fits = [rows, inputs, outputs].iter().all(|&size| size > 0 && size < 1 << 30);
    let aligned = [Some(dy), Some(w), y, Some(dx)].into_iter().flatten().all(Matrix::is_aligned);
    if cuda.gpu().capability() != (9, 0) || !fits || !aligned || !inputs.is_multiple_of(8) {
        return Ok(false);
    }
    let kernel = Kernel::of(rows, inputs);
    let map = |of: Matrix, sizes, box_rows| TensorMap::new(of, sizes, [BOX_COLUMNS, box_rows]);
    let dy = map(dy, [outputs, rows], TILE_ROWS)?;
    let w = map(w, [inputs, outputs], TERMS)?;
    let dx = map(dx, [inputs, rows], SUM_ROWS)?;
    // Without a mask the kernel does not look at its map.
    let mask = y.map_or(Ok(dx), |y| map(y, [inputs, rows], SUM_ROWS))?;
    cuda.kernel(kernel.name(y.is_some()))
        .block(3 * 128)
        .grid(kernel.blocks(rows, inputs, cuda.multiprocessors() as usize))
        .shared(kernel.shared_memory())
        .words(dy.words())
        .words(w.words())
        .words(mask.words())
        .words(dx.words())
        .arg(rows as u32)
        .arg(inputs as u32)
        .arg(outputs as u32)
        .arg(parts)
        .launch()?;
    Ok(true)
}

/// One of the kernels, by the shape of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Columns of a tile.
    pub columns: usize,
    /// Stages of the ring of operands.
    pub stages: usize,
}

impl Kernel {
    /// The kernel for a gradient with these numbers of rows and columns.
    pub fn of(rows: usize, inputs: usize) -> Self {
        let narrow = inputs <= 128 || rows.div_ceil(TILE_ROWS) * inputs.div_ceil(256) < FEW_TILES;
        let (columns, stages) = if narrow { (128, 5) } else { (256, 3) };
        Self { columns, stages }
    }

    fn name(self, masked: bool) -> &'static str {
        match (self.columns, masked) {
            (256, false) => "input_gradient_256",
            (256, true) => "input_gradient_256_masked",
            (_, false) => "input_gradient_128",
            (_, true) => "input_gradient_128_masked",
        }
    }

    /// Bytes of a block: the ring, the output of two warpgroups, barriers, and what aligns them.
    pub fn shared_memory(self) -> usize {
        let boxes = self.columns / BOX_COLUMNS;
        let stage = (TILE_ROWS / 64 + boxes) * BOX_BYTES;
        self.stages * stage + 2 * boxes * BOX_BYTES + (2 * self.stages + 4) * size_of::<u64>() + 1024
    }

    /// As many blocks as there are multiprocessors, or tiles.
    pub fn blocks(self, rows: usize, inputs: usize, multiprocessors: usize) -> usize {
        (rows.div_ceil(TILE_ROWS) * inputs.div_ceil(self.columns)).min(multiprocessors)
    }
}
