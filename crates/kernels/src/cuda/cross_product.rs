//! Products of cross layers in bf16 with what surrounds them, by kernels of our own for Hopper: `kernels/cross_product.cu`.
//!
//! A product and the passes before and behind it read and write the same rows; one kernel touches them once, while the tensor cores
//! multiply. Results are rounded as those of the passes are. Other cards multiply by cuBLASLt, and have passes of their own.

use super::Cuda;
use super::gradient::SUM_ROWS;
use super::launch::Launch;
use super::linear::Map;
use super::memory::Pointer;
use super::operand::Values;
use super::product::Form;
use super::tensor_map::{Element, Matrix, TensorMap};
use crate::LinearShape;
use crate::op::Result;
use ground::precision::Precision;

/// Rows and columns of a block's tile, and terms of a step of its sum.
const TILE_ROWS: usize = 128;
const TILE_COLUMNS: usize = 192;
const TERMS: usize = 64;
/// Columns of what one copy brings, of bf16 and of floats.
const BOX_COLUMNS: usize = 64;
const BOX_FLOATS: usize = 32;
/// Stages of the ring of operands, and slots of each of the two warpgroups.
const STAGES: usize = 3;
const SLOTS: usize = 3;
/// Layers whose shares of the gradient of `x0` one kernel adds up.
pub(super) const LAYERS: usize = 4;

/// Whether the kernels can multiply by a map, and read and write these values beside.
pub(super) fn fits(cuda: &Cuda, map: &Map, values: &[Values]) -> bool {
    let LinearShape { rows, inputs, outputs } = map.shape;
    let hopper = cuda.gpu().capability() == (9, 0) && cuda.precision() == Precision::Bf16;
    let sizes = [inputs, outputs].iter().all(|&size| size > 0 && size.is_multiple_of(8) && size < 1 << 24);
    let rows_fit = rows > 0 && rows < 1 << 28;
    hopper
        && sizes
        && rows_fit
        && map.is_packed()
        && values.iter().all(|of| of.form == Form::Bf16 && of.by_pieces())
}

/// `z = h·wᵀ + b`, `out = x0 ⊙ z + x`. Gives false, and does nothing, where the kernel cannot be used.
pub(super) fn forward(
    cuda: &Cuda,
    w: &Map,
    h: Values,
    [x0, x]: [Values; 2],
    [z, out]: [Values; 2],
) -> Result<bool> {
    let LinearShape { rows, inputs: rank, outputs: width } = w.shape;
    let Some(bias) = w.packed_bias() else { return Ok(false) };
    if !fits(cuda, w, &[h, x0, x, z, out]) {
        return Ok(false);
    }
    let wide = |of| map(of, rows, SUM_ROWS);
    let launch = cuda.kernel("cross_product_forward").words(left(h, rows)?.words());
    let launch = launch.words(right(cuda, w, TILE_COLUMNS)?.words());
    let launch = launch.words(wide(x0)?.words()).words(wide(x)?.words());
    let launch = launch.words(wide(z)?.words()).words(wide(out)?.words());
    let launch = launch.arg(rows as u32).arg(width as u32).arg(rank as u32).arg(bias);
    shaped(cuda, launch, [rows, width], false).launch()?;
    Ok(true)
}

/// `dx = dy·v + g`, `dz = dx ⊙ x0`, and sums of the columns of `dz` over each [`SUM_ROWS`] rows, if there are `parts`. The operands
/// [fit](fits).
pub(super) fn backward(
    cuda: &Cuda,
    v: &Map,
    dy: Values,
    [g, x0]: [Values; 2],
    [dx, dz]: [Values; 2],
    parts: Option<Pointer>,
) -> Result {
    let LinearShape { rows, inputs: width, outputs: rank } = v.shape;
    let wide = |of| map(of, rows, SUM_ROWS);
    let launch = cuda.kernel("cross_product_backward").words(left(dy, rows)?.words());
    let launch =
        launch.words(right(cuda, v, TERMS)?.words()).words(wide(g)?.words()).words(wide(x0)?.words());
    let launch = launch.words(wide(dx)?.words()).words(wide(dz)?.words());
    let launch = launch.arg(rows as u32).arg(width as u32).arg(rank as u32).arg(parts);
    shaped(cuda, launch, [rows, width], true).launch()
}

/// `dx0 = Σ g ⊙ z + (dy·v + g)`, for at most [`LAYERS`] layers in the order given, where the `g` at the end is that of the last. `dx0`
/// is of floats; the other operands [fit](fits).
pub(super) fn last(cuda: &Cuda, v: &Map, dy: Values, layers: &[[Values; 2]], dx0: Values) -> Result {
    let LinearShape { rows, inputs: width, outputs: rank } = v.shape;
    let mut maps = [0; 2 * LAYERS * 16];
    for i in 0..2 * LAYERS {
        // The kernel does not look at maps behind those of the layers.
        let of = layers[(i % LAYERS).min(layers.len() - 1)][i / LAYERS];
        maps[16 * i..][..16].copy_from_slice(map(of, rows, SUM_ROWS)?.words());
    }
    // Floats are written as they are: nothing is rounded.
    let floats = Matrix { at: dx0.at, stride: dx0.stride(), element: Element::F32 };
    let dx0 = TensorMap::new(floats, [width, rows], [BOX_FLOATS, SUM_ROWS])?;
    let launch = cuda.kernel("cross_product_last").words(left(dy, rows)?.words());
    let launch = launch.words(right(cuda, v, TERMS)?.words()).words(&maps).words(dx0.words());
    let launch = launch.arg(rows as u32).arg(width as u32).arg(rank as u32).arg(layers.len() as u32);
    shaped(cuda, launch, [rows, width], false).launch()
}

/// The map of values of bf16, in boxes of so many rows.
fn map(of: Values, rows: usize, box_rows: usize) -> Result<TensorMap> {
    TensorMap::new(Matrix::bf16(of.at, of.stride()), [of.width, rows], [BOX_COLUMNS, box_rows])
}

/// The map of a product's left operand.
fn left(of: Values, rows: usize) -> Result<TensorMap> {
    map(of, rows, TILE_ROWS)
}

/// The map of a matrix, in boxes of so many rows.
fn right(cuda: &Cuda, of: &Map, box_rows: usize) -> Result<TensorMap> {
    let LinearShape { inputs, outputs, .. } = of.shape;
    let rows = of.matrix(cuda)?;
    TensorMap::new(Matrix::bf16(rows.at, rows.stride), [inputs, outputs], [BOX_COLUMNS, box_rows])
}

/// Blocks and shared memory of a launch.
fn shaped<'a>(cuda: &Cuda, launch: Launch<'a>, [rows, width]: [usize; 2], sums: bool) -> Launch<'a> {
    let tiles = rows.div_ceil(TILE_ROWS) * width.div_ceil(TILE_COLUMNS);
    launch.block(3 * 128).grid(tiles.min(cuda.multiprocessors() as usize)).shared(shared_memory(sums))
}

/// Bytes of a block: the ring, slots of two pieces each for two warpgroups, sums of columns, barriers, and what aligns them.
pub const fn shared_memory(sums: bool) -> usize {
    let ring = STAGES * (TILE_ROWS + TILE_COLUMNS) * TERMS * 2;
    let slots = 2 * SLOTS * 2 * SUM_ROWS * BOX_COLUMNS * 2;
    let columns = if sums { 2 * 4 * TILE_COLUMNS * 4 } else { 0 };
    ring + slots + columns + 8 * (2 * STAGES + 4 * SLOTS) + 1024
}
