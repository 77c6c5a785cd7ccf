//! Decisions made without running anything: which features share a tower, and what a step would take on hardware that you
//! do not have.
//!
//! A step (of a schedule that the trainer executes, or of a model that is only simulated) is priced by a cost model on a
//! system, and laid on lanes:
//!
//! ```text
//! spec::schedule ─┐
//!                 ├─► step ──► cost ──► timeline ──► simulation (times, memory, verdict) ──► explore (many of them)
//! workload ───────┘             system
//! ```
#![forbid(unsafe_code)]

pub mod assignment;
pub mod cost;
pub mod explore;
pub mod fit;
pub mod measured;
pub mod memory;
pub mod partitioner;
pub mod placement;
pub mod planner;
mod run;
pub mod simulator;
pub mod statistics;
pub mod step;
pub mod system;
mod timeline;
pub mod trained;
pub mod workload;

pub use run::{PlanOptions, check, check_log, plan_run};
pub use timeline::{Item, Links, Span, Timeline, text};
