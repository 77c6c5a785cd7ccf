//! Runs a [`spec::run::Run`]: data, embedding tables, dense layers, and the loop over a schedule's phases.
//!
//! ```
//! use spec::run::Config;
//! let mut config = Config::default();
//! config.train.steps = Some(3);
//! config.train.batch = Some(64);
//! config.data.synthetic = Some(spec::synthetic::Synthetic { eval_samples: 256, ..Default::default() });
//! let run = planning::check(&config).unwrap();
//! let outcome = training::train(&run, &training::Logs::Synthetic, &Default::default()).unwrap();
//! assert_eq!(outcome.losses.len(), 3);
//! ```
#![forbid(unsafe_code)]

mod affinity;
pub mod checkpoint;
mod circles;
mod cluster;
mod contents;
mod cpu_clock;
pub mod dataflow;
pub mod dense;
mod digest;
mod error;
mod evaluate;
mod event;
mod gather;
mod logs;
mod memory;
mod meter;
pub mod metrics;
mod network;
pub mod pace;
mod phases;
mod prefetch;
mod rank;
mod source;
mod state;
mod step;
mod supervisor;
mod tower;
mod trace;
mod trainer;

pub use affinity::{Cosines, affinity};
pub use circles::Circles;
pub use cluster::Cluster;
pub use contents::check_contents;
pub use error::Error;
pub use evaluate::{PredictionReceiver, Receiver, Scores};
pub use event::{Event, Progress};
pub use logs::Logs;
pub use memory::{MemoryNeed, MemoryPart, MemoryUse, available_memory};
pub use network::Network;
pub use pace::Compute;
pub use phases::{PhaseReport, RankTime, StepTime};
pub use prefetch::Prefetch;
pub use rank::Rank;
pub use source::{Repeated, Source};
pub use step::{Execution, PhaseTime};
pub use trace::{Span, Stream, Trace};
pub use trainer::{
    Outcome, Saving, Session, Sources, check_size, evaluate, predict, threads, train, train_on, train_rank,
};
