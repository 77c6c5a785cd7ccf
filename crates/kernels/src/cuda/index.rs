//! Index of bags.

use super::Cuda;
use crate::op::Result;
use crate::{IndexBags, KernelError};

pub(super) fn index_bags(_cuda: &Cuda, _args: IndexBags) -> Result {
    Err(KernelError::Device("index_bags is not there yet".into()))
}
