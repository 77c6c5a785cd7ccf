//! Errors of the library.

use crate::checkpoint::OpenError;
use crate::cluster::ClusterError;
use crate::file::FileError;
use crate::folder::FolderError;
use crate::inputs::InputsError;
use crate::logs::LogError;
use crate::output::OutputError;
use crate::partition::DivisionError;
use crate::resume::ResumeError;
use crate::scoring::SamplesError;
use crate::sweep::SweepError;
use crate::towers::TowersError;
use crate::train::{TrainError, Trained};
use data::DataError;
use spec::run::RunError;
use training::checkpoint::CheckpointError;

/// Error of training, evaluating or predicting. Messages say what is wrong and what to do about it; causes are in the
/// [sources](std::error::Error::source).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A run that cannot be.
    #[error("{what}")]
    Run {
        /// The run, in words.
        what: String,
        /// Error in the config.
        source: RunError,
    },
    /// Samples that cannot be read, or predictions that cannot be written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A log that cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file of the user that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// An output that may not be written, or cannot be.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A run's folder that cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A checkpoint that cannot be opened.
    #[error(transparent)]
    Checkpoint(#[from] OpenError),
    /// Inputs of a model that are not known.
    #[error(transparent)]
    Inputs(#[from] InputsError),
    /// Samples that do not suit a checkpoint.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// A run that cannot go on.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// Ranks that cannot be joined, or that failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Training that cannot be as it was asked for.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Features that cannot be divided into towers.
    #[error(transparent)]
    Division(#[from] DivisionError),
    /// Towers that cannot be looked for.
    #[error(transparent)]
    Towers(#[from] TowersError),
    /// A sweep that cannot be made, or was stopped.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Ranks that failed.
    #[error(transparent)]
    Training(#[from] training::Error),
    /// A run that needs more memory than there is, and what would make it fit.
    #[error("{error}\n{explanation}")]
    DoesNotFit {
        /// What the run needs, and what there is.
        error: Box<training::Error>,
        /// Answer of the planner.
        explanation: String,
    },
    /// One of several runs that failed.
    #[error("{title}")]
    OneOfSeveral {
        /// Title of the run.
        title: String,
        /// Error of the run.
        source: Box<Error>,
    },
    /// An evaluation that was asked to stop.
    #[error("stopped after {done} of {samples} samples; nothing was written")]
    Stopped {
        /// Samples scored.
        done: u64,
        /// Samples in all.
        samples: u64,
    },
    /// A run that was trained to its end, or until it was asked to stop, but could not be kept in its folder. The result is
    /// here all the same.
    #[error("the run was trained, but its results could not be saved")]
    NotKept {
        /// Result of the training.
        trained: Box<Trained>,
        /// Error of writing.
        source: Box<Error>,
    },
}

impl From<CheckpointError> for Error {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(error.into())
    }
}

impl From<collectives::CollectiveError> for Error {
    fn from(error: collectives::CollectiveError) -> Self {
        Self::Cluster(error.into())
    }
}

/// An error and its causes in one line, as `runs/a: cannot be created: Permission denied`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
