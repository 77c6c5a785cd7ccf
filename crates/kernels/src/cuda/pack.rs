//! Matrices as products read them fastest: one kernel for all that have changed. In bf16 matrices and biases as bf16; in tf32 matrices
//! turned, for [gradients of inputs](super::gradient_tf32): tensor cores take 32-bit operands along the sum alone.

use super::Cuda;
use super::linear::FLOAT;
use crate::op::Result;
use crate::op::packed::Packing;
use crate::{LinearShape, PackLinear, Stored};
use ground::precision::Precision;

/// Floats of a row of a turned matrix with `outputs` outputs.
pub(super) fn turned_stride(outputs: usize) -> usize {
    outputs.next_multiple_of(4)
}

/// Bytes of a matrix that [`Device::pack_linear`](crate::Device::pack_linear) packs on a GPU, at most; with `backward`, its input's gradient
/// reads it too.
pub fn packed_bytes_on_card(shape: LinearShape, precision: Precision, backward: bool) -> usize {
    let LinearShape { inputs, outputs, .. } = shape;
    match precision {
        Precision::Bf16 => 2 * outputs * (Stored::stride(inputs) + 1),
        Precision::Tf32 if backward => FLOAT * inputs * turned_stride(outputs),
        _ => 0,
    }
}

/// A matrix to be packed, as `struct Pack` of `kernels/linear.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
struct Pack {
    w: u64,
    bias: u64,
    to: u64,
    outputs: u32,
    inputs: u32,
    stride: u32,
    unused: u32,
}

/// Packs matrices: all in bf16, those of masked input gradients in tf32, none in f32.
pub(super) fn pack_linears(cuda: &Cuda, maps: &mut [PackLinear]) -> Result {
    let (mut list, precision) = (Vec::with_capacity(maps.len()), cuda.precision());
    for PackLinear { shape, parameters, at, backward, masked, packed } in maps {
        let LinearShape { inputs, outputs, .. } = *shape;
        let turned =
            precision == Precision::Tf32 && *backward && *masked && cuda.gpu().capability() == (9, 0);
        let wanted = precision == Precision::Bf16 || turned;
        if !wanted || inputs == 0 || outputs <= 1 {
            packed.clear();
            continue;
        }
        let (stride, halves) = match precision {
            Precision::Tf32 => (turned_stride(outputs), 2 * inputs * turned_stride(outputs)),
            _ => (Stored::stride(inputs), outputs * Stored::stride(inputs) + outputs),
        };
        packed.panels.resize(halves.next_multiple_of(2))?;
        let parameters = parameters.card_address();
        packed.made = Some(Packing { inputs, outputs, precision, instructions: "", backward: *backward });
        list.push(Pack {
            w: parameters.plus(at.weight * FLOAT).0,
            bias: at.bias.map_or(0, |bias| parameters.plus(bias * FLOAT).0),
            to: packed.panels.card_address().0,
            outputs: outputs as u32,
            inputs: inputs as u32,
            stride: stride as u32,
            unused: 0,
        });
    }
    if precision == Precision::Tf32 {
        let squares = |pack: &Pack| (pack.stride.div_ceil(32) * pack.inputs.div_ceil(32)) as usize;
        let most = list.iter().map(squares).max().unwrap_or(0).min(cuda.most_blocks());
        let launch = cuda.kernel("turned_f32").grid3([most, list.len(), 1]);
        return launch.arg(cuda.constant(&list)?).launch();
    }
    let most = list.iter().map(|pack| (pack.outputs * pack.stride) as usize).max().unwrap_or(0);
    cuda.kernel("packed_bf16")
        .grid3([cuda.blocks_for(most / 2), list.len(), 1])
        .arg(cuda.constant(&list)?)
        .launch()
}
