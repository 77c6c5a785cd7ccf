//! Gradients of a linear map's inputs in tf32 by a kernel of our own for Hopper: `dx = (dy·w) ⊙ [y > 0]`, and `db = Σ dx` over the rows,
//! for the bias of the layer below, in one pass over memory.
//!
//! Tensor cores take 32-bit operands along the sum alone, so the matrix is read [turned](super::pack). Sums are taken in an order that the
//! number of rows fixes. Other cards multiply by cuBLASLt and mask in a pass of their own.

use super::Cuda;
use super::memory::Pointer;
use super::tensor_map::{Element, Matrix, TensorMap};
use crate::op::Result;

/// Rows and columns of a block's tile, and terms of a step of its sums.
const TILE: [usize; 2] = [128, 256];
const TERMS: usize = 32;
/// Bytes of shared memory of a block: a ring of four stages, two places for the sums of each of two warpgroups, barriers, and what aligns
/// them.
const SHARED: usize =
    4 * (TILE[0] + TILE[1]) * TERMS * 4 + 4 * 4 * TILE[1] * 4 + 2 * 4 * size_of::<u64>() + 1024;

/// Operands of [`masked_input_gradient_tf32`]: matrices of floats.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskedInputGradient {
    /// Rows of dy, y and dx.
    pub(super) rows: usize,
    /// Columns of y and dx, rows of the turned matrix.
    pub(super) inputs: usize,
    /// Columns of dy and of the turned matrix.
    pub(super) outputs: usize,
    /// Gradient of the map's output.
    pub(super) dy: Matrix,
    /// Weights, turned.
    pub(super) turned: Matrix,
    /// Output of the ReLU below: the gradient is 0 where it is 0 or less.
    pub(super) y: Matrix,
    /// Gradient of the map's input, overwritten.
    pub(super) dx: Matrix,
    /// Sums of the columns of dx over each [`SUM_ROWS`](super::gradient::SUM_ROWS) rows, overwritten: a row of `inputs` floats each.
    pub(super) parts: Option<Pointer>,
}

impl MaskedInputGradient {
    /// Whether the kernel can be used: the card is a Hopper, rows can be read and written by 16 bytes, and there is something to compute.
    pub(super) fn is_possible(&self, cuda: &Cuda) -> bool {
        let Self { rows, inputs, outputs, dy, turned, y, dx, .. } = *self;
        let fits = [rows, inputs, outputs].iter().all(|&size| size > 0 && size < 1 << 30);
        let aligned = [dy, turned, y, dx].into_iter().all(Matrix::is_aligned);
        cuda.gpu().capability() == (9, 0) && fits && aligned && inputs.is_multiple_of(4)
    }
}

/// Gradient of a linear map's inputs, masked and added up, which must be [possible](MaskedInputGradient::is_possible).
pub(super) fn masked_input_gradient_tf32(cuda: &Cuda, args: MaskedInputGradient) -> Result {
    let MaskedInputGradient { rows, inputs, outputs, dy, turned, y, dx, parts } = args;
    let map = |of: Matrix, rows, box_rows| {
        TensorMap::new(Matrix { element: Element::Tf32, ..of }, [outputs, rows], [TERMS, box_rows])
    };
    let (dy, turned) = (map(dy, rows, TILE[0])?, map(turned, inputs, TILE[1])?);
    let tiles = rows.div_ceil(TILE[0]) * inputs.div_ceil(TILE[1]);
    cuda.kernel("input_gradient_tf32")
        .block(3 * 128)
        .grid(tiles.min(cuda.multiprocessors() as usize))
        .shared(SHARED)
        .words(dy.words())
        .words(turned.words())
        .arg(y.at)
        .arg(y.stride as u32)
        .arg(dx.at)
        .arg(dx.stride as u32)
        .arg(rows as u32)
        .arg(inputs as u32)
        .arg(outputs as u32)
        .arg(parts)
        .launch()
}
