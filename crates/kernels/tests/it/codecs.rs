//! Codecs of rows: every device against the reference, and the reference against definitions that are not ours.

mod devices;
mod float8;
mod random;
mod refusals;
mod support;
mod unsigned;
