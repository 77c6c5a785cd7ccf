//! Matrices and biases as bf16, for products that read them so: one kernel for all that have changed.

use super::Cuda;
use super::linear::FLOAT;
use crate::op::Result;
use crate::op::packed::Packing;
use crate::{LinearShape, PackLinear, Stored};
use spec::precision::Precision;

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

/// Packs matrices and biases; nothing in precisions other than bf16.
pub(super) fn pack_linears(cuda: &Cuda, maps: &mut [PackLinear]) -> Result {
    let mut list = Vec::with_capacity(maps.len());
    for PackLinear { shape, parameters, at, backward, packed } in maps {
        let LinearShape { inputs, outputs, .. } = *shape;
        if cuda.precision() != Precision::Bf16 || inputs == 0 || outputs <= 1 {
            packed.clear();
            continue;
        }
        let stride = Stored::stride(inputs);
        packed.panels.resize((outputs * stride + outputs).next_multiple_of(2))?;
        let (parameters, precision) = (parameters.card_address(), Precision::Bf16);
        packed.made = Some(Packing { inputs, outputs, precision, backward: *backward });
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
    let most = list.iter().map(|pack| (pack.outputs * pack.stride) as usize).max().unwrap_or(0);
    cuda.kernel("packed_bf16")
        .grid3([cuda.blocks_for(most / 2), list.len(), 1])
        .arg(cuda.constant(&list)?)
        .launch()
}
