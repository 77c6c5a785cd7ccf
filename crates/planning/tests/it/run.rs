//! From what a user wrote to what runs: configs are checked, placements found, and schedules follow from both.

mod amounts;
mod common;
mod configs;
mod dims;
mod hostile;
mod logs;
mod schedule;
mod tower_placement;
mod towers;
