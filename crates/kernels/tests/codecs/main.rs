//! Codecs of rows: every device against the reference, and the reference against definitions that are not ours.

mod devices;
mod float8;
#[path = "../gpu/mod.rs"]
mod gpu;
mod random;
mod refusals;
mod support;
mod unsigned;
