//! Figures of papers, ours beside theirs, and what this project claims by itself.
//!
//! ```text
//! figures         a simulator redoes them in seconds
//! dmt_complexity  FLOPs and parameters, counted on models
//! dmt_speedup     jobs on a cluster, timed             started through a Launcher
//! plan_speedup    jobs in process and on a cluster      started through a Launcher
//! predictions     jobs on a cluster, timed and priced  started through a Launcher
//! dmt_table6      runs that are trained                by a TowerTrainer that the caller passes
//! planted_groups  runs that are trained                by a function that the caller passes
//! precision       runs that are trained                one after the other, in this process
//! quantised       runs that are trained                several at a time, in this process
//! results         tables of docs/results               from records, and from figures
//! ```
//!
//! Long measurements keep their results in [records](campanile::records), so that one that was stopped goes on where it was. The
//! crate prints nothing: every reproduction ends as a [`Report`].
#![forbid(unsafe_code)]

pub mod dmt_complexity;
pub mod dmt_speedup;
pub mod dmt_table6;
mod error;
pub mod figures;
mod launcher;
pub mod plan_speedup;
pub mod planted_groups;
pub mod precision;
pub mod predictions;
mod program;
pub mod quantised;
pub mod results;

pub use error::{Error, Failure, Result};
pub use launcher::Launcher;
pub use program::{Program, Progress};

/// Name of the log of an experiment in its records: that of the file, or `synthetic`.
fn log_name(data: Option<&std::path::Path>) -> String {
    let name = data.and_then(|path| path.file_name());
    name.map_or("synthetic".into(), |name| name.to_string_lossy().into_owned())
}

/// A reproduction that is done, as people and as programs read it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Tables and notes, ready to be printed.
    pub text: String,
    /// One line of JSON with all numbers, for programs.
    pub json: String,
}

/// Flags of every run that a measurement of this crate starts with `campanile train`, on small clusters.
///
/// The program that parses flags holds its own parser against them.
pub fn runs_started() -> Vec<Vec<String>> {
    let predicted = predictions::runs_started(2, 2).into_iter().chain(predictions::runs_started(4, 1));
    dmt_speedup::runs_started().into_iter().chain(predicted).collect()
}
