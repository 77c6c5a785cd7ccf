//! What tests of several commands need.

pub mod browser;
pub mod command;
pub mod python;
pub mod skipped;
