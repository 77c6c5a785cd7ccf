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
//!
//! Folders, and who may use whom; all may use [`Error`] and [`metrics`]:
//!
//! ```text
//! run         launches ranks, loops over epochs, evaluates, saves   → checkpoint, step, dataflow, layers, samples
//! checkpoint  a rank's state as named tensors, and these as files   → step, layers
//! step        interprets a schedule on the state of one rank        → dataflow, layers, samples
//! dataflow    what travels between ranks, and how it is laid out    → samples
//! layers      forward and backward passes
//! samples     where samples come from, and reading ahead
//! ```
#![forbid(unsafe_code)]

pub mod checkpoint;
mod cpu_clock;
pub mod dataflow;
mod error;
mod layers;
pub mod metrics;
mod run;
mod samples;
mod step;

pub use checkpoint::contents::check_contents;
pub use error::Error;
pub use layers::dense;
pub use layers::network::Network;
pub use run::affinity::{Cosines, affinity};
pub use run::cluster::Cluster;
pub use run::evaluation::{PredictionReceiver, Receiver, Scores};
pub use run::event::{Event, Progress};
pub use run::memory::{MemoryNeed, MemoryPart, MemoryUse, available_memory};
pub use run::pace::{self, Compute};
pub use run::trainer::{
    Outcome, Saving, Session, Sources, check_size, evaluate, predict, threads, train, train_on, train_rank,
};
pub use samples::logs::Logs;
pub use samples::prefetch::Prefetch;
pub use samples::source::{Repeated, Source};
pub use step::communicators::Circles;
pub use step::interpreter::{Execution, PhaseTime};
pub use step::phases::{PhaseReport, RankTime, StepTime};
pub use step::rank_state::Rank;
pub use step::trace::{Span, Stream, Trace};
