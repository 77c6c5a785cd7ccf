//! Interactions of vectors: dot products, cross layers, factorisation machines.

use super::Cuda;
use crate::op::Result;
use crate::{Buffer, CrossBackward, DotShape, FmShape, KernelError};

pub(super) fn dot_forward(
    _cuda: &Cuda,
    _shape: DotShape,
    _vectors: &Buffer<f32>,
    _out: &mut Buffer<f32>,
) -> Result {
    Err(KernelError::Device("dot_forward is not there yet".into()))
}

pub(super) fn dot_backward(
    _cuda: &Cuda,
    _shape: DotShape,
    _vectors: &Buffer<f32>,
    _dout: &Buffer<f32>,
    _dvectors: &mut Buffer<f32>,
) -> Result {
    Err(KernelError::Device("dot_backward is not there yet".into()))
}

pub(super) fn cross_backward(_cuda: &Cuda, _args: CrossBackward) -> Result {
    Err(KernelError::Device("cross_backward is not there yet".into()))
}

pub(super) fn fm_forward(
    _cuda: &Cuda,
    _shape: FmShape,
    _vectors: &Buffer<f32>,
    _out: &mut Buffer<f32>,
) -> Result {
    Err(KernelError::Device("fm_forward is not there yet".into()))
}

pub(super) fn fm_backward(
    _cuda: &Cuda,
    _shape: FmShape,
    _vectors: &Buffer<f32>,
    _dout: &Buffer<f32>,
    _dvectors: &mut Buffer<f32>,
) -> Result {
    Err(KernelError::Device("fm_backward is not there yet".into()))
}
