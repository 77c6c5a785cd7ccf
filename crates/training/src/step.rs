//! One training step: the interpreter of schedules, the state of a rank, and the times of phases.

pub(crate) mod communicators;
pub(crate) mod emulation;
pub(crate) mod gather;
pub(crate) mod interpreter;
pub(crate) mod norm;
pub(crate) mod pacing;
pub(crate) mod phase_time;
pub(crate) mod phases;
mod queues;
pub(crate) mod rank_state;
mod read_back;
mod rounding;
pub(crate) mod trace;
