//! Prepares logs in a folder, or finds them prepared there.

use super::{LogError, MEMORY, Raw, Tables, is_table};
use crate::control::Control;
use crate::event::{Event, Unit};
use data::DataError;
use data::bad_lines::{BadLines, Policy};
use data::prepare::{self, Learnt, LearntDifference, PrepareProgress, RawLog};
use data::prepared::{LogSource, Manifest, PreparedLog};
use spec::run::{DataConfig, DataFormat};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Prepares logs in a folder.
pub(super) struct Preparer {
    pub(super) folder: PathBuf,
    pub(super) scratch: Option<Arc<TempDir>>,
    pub(super) control: Control,
    /// Tables that stand for files.
    pub(super) tables: Tables,
    /// Whether logs are prepared; otherwise everything is there already.
    pub(super) prepares: bool,
}

impl Preparer {
    /// Prepares in `keep`, or in a temporary folder.
    pub(super) fn new(keep: Option<&Path>, control: &Control) -> Result<Self, LogError> {
        let (folder, scratch) = match keep {
            Some(keep) => (keep.to_owned(), None),
            None => {
                let scratch = tempfile::Builder::new().prefix("campanile-").tempdir();
                let scratch =
                    scratch.map_err(|source| LogError::NoScratch { path: std::env::temp_dir(), source })?;
                (scratch.path().to_owned(), Some(Arc::new(scratch)))
            }
        };
        Ok(Self { folder, scratch, control: control.clone(), tables: Tables::default(), prepares: true })
    }

    /// Reads these tables where paths stand for one.
    pub(super) fn with_tables(self, tables: &Tables) -> Self {
        Self { tables: tables.clone(), ..self }
    }

    /// The log at `paths`, whose vocabularies and transforms must be those of `like` where one is given.
    pub(super) fn open(
        &self,
        data: &DataConfig,
        paths: &[String],
        split: &str,
        like: Option<&Learnt>,
    ) -> Result<Arc<PreparedLog>, LogError> {
        let log = if data.format == Some(DataFormat::Prepared) {
            let log = open_prepared(paths, split)?;
            let other = like.map(|like| difference(&log, like)).transpose()?.flatten();
            let folder = log.folder().to_owned();
            match other {
                None => {}
                Some(LearntDifference::Vocabulary(column)) => {
                    return Err(LogError::OtherVocabulary { folder, column });
                }
                Some(LearntDifference::Transform(column)) => {
                    return Err(LogError::OtherTransform { folder, column });
                }
            }
            log
        } else {
            self.with_remedy(self.prepare(data, paths, split, like)?)
        };
        match log.manifest().samples {
            0 => Err(LogError::NoSamples { paths: paths.join(" "), split: split.into() }),
            _ => Ok(Arc::new(log)),
        }
    }

    /// The log, which tells users what to do about damage where it lies in the folder of a run.
    pub(super) fn with_remedy(&self, log: PreparedLog) -> PreparedLog {
        if self.scratch.is_some() {
            return log;
        }
        let folder = self.folder.display();
        log.with_remedy(format!("delete {folder}, and the same command makes it anew from the data"))
    }

    /// Prepares the log at `paths`, or finds it prepared.
    fn prepare(
        &self,
        data: &DataConfig,
        paths: &[String],
        split: &str,
        like: Option<&Learnt>,
    ) -> Result<PreparedLog, LogError> {
        let folder = self.folder.join(split);
        if !self.prepares {
            return PreparedLog::open(&folder).map_err(LogError::OfFirstRank);
        }
        let table = self.tables.of(split);
        if is_table(paths) && table.is_none() {
            // A run that goes on has its table as it was prepared.
            return PreparedLog::open(&folder).map_err(|_| LogError::NoTable);
        }
        let raw = Raw::of_table(data, paths, table)?;
        let source = LogSource::of(raw.format.name(), &raw.files)?;
        // What an earlier command prepared from the same files, in the same way, and would not refuse today.
        let same = |log: &PreparedLog| {
            let manifest = log.manifest();
            let alike = like.is_none_or(|like| difference(log, like).is_ok_and(|other| other.is_none()));
            manifest.source == source
                && manifest.schema == raw.schema
                && bearable(manifest, &raw.policy)
                && alike
        };
        let kept = if raw.table.is_some() { None } else { PreparedLog::open(&folder).ok().filter(same) };
        if let Some(log) = kept {
            self.control.notice_bad_lines(log.manifest().bad_lines.count, &log.manifest().bad_lines.lines);
            return Ok(log);
        }
        let log = RawLog { stop: Some(self.control.stop_flag()), ..raw.log(MEMORY) };
        let manifest = self
            .control
            .reading(&format!("reading {split} data"), |step| prepare::prepare(&log, &folder, like, step))?;
        self.control.notice_bad_lines(manifest.bad_lines.count, &manifest.bad_lines.lines);
        Ok(PreparedLog::open(&folder)?)
    }
}

impl Control {
    /// Runs `work`, which reads a log, and tells how far it is.
    pub(super) fn reading<T>(
        &self,
        name: &str,
        work: impl FnOnce(&(dyn Fn(PrepareProgress) + Sync)) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let _reading = self.start(name, 0, Unit::Bytes);
        work(&|step| self.tell(Event::Reading(step)))
    }
}

/// Whether the bad lines of a log that was prepared earlier would not be refused today.
pub(super) fn bearable(manifest: &Manifest, policy: &Policy) -> bool {
    let count = manifest.bad_lines.count;
    let bad = BadLines { count, lines: manifest.samples + count, first: vec![] };
    policy.check(&bad, true).is_ok() && !(policy.strict && count > 0)
}

/// The prepared log that `paths` name.
pub(super) fn open_prepared(paths: &[String], split: &str) -> Result<PreparedLog, LogError> {
    let [folder] = paths else {
        return Err(LogError::SeveralPrepared { count: paths.len(), split: split.into() });
    };
    Ok(PreparedLog::open(Path::new(folder))?)
}

/// A column whose ids have other rows in `log`, or whose numbers other inputs, than what was learnt in `like` gives them.
pub(super) fn difference(log: &PreparedLog, like: &Learnt) -> Result<Option<LearntDifference>, DataError> {
    Ok(Learnt::of(log)?.difference(like, &log.manifest().schema))
}
