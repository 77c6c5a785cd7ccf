//! A run never loses its work: not to a kill at any moment, a signal, a damaged file or a full disk. Preparing a log
//! stays within the memory it was given.
//!
//! Runs are compared by the digest of their parameters: whatever happens on the way, the end is that of a run to which
//! nothing happened.

mod best;
mod command;
mod damage;
mod dry_run;
mod full_disk;
mod increments;
mod kills;
mod logs;
mod memory;
mod need;
mod peak;
mod resident;
mod resumes;
mod signals;
mod steady;
