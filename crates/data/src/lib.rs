//! Where samples come from: click logs on disk, and a synthetic one.
#![deny(unsafe_code)]

pub mod batch;
mod error;
pub mod samples;
pub mod synthetic;

pub use batch::Batch;
pub use error::DataError;
pub use samples::{Bags, Samples};
pub use synthetic::{Split, SyntheticLog};
