//! Runs whose ranks are processes: the same bits as in one process, also over links between hosts; refusals; failures.
//!
//! Without `mpirun`, or without leave to make network namespaces, the tests that need them say that they skip.

mod clusters;
mod command;
mod failures;
mod recipe;
mod refusals;
#[path = "../it/durability/resident.rs"]
mod resident;
mod resumes;
mod same_bits;
mod signals;
#[path = "../it/support/skipped.rs"]
mod skipped;
mod steady;
