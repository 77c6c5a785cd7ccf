//! Where samples come from: click logs on disk, and a synthetic one.
#![deny(unsafe_code)]

pub mod batch;
mod error;
mod mapped;
pub mod prepared;
pub mod samples;
pub mod shuffle;
pub mod synthetic;

pub use batch::Batch;
pub use error::DataError;
pub use samples::{Bags, Samples};
pub use shuffle::Shuffle;
pub use synthetic::{Split, SyntheticLog};
