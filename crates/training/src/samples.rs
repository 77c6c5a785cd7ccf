//! Samples of a run: logs, sources by position, and batches read ahead.

pub(crate) mod logs;
pub(crate) mod source;
