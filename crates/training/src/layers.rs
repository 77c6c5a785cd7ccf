//! Layers with explicit forward and backward passes. No communication.

pub mod dense;
pub(crate) mod network;
pub(crate) mod tower;
