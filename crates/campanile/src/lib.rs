//! Trains recommendation models over many ranks, evaluates them, and predicts with them.
//!
//! A run is described by a [`Config`]; everything in it has a default. [`Training`] trains it and keeps it in a folder,
//! [`Evaluation`] and [`Prediction`] use what is kept there.
//!
//! ```
//! use campanile::{Config, Evaluation, Prediction, Training};
//! # let folder = tempfile::tempdir().unwrap();
//! # let (run, log, out) = (folder.path().join("run"), folder.path().join("log.csv"), folder.path().join("out.csv"));
//! # let rows: String = (0..200).map(|i| format!("u{},{}.5,{}\n", i % 7, i % 11, i % 3 / 2)).collect();
//! # std::fs::write(&log, format!("user,price,clicked\n{rows}")).unwrap();
//! let mut config = Config::default();
//! config.train.epochs = Some(2);
//! let trained = Training::new(config).data(&log)?.out(&run).run()?;
//! println!("{} steps, AUC {:?}", trained.outcome.steps, trained.outcome.auc());
//! let evaluated = Evaluation::of(&run)?.data(&log).run()?;
//! println!("logloss {}", evaluated.scores.evaluation.logloss);
//! Prediction::of(&run)?.data(&log).to(&out)?;
//! # Ok::<(), campanile::Error>(())
//! ```
//!
//! Long work tells an observer what happens ([`Event`]) and can be asked to stop ([`Control`]). Nothing is printed. The crates
//! below are for those who need more: `spec` describes runs and schedules, `training` runs them on ranks, `collectives` joins
//! the ranks, `planning` prices schedules on other hardware, `data` reads logs.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod checkpoint;
pub mod cluster;
mod control;
pub mod dataflow;
pub mod discover;
pub mod embeddings;
mod error;
mod evaluation;
mod event;
pub mod export;
pub mod file;
pub mod folder;
pub mod inputs;
pub mod logs;
mod model_rows;
pub mod onnx;
pub mod output;
pub mod partition;
pub mod plan;
mod prediction;
pub mod records;
pub mod resume;
pub mod schedule;
pub mod scoring;
pub mod summary;
pub mod sweep;
mod table_rows;
pub mod towers;
pub mod train;

pub use checkpoint::Use;
pub use cluster::Transport;
pub use control::Control;
pub use embeddings::{Embeddings, WrittenEmbeddings};
pub use error::{Error, chain};
pub use evaluation::{Evaluated, Evaluation};
pub use event::{Event, Notice, Unit, Work};
pub use model_rows::{ModelRows, Numbers, OpenRows, RowBlock, RowTensor, WrittenRows};
pub use prediction::{Predicted, Prediction};
pub use spec::run::Config;
pub use train::{OpenTraining, Trained, Training};
