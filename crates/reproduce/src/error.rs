//! Why a figure cannot be reproduced.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong in a function that the caller of this crate passed to it.
pub type Failure = Box<dyn StdError + Send + Sync>;

/// Why a figure cannot be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error, and what was being done when it occurred.
    #[error("{what}")]
    During {
        /// The case, file or stage that was dealt with.
        what: String,
        /// The error itself.
        source: Box<Error>,
    },
    /// A file or folder that cannot be read, written or created.
    #[error("{}: cannot be {attempt}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was attempted, as a participle: `read`, `written`.
        attempt: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Text that is not the JSON which is expected.
    #[error("{of}")]
    Json {
        /// The file, line or job that the text comes from.
        of: String,
        /// Where the text goes wrong.
        source: serde_json::Error,
    },
    /// Results that cannot be read or added, or are those of other settings.
    #[error(transparent)]
    Records(#[from] campanile::records::RecordsError),
    /// A file that cannot be written as a whole.
    #[error(transparent)]
    Whole(#[from] campanile::file::FileError),
    /// A launcher of jobs without any word.
    #[error("--launcher is empty; give the command that starts ranks, such as mpirun")]
    NoLauncher,
    /// A job that cannot be started.
    #[error("{command}: cannot be started")]
    Start {
        /// The command line.
        command: String,
        /// What the system says.
        source: io::Error,
    },
    /// A job that ended with an error.
    #[error("{command}: {status}\n{output}")]
    Job {
        /// The command line.
        command: String,
        /// How the process ended.
        status: String,
        /// What the job printed.
        output: String,
    },
    /// A job that printed no JSON object.
    #[error("{command} printed no result:\n{output}")]
    NoResult {
        /// The command line.
        command: String,
        /// What the job printed.
        output: String,
    },
    /// A number that the result of a job lacks.
    #[error("{field} is missing in {result}")]
    Missing {
        /// The field of the result.
        field: String,
        /// The whole result.
        result: String,
    },
    /// A factor on the times of computations that is no positive number.
    #[error("--pace-scale {0}: expected a number above 0")]
    PaceScale(f64),
    /// Machine rates of another cluster than the one that is measured.
    #[error(
        "{}: measured on {there} ranks, not on {here} that are {kind}; remove the file to measure again, or pass --hosts and \
         --ranks-per-host as it was measured",
        path.display()
    )]
    OtherCluster {
        /// The system file.
        path: PathBuf,
        /// Hosts × ranks per host in the file.
        there: String,
        /// Hosts × ranks per host of this measurement.
        here: String,
        /// What the ranks are.
        kind: &'static str,
    },
    /// Runs that have no AUC to be compared by.
    #[error("the evaluation samples have one label only, so there is no AUC")]
    NoAuc,
    /// Formats of the wire that cannot be read.
    #[error("{row}: {problem}")]
    Format {
        /// Name of the row.
        row: &'static str,
        /// Reason why the formats cannot be read.
        problem: String,
    },
    /// A list of strategies without any.
    #[error("--strategies is empty; name at least one strategy")]
    NoStrategy,
    /// A feature that belongs to none of the groups planted in a log.
    #[error("feature {0} is in no group")]
    NoGroup(String),
    /// A figure of a paper that no simulator redoes under this name.
    #[error("there is no figure {0}; `campanile reproduce --help` lists them")]
    NoFigure(String),
    /// Models to choose the fastest of, where there are none.
    #[error("there are no models to choose from")]
    NoModel,
    /// A cluster without ranks.
    #[error("the cluster has no ranks")]
    NoRanks,
    /// A model that is not consistent.
    #[error(transparent)]
    Model(#[from] spec::model::ModelError),
    /// A run that is not consistent.
    #[error(transparent)]
    Run(#[from] spec::run::RunError),
    /// Times of computations that do not fit a schedule.
    #[error(transparent)]
    Pace(#[from] spec::pace::PaceError),
    /// Machine rates that lack something or are not sensible.
    #[error(transparent)]
    Rates(#[from] spec::machine_rates::MachineRatesError),
    /// A system that is not known.
    #[error(transparent)]
    System(#[from] planning::system::SystemError),
    /// A model of a paper that is not known, or does not fit a cluster.
    #[error(transparent)]
    Trained(#[from] planning::trained::TrainedError),
    /// A layered model or a strategy that cannot be.
    #[error(transparent)]
    Workload(#[from] planning::workload::WorkloadError),
    /// Features that cannot be divided into towers as asked for.
    #[error(transparent)]
    Partition(#[from] planning::partitioner::PartitionError),
    /// What went wrong in a function that the caller passed.
    #[error(transparent)]
    Program(Failure),
}

/// Says of an error what was being done when it occurred.
pub(crate) trait During<T> {
    /// Wraps an error into [`Error::During`].
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Error>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::During { what: what(), source: Box::new(error.into()) })
    }
}

impl Error {
    /// The message of the error and of all its causes, joined by colons.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = StdError::source(self);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }

    /// A file or folder that cannot be what `attempt` says, a participle.
    pub(crate) fn file(path: &std::path::Path, attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), attempt, source }
    }

    /// Text from `of` that is not the JSON which is expected.
    pub(crate) fn json(of: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let of = of.into();
        move |source| Self::Json { of, source }
    }
}
