//! Runs a [`spec::run::Run`]: data, embedding tables, dense layers, and the loop over a schedule's phases.
//!
//! ```
//! use spec::run::Config;
//! let mut config = Config::default();
//! config.train.steps = Some(3);
//! config.train.batch = Some(64);
//! config.data.synthetic = Some(spec::synthetic::Synthetic { eval_samples: 256, ..Default::default() });
//! let outcome = training::train(&config.check().unwrap(), &|_| ()).unwrap();
//! assert_eq!(outcome.losses.len(), 3);
//! ```
#![forbid(unsafe_code)]

pub mod dataflow;
pub mod dense;
mod digest;
mod error;
mod evaluate;
pub mod metrics;
mod network;
mod rank;
mod source;
mod step;
mod trainer;

pub use error::Error;
pub use network::Network;
pub use rank::Rank;
pub use source::Source;
pub use step::{Execution, PhaseTime};
pub use trainer::{
    Event, Outcome, PhaseReport, available_memory, batch_of, check_size, threads, train, train_on,
    training_source,
};
