//! Encodes and decodes of rows.

use super::Cuda;
use crate::op::Result;
use crate::{Decode, Encode, KernelError};

pub(super) fn encode(_cuda: &Cuda, _args: Encode) -> Result {
    Err(KernelError::Device("encode is not there yet".into()))
}

pub(super) fn decode(_cuda: &Cuda, _args: Decode) -> Result {
    Err(KernelError::Device("decode is not there yet".into()))
}
