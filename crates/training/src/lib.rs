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
//! run         launches ranks, loops over epochs, evaluates, saves   → checkpoint, step, dataflow, layers, samples, cache
//! checkpoint  a rank's state as named tensors, and these as files   → step, layers, cache
//! step        interprets a schedule on the state of one rank        → dataflow, layers, samples, cache
//! dataflow    what travels between ranks, and how it is laid out    → samples, cache
//! layers      forward and backward passes
//! samples     where samples come from, and reading ahead
//! cache       tables larger than memory: rows in files and in memory
//! ```
#![forbid(unsafe_code)]

mod cache;
pub mod checkpoint;
mod cpu_clock;
pub mod dataflow;
mod error;
mod layers;
pub mod metrics;
mod run;
mod samples;
mod step;

pub use cache::CacheCounts;
pub use checkpoint::contents::check_contents;
pub use error::Error;
pub use layers::dense;
pub use layers::network::Network;
pub use run::affinity::{AffinityRequest, Cosines, affinity};
pub use run::best::{BestEvaluation, BestSoFar};
pub use run::cluster::{Cluster, threads};
pub use run::devices::{Devices, check_all_reduce, check_transport, resolve_device};
pub use run::digest::parameters as parameters_digest;
pub use run::evaluation::{PredictionReceiver, Receiver};
pub use run::event::{Event, Progress};
pub use run::inference::{evaluate, predict};
pub use run::launch::check_size;
pub use run::memory::{GpuNeed, MemoryNeed, MemoryPart, MemoryUse, available_memory};
pub use run::outcome::{KeptBest, Outcome};
pub use run::pace;
pub use run::scores::{LabelScores, Scores};
pub use run::session::{Compute, Saving, Session, Sources};
pub use run::trainer::{train, train_on, train_rank};
pub use samples::logs::Logs;
pub use samples::source::{Prefetch, Repeated, Source};
pub use step::communicators::Communicators;
pub use step::interpreter::Execution;
pub use step::phase_time::PhaseTime;
pub use step::phases::{PhaseReport, RankTime, StepTime};
pub use step::rank_state::RankState;
pub use step::trace::{Trace, TraceRow, TraceSpan};
