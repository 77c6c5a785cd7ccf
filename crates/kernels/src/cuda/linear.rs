//! Linear maps by cuBLASLt.

use super::Cuda;
use crate::op::Result;
use crate::{KernelError, LinearBackward, LinearCrossForward, LinearForward};

pub(super) fn linear_forward(_cuda: &Cuda, _args: LinearForward) -> Result {
    Err(KernelError::Device("linear_forward is not there yet".into()))
}

pub(super) fn linear_cross_forward(_cuda: &Cuda, _args: LinearCrossForward) -> Result {
    Err(KernelError::Device("linear_cross_forward is not there yet".into()))
}

pub(super) fn linear_backward(_cuda: &Cuda, _args: LinearBackward) -> Result {
    Err(KernelError::Device("linear_backward is not there yet".into()))
}
