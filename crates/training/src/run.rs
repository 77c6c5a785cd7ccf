//! Runs as a whole: the launch of ranks, the loop over epochs, evaluation, checkpoints on the way, and what is reported.

pub(crate) mod affinity;
pub(crate) mod cluster;
pub(crate) mod digest;
pub(crate) mod evaluation;
pub(crate) mod event;
pub(crate) mod memory;
pub(crate) mod meter;
pub mod pace;
pub(crate) mod supervisor;
pub(crate) mod trainer;
