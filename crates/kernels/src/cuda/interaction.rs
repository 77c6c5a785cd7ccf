//! Interactions of vectors: dot products, cross layers, factorisation machines.

use super::memory::Pointer;
use super::operand::Values;
use super::product::Form;
use super::{Cuda, pairs};
use crate::op::Result;
use crate::{Buffer, CrossBackward, DotShape, FmShape};

/// Rows and columns of the part of the products that a thread has: `TILE` of `kernels/interaction.cu`.
const TILE: usize = 4;
/// Threads of a block of the gradients of dot products.
const BACKWARD: usize = 128;
/// Bytes of shared memory of a block that leave room for others beside it.
const MODEST: usize = 48 << 10;
/// Bytes of shared memory of a block that leave room for two others beside it.
const THIRD: usize = 74 << 10;

pub(super) fn dot_forward(
    cuda: &Cuda,
    shape: DotShape,
    vectors: &Buffer<f32>,
    out: &mut Buffer<f32>,
) -> Result {
    if pairs::fuses(cuda, shape) {
        return pairs::dot_forward(cuda, shape, vectors, out);
    }
    let (rows, stored) = (shape.rows, Values::of(out, shape.width()));
    let out = stored.room(cuda, rows, Form::F32)?;
    dot_forward_plain(cuda, shape, vectors, out.at)?;
    out.store(cuda, rows, stored)
}

fn dot_forward_plain(cuda: &Cuda, shape: DotShape, vectors: &Buffer<f32>, out: Pointer) -> Result {
    let DotShape { rows, count, dim } = shape;
    if count == 0 {
        let len = rows * shape.width();
        return cuda.kernel("fill_floats").grid(cuda.blocks_for(len)).arg(len).arg(0f32).arg(out).launch();
    }
    // An odd number of fours, so that neighbouring vectors lie in different banks.
    let stride = 4 * (dim.div_ceil(4) | 1);
    let room = (count * stride).max(stride + count * (count - 1) / 2).next_multiple_of(4);
    let bytes = room * size_of::<f32>();
    if bytes > cuda.gpu().shared_memory() {
        return cuda
            .kernel("dot_forward_any")
            .grid(rows.min(cuda.most_blocks()))
            .arg(rows)
            .arg(count as u32)
            .arg(dim as u32)
            .arg(vectors)
            .arg(out)
            .launch();
    }
    let groups = count.div_ceil(TILE);
    let tiles = groups * (groups + 1) / 2;
    // A warp for each sample where its threads have all products in registers; else a block.
    let (team, teams) = if tiles <= 32 {
        (32, (MODEST / bytes).clamp(1, 2))
    } else {
        (tiles.next_multiple_of(32).min(256), 1)
    };
    cuda.kernel("dot_forward")
        .block((team * teams) as u32)
        .grid(rows.div_ceil(teams))
        .shared(teams * bytes)
        .arg(rows)
        .arg(count as u32)
        .arg(dim as u32)
        .arg(team as u32)
        .arg(stride as u32)
        .arg(room as u32)
        .arg(vectors)
        .arg(out)
        .launch()
}

pub(super) fn dot_backward(
    cuda: &Cuda,
    shape: DotShape,
    vectors: &Buffer<f32>,
    dout: &Buffer<f32>,
    dvectors: &mut Buffer<f32>,
) -> Result {
    let DotShape { rows, count, dim } = shape;
    if count == 0 || dim == 0 {
        return Ok(());
    }
    if pairs::fuses(cuda, shape) {
        return pairs::dot_backward(cuda, shape, vectors, dout, dvectors);
    }
    let dout = Values::of(dout, shape.width()).as_form(cuda, rows, Form::F32)?.at;
    // As few lines too many as possible, in as few passes.
    let kernels = [(28, "dot_backward_28"), (16, "dot_backward_16"), (8, "dot_backward_8")];
    let (high, kernel) =
        kernels.into_iter().min_by_key(|(high, _)| count.next_multiple_of(*high)).unwrap_or(kernels[0]);
    let lines = count.next_multiple_of(high);
    let bytes = count * lines * size_of::<f32>();
    if bytes > cuda.gpu().shared_memory() {
        return cuda
            .kernel("dot_backward_any")
            .grid(rows.min(cuda.most_blocks()))
            .arg(rows)
            .arg(count as u32)
            .arg(dim as u32)
            .arg(vectors)
            .arg(dout)
            .arg(dvectors)
            .launch();
    }
    let of_vectors = count * dim * size_of::<f32>();
    let staged = dim.is_multiple_of(4) && bytes + of_vectors <= THIRD;
    let bytes = if staged { bytes + of_vectors } else { bytes };
    let room = if staged { THIRD } else { MODEST };
    let samples = (BACKWARD / dim.div_ceil(4)).min(room / bytes).max(1);
    cuda.kernel(kernel)
        .block(BACKWARD as u32)
        .grid(rows.div_ceil(samples))
        .shared(samples * bytes)
        .arg(rows)
        .arg(count as u32)
        .arg(dim as u32)
        .arg(samples as u32)
        .arg(lines as u32)
        .arg(u32::from(staged))
        .arg(vectors)
        .arg(dout)
        .arg(dvectors)
        .launch()
}

pub(super) fn cross_backward(cuda: &Cuda, args: CrossBackward) -> Result {
    cuda.kernel("cross_backward")
        .grid(cuda.blocks_for(args.len))
        .arg(args.len)
        .arg(args.x0)
        .arg(args.z)
        .arg(args.dout)
        .arg(u32::from(args.accumulate))
        .arg(args.dz)
        .arg(args.dx0)
        .launch()
}

pub(super) fn fm_forward(
    cuda: &Cuda,
    shape: FmShape,
    vectors: &Buffer<f32>,
    out: &mut Buffer<f32>,
) -> Result {
    fm(cuda, "fm_forward", shape).arg(vectors).arg(out).launch()
}

pub(super) fn fm_backward(
    cuda: &Cuda,
    shape: FmShape,
    vectors: &Buffer<f32>,
    dout: &Buffer<f32>,
    dvectors: &mut Buffer<f32>,
) -> Result {
    fm(cuda, "fm_backward", shape).arg(vectors).arg(dout).arg(dvectors).launch()
}

/// A warp for each sample, and the sizes as first arguments.
fn fm<'a>(
    cuda: &'a Cuda,
    kernel: &'static str,
    FmShape { rows, count, dim }: FmShape,
) -> super::launch::Launch<'a> {
    cuda.kernel(kernel)
        .grid(rows.div_ceil(8).min(cuda.most_blocks()))
        .arg(rows)
        .arg(count as u32)
        .arg(dim as u32)
}
