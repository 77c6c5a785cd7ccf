//! Runs as a whole: the launch of ranks, the loop over epochs, evaluation, checkpoints on the way, and what is reported.

pub(crate) mod affinity;
pub(crate) mod best;
pub(crate) mod cluster;
pub(crate) mod compaction;
pub(crate) mod devices;
pub(crate) mod digest;
pub(crate) mod evaluation;
pub(crate) mod event;
pub(crate) mod inference;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod outcome;
pub mod pace;
pub(crate) mod scores;
pub(crate) mod session;
pub(crate) mod supervisor;
pub(crate) mod trainer;
