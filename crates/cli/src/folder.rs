//! What a run leaves behind: one folder, readable while the run goes on and after it was killed.
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

use crate::output::{Inputs, Output};
use anyhow::{Context, Result, bail};
use metrics::Record;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
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
/// Where checkpoints go.
pub const CHECKPOINTS: &str = "checkpoints";
/// Where logs are prepared.
pub const PREPARED: &str = "prepared";
/// The vocabularies of the training data, for whoever evaluates the run.
pub const VOCABULARIES: &str = "vocabularies";
/// Locked by the process that trains.
pub const LOCK: &str = "lock";
/// Where event files go.
pub const TENSORBOARD: &str = "tensorboard";
/// How the name of a file ends that is not complete.
pub const PARTIAL: &str = ".partial";

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
    pub fn create(dir: &Path) -> Result<Self> {
        Output::check_folder(dir, &Inputs::default())?;
        fs::create_dir_all(dir).with_context(|| format!("{}: cannot be created", dir.display()))?;
        let entries = fs::read_dir(dir).with_context(|| format!("{}: cannot be listed", dir.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("{}: cannot be listed", dir.display()))?;
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
                bail!(
                    "{0}: the folder is not empty; go on with the run in it by --resume {0}, or choose another folder",
                    dir.display()
                );
            }
        }
        Self::open(dir, None, lock(dir)?)
    }

    /// The folder of a run that goes on after `step`, or begins again where that is `None`. Records of later steps are
    /// dropped: those steps are made again.
    pub fn resume(dir: &Path, step: Option<u64>) -> Result<Self> {
        let lock = lock(dir)?;
        let path = dir.join(METRICS);
        let text = read_if_there(&path)?.unwrap_or_default();
        let kept = step.map(|step| metrics::up_to(&text, step)).unwrap_or_default();
        replace(&path, kept.as_bytes())?;
        Self::open(dir, Some(step.unwrap_or(0)), lock)
    }

    fn open(dir: &Path, after: Option<u64>, lock: File) -> Result<Self> {
        for part in [CHECKPOINTS, TENSORBOARD] {
            let path = dir.join(part);
            fs::create_dir_all(&path).with_context(|| format!("{}: cannot be created", path.display()))?;
        }
        let path = dir.join(METRICS);
        let metrics = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        let events = EventWriter::create(&dir.join(TENSORBOARD), SystemTime::now(), after)?;
        Ok(Self { dir: dir.to_owned(), metrics, events, _lock: lock })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Where checkpoints go.
    pub fn checkpoints(&self) -> PathBuf {
        self.dir.join(CHECKPOINTS)
    }

    /// Writes the file `name`, or replaces it, as a whole.
    pub fn write_text(&self, name: &str, text: &str) -> Result<()> {
        replace(&self.dir.join(name), text.as_bytes())
    }

    /// Appends a record, and its numbers for TensorBoard. It is in the files when this returns.
    pub fn record(&mut self, record: &Record) -> Result<()> {
        let path = self.dir.join(METRICS);
        let written = || format!("{}: cannot be written", path.display());
        let mut line = serde_json::to_string(record).with_context(written)?;
        line.push('\n');
        // One call for the whole line: a killed run tears the last line at most.
        self.metrics.write_all(line.as_bytes()).with_context(written)?;
        let Some((step, scalars)) = record.scalars() else { return Ok(()) };
        self.events.write(SystemTime::now(), step, &scalars)
    }
}

/// Makes sure that no other process trains in `dir`, for as long as the file is open.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("{}: cannot be written", path.display()))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("{}: another process is training in it", dir.display()),
        // Some file systems know no locks: then the user has to take care.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// A file's text. What is no UTF-8 is shown as such, not refused.
pub fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// As [`read`]; `None` when there is no such file.
pub fn read_if_there(path: &Path) -> Result<Option<String>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        _ => read(path).map(Some),
    }
}

/// Writes a file beside `path`, then gives it that name: whoever reads sees the old file or the new one. What is no plain
/// file (a pipe, a device) is written to as it is, and a link stays one.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("{}: cannot be written", path.display());
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return fs::write(&target, bytes).with_context(cannot);
    }
    let path = target.as_path();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(PARTIAL);
    let partial = path.with_file_name(name);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&partial, path));
    if replaced.is_err() {
        // It may never have been there.
        let _ = fs::remove_file(&partial);
    }
    replaced.with_context(cannot)
}

#[cfg(test)]
mod tests;
