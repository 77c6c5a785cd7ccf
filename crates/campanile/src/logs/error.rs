//! Reason why a log cannot be used.

use data::DataError;
use spec::run::RunError;
use std::path::PathBuf;

/// Reason why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A log that cannot be read or prepared.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A description of the data that contradicts itself.
    #[error(transparent)]
    Config(#[from] RunError),
    /// Files of a log that is generated.
    #[error(
        "--data and --eval name files, but the format is synthetic; give the format of the files with --format"
    )]
    FilesOfSynthetic,
    /// A log without files.
    #[error("the format is {format}, but no files are given; use --data")]
    NoFiles {
        /// The format.
        format: &'static str,
    },
    /// Vocabularies or learnt transforms of the model that cannot be read.
    #[error("the vocabularies and transforms that the model was trained with cannot be read")]
    Vocabularies(#[source] DataError),
    /// A log that rank 0 should have prepared for all.
    #[error("the log that rank 0 prepared cannot be read; all hosts must share its folder")]
    OfFirstRank(#[source] DataError),
    /// Ranks that are processes, and a log that each of them would prepare for itself.
    #[error(
        "ranks that are processes need a log that all of them can read: prepare the log with `campanile data prepare`, with \
         --vocabularies-of the prepared log that the run was trained on, and give its folder with --data"
    )]
    Unshared,
    /// A table in memory that is gone.
    #[error(
        "the samples were a table in memory, which only the process that made it has: give the data again, or files with --data"
    )]
    NoTable,
    /// No temporary folder for prepared logs.
    #[error("{}: no folder for prepared logs can be created here", path.display())]
    NoScratch {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A log whose ids have other rows than those of the model.
    #[error(
        "{}: the vocabulary of {column} is not that of the training data; prepare the log again with --vocabularies-of",
        folder.display()
    )]
    OtherVocabulary {
        /// The prepared log.
        folder: PathBuf,
        /// Name of the column.
        column: String,
    },
    /// A log whose numbers have other inputs than those of the model.
    #[error(
        "{}: the learnt transform of {column} is not that of the training data; prepare the log again with --vocabularies-of",
        folder.display()
    )]
    OtherTransform {
        /// The prepared log.
        folder: PathBuf,
        /// Name of the column.
        column: String,
    },
    /// A log without samples.
    #[error("{paths}: there are no samples to {split} on")]
    NoSamples {
        /// Paths of the files.
        paths: String,
        /// Split that needs the log: `train` or `eval`.
        split: String,
    },
    /// A split that leaves a part without samples.
    #[error(
        "{paths}: a split of {share} leaves none of the {samples} samples to {part} on; give --split another share"
    )]
    EmptyPart {
        /// Paths of the files.
        paths: String,
        /// Samples of both parts.
        samples: u64,
        /// The share to evaluate on.
        share: f64,
        /// Use of the log: `train` or `evaluate`.
        part: &'static str,
    },
    /// A split without a share.
    #[error("data.split (--split) is missing: give a share of the rows to evaluate on")]
    NoShare,
    /// Several prepared logs where one is read.
    #[error(
        "{count} prepared folders were given for {split}; give one, made from all files by `data prepare`"
    )]
    SeveralPrepared {
        /// Number of files.
        count: usize,
        /// Split that needs the log: `train` or `eval`.
        split: String,
    },
    /// A format that says nothing of columns.
    #[error("the columns of {format} data are not known; describe them in a file and give it with --schema")]
    NoSchema {
        /// The format.
        format: &'static str,
    },
    /// A schema that contradicts itself.
    #[error("the schema")]
    Schema(#[source] spec::schema::SchemaError),
    /// A share that is none.
    #[error("data.max_bad_share: {share} is not a share; use a number from 0 to 1 (0.01 is usual)")]
    BadShare {
        /// Share that was given.
        share: f64,
    },
    /// Logs without samples to train on.
    #[error(
        "a tenth of the training samples is kept for validation, but there are none; give a log with --data"
    )]
    NothingToKeep,
    /// Too few samples to keep some for validation.
    #[error(
        "{samples} samples to train on: too few to keep a share of {share} of them for validation; use at least {}",
        (1.0 / share).ceil()
    )]
    TooFew {
        /// The samples.
        samples: u64,
        /// The share to keep.
        share: f64,
    },
    /// A log without samples to measure on.
    #[error("no samples to read")]
    NothingToRead,
    /// Keys of a log that has no other columns than those of the model.
    #[error(
        "--key: a prepared log has only the columns of the model; give the log that it was prepared from"
    )]
    KeyOfPrepared,
}
