//! Decisions made without running anything. So far: which features share a tower.
#![forbid(unsafe_code)]

pub mod measured;
pub mod partitioner;
pub mod statistics;
mod timeline;

pub use timeline::{Links, Timeline};
