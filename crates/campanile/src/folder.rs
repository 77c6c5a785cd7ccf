//! Folder of a run, which is readable while the run is going on and after it was killed.
//!
//! ```text
//! DIR/config.toml       the run as it was checked        DIR/metrics.jsonl   one record a line, see `metrics`
//! DIR/schedule.txt      one step, for people             DIR/tensorboard/    the same numbers as event files
//! DIR/schedule.json     one step, for programs           DIR/checkpoints/    parameters and optimiser state
//! DIR/summary.json      the results                      DIR/report.html     all of this as a page
//! ```
//!
//! Whole files are replaced at once, records are appended: a reader never sees half a file, and at most one torn line.

pub mod clock;
pub mod metrics;
pub mod outcome;
pub mod tensorboard;

use crate::file::FileError;
pub use crate::file::{PARTIAL, read, read_if_there, replace};
use crate::output::{Inputs, Output, OutputError};
use metrics::MetricsLine;
use std::error::Error;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tensorboard::EventWriter;

/// The run as it was checked.
pub const CONFIG: &str = "config.toml";
/// One step, as `campanile schedule` prints it.
pub const SCHEDULE: &str = "schedule.txt";
/// One step, as `campanile schedule --json` prints it.
pub const SCHEDULE_JSON: &str = "schedule.json";
/// The records.
pub const METRICS: &str = "metrics.jsonl";
/// The results.
pub const SUMMARY: &str = "summary.json";
/// The page.
pub const REPORT: &str = "report.html";
/// Name of the folder of checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";
/// Name of the folder of prepared logs.
pub const PREPARED: &str = "prepared";
/// The vocabularies of the training data, for whoever evaluates the run.
pub const VOCABULARIES: &str = "vocabularies";
/// Locked by the process that trains.
pub const LOCK: &str = "lock";
/// Name of the folder of TensorBoard event files.
pub const TENSORBOARD: &str = "tensorboard";

/// Reason why the folder of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file of the run cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder where no run may be kept.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A folder for a new run that holds something.
    #[error(
        "{0}: the folder is not empty; resume the run in it with --resume {0}, or choose another folder",
        path.display()
    )]
    NotEmpty {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Another process has the folder.
    #[error("{}: another process is training in this folder; wait for it, or choose another folder",
    path.display())]
    InUse {
        /// Path of the folder.
        path: PathBuf,
    },
    /// A value cannot be written as text.
    #[error("{what}")]
    Text {
        /// The value, as `the config as TOML`.
        what: &'static str,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The folder of the vocabularies cannot be made.
    #[error("{}: cannot be created", path.display())]
    Vocabularies {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A vocabulary of the training data cannot be kept.
    #[error("{}: the vocabulary of {feature} cannot be copied", path.display())]
    Vocabulary {
        /// The vocabulary of the prepared log.
        path: PathBuf,
        /// Name of the feature.
        feature: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The learnt transforms of the training data cannot be kept.
    #[error("{}: the learnt transforms cannot be written", path.display())]
    Transforms {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A metric could not be written while the run went on.
    #[error("the run is done, but not all of its metrics could be saved")]
    Metrics(#[source] Box<FolderError>),
    /// The caller's own file could not be added.
    #[error(transparent)]
    Finish(Box<dyn Error + Send + Sync>),
}

/// The folder of a run that is being trained.
#[derive(Debug)]
pub struct RunFolder {
    dir: PathBuf,
    metrics: File,
    events: EventWriter,
    _lock: File,
}

impl RunFolder {
    /// A folder for a new run. One that holds anything is refused, so that no run overwrites another; what a run left
    /// that never began is no hindrance.
    pub fn create(dir: &Path) -> Result<Self, FolderError> {
        Self::check_free(dir)?;
        fs::create_dir_all(dir).map_err(FileError::creating(dir))?;
        Self::open(dir, None, lock(dir)?)
    }

    /// Refuses a folder in which no new run may be kept. Nothing is made or changed.
    pub fn check_free(dir: &Path) -> Result<(), FolderError> {
        Output::check_folder(dir, &Inputs::default())?;
        if !dir.exists() {
            return Ok(());
        }
        let entries = fs::read_dir(dir).map_err(FileError::listing(dir))?;
        for entry in entries {
            let entry = entry.map_err(FileError::listing(dir))?;
            let name = entry.file_name();
            let begun = match name.to_str() {
                Some(METRICS) => entry.metadata().map_or(true, |about| about.len() > 0),
                Some(CHECKPOINTS) => {
                    entry.path().read_dir().map_or(true, |mut inside| inside.next().is_some())
                }
                Some(TENSORBOARD | PREPARED | LOCK) => false,
                Some(name) if name.ends_with(PARTIAL) => false,
                _ => true,
            };
            if begun {
                return Err(FolderError::NotEmpty { path: dir.to_owned() });
            }
        }
        Ok(())
    }

    /// The folder of a run that goes on after `step`, or begins again where that is `None`. Records of later steps are
    /// dropped: those steps are made again.
    pub fn resume(dir: &Path, step: Option<u64>) -> Result<Self, FolderError> {
        let lock = lock(dir)?;
        let path = dir.join(METRICS);
        let text = read_if_there(&path)?.unwrap_or_default();
        let kept = step.map(|step| metrics::up_to(&text, step)).unwrap_or_default();
        replace(&path, kept.as_bytes())?;
        Self::open(dir, Some(step.unwrap_or(0)), lock)
    }

    fn open(dir: &Path, after: Option<u64>, lock: File) -> Result<Self, FolderError> {
        for part in [CHECKPOINTS, TENSORBOARD] {
            let path = dir.join(part);
            fs::create_dir_all(&path).map_err(FileError::creating(&path))?;
        }
        let path = dir.join(METRICS);
        let metrics =
            OpenOptions::new().create(true).append(true).open(&path).map_err(FileError::writing(&path))?;
        let events = EventWriter::create(&dir.join(TENSORBOARD), SystemTime::now(), after)?;
        Ok(Self { dir: dir.to_owned(), metrics, events, _lock: lock })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Folder of the checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.dir.join(CHECKPOINTS)
    }

    /// Writes the file `name`, or replaces it, as a whole.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), FolderError> {
        Ok(replace(&self.dir.join(name), text.as_bytes())?)
    }

    /// Appends a record, and its numbers for TensorBoard. It is in the files when this returns.
    pub fn record(&mut self, record: &MetricsLine) -> Result<(), FolderError> {
        let path = self.dir.join(METRICS);
        let mut line =
            serde_json::to_string(record).map_err(|source| FileError::Json { path: path.clone(), source })?;
        line.push('\n');
        // One call for the whole line: a killed run tears the last line at most.
        self.metrics.write_all(line.as_bytes()).map_err(FileError::writing(&path))?;
        let Some((step, scalars)) = record.scalars() else { return Ok(()) };
        Ok(self.events.write(SystemTime::now(), step, &scalars)?)
    }
}

/// Makes sure that no other process trains in `dir`, for as long as the file is open.
pub(crate) fn lock(dir: &Path) -> Result<File, FolderError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(FileError::writing(&path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(FolderError::InUse { path: dir.to_owned() }),
        // Some file systems know no locks: then the user has to take care.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

#[cfg(test)]
mod tests;
