//! Updates of dense parameters, and norms of their gradients.

use super::Cuda;
use crate::op::Result;
use crate::{Buffer, KernelError, UpdateDense};

pub(super) fn update_dense(_cuda: &Cuda, _args: UpdateDense) -> Result {
    Err(KernelError::Device("update_dense is not there yet".into()))
}

pub(super) fn sum_of_squares(_cuda: &Cuda, _gradient: &Buffer<f32>, _limit: f32) -> Result<Option<f64>> {
    Err(KernelError::Device("sum_of_squares is not there yet".into()))
}
