//! Rows of data-parallel tables.

use super::Cuda;
use crate::op::Result;
use crate::{Buffer, CollectRows, KernelError, RowRuns, SortedIds, SpreadRows, SumRows, UpdateRows};

pub(super) fn find_runs(
    _cuda: &Cuda,
    _which: &[usize],
    _sorted: &SortedIds,
    _runs: &mut RowRuns,
    _rows: &mut Buffer<u32>,
) -> Result<bool> {
    Err(KernelError::Device("find_runs is not there yet".into()))
}

pub(super) fn sum_rows(_cuda: &Cuda, _args: SumRows) -> Result {
    Err(KernelError::Device("sum_rows is not there yet".into()))
}

pub(super) fn spread_rows(_cuda: &Cuda, _args: SpreadRows) -> Result {
    Err(KernelError::Device("spread_rows is not there yet".into()))
}

pub(super) fn collect_rows(_cuda: &Cuda, _args: CollectRows) -> Result {
    Err(KernelError::Device("collect_rows is not there yet".into()))
}

pub(super) fn update_rows(_cuda: &Cuda, _args: UpdateRows) -> Result {
    Err(KernelError::Device("update_rows is not there yet".into()))
}
