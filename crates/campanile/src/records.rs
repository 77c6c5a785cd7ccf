//! Results of many runs, a line each, so that long work that was stopped goes on where it was.
//!
//! ```
//! use campanile::records::Records;
//! use serde_json::json;
//! let folder = tempfile::tempdir().unwrap();
//! Records::<u64>::open(folder.path(), &json!({ "steps": 4 }))?.append(&7)?;
//! let again = Records::<u64>::open(folder.path(), &json!({ "steps": 4 }))?;
//! assert_eq!(again.all()?, [7]);
//! assert!(Records::<u64>::open(folder.path(), &json!({ "steps": 5 })).is_err());
//! # Ok::<(), campanile::records::RecordsError>(())
//! ```

use crate::event::Notice;
use crate::file::FileError;
use crate::resume::difference;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Name of the file of results in its folder.
pub const RECORDS: &str = "records.jsonl";

/// Reason why results cannot be read or added.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file of results, or its folder, cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is no result.
    #[error("{}, line {line}", path.display())]
    Line {
        /// File of results.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with the line.
        source: serde_json::Error,
    },
    /// A result cannot be written as JSON.
    #[error("{}: a result cannot be written as JSON", path.display())]
    Json {
        /// File of results.
        path: PathBuf,
        /// Error of encoding the result.
        source: serde_json::Error,
    },
    /// A file without a whole line.
    #[error("{}: no results", path.display())]
    Empty {
        /// File of results.
        path: PathBuf,
    },
    /// Results of other settings.
    #[error(
        "{}: the folder holds results of other settings; use the same flags, or choose another folder:{}",
        path.display(), difference::told(differences)
    )]
    OtherSettings {
        /// File of results.
        path: PathBuf,
        /// A line for every setting that differs, with both values.
        differences: Vec<String>,
    },
}

/// Results in `DIR/records.jsonl`. The first line holds the settings that all results have in common.
#[derive(Clone, Debug)]
pub struct Records<T> {
    path: PathBuf,
    kind: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    /// Opens the results in `dir`, which is created if need be. Results of other settings than `what` are refused.
    pub fn open(dir: &Path, what: &Value) -> Result<Self, RecordsError> {
        std::fs::create_dir_all(dir).map_err(FileError::creating(dir))?;
        let records = Self::existing(dir);
        records.cut_off_torn_line()?;
        if records.path.exists() {
            let differences = difference::lines(&records.what()?, what, "the folder");
            if !differences.is_empty() {
                return Err(RecordsError::OtherSettings { path: records.path, differences });
            }
        } else {
            records.append_line(what)?;
        }
        Ok(records)
    }

    /// Results that lie in `dir`, to be read.
    pub fn existing(dir: &Path) -> Self {
        Self { path: dir.join(RECORDS), kind: PhantomData }
    }

    /// File of the results.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Settings that all results have in common.
    pub fn what(&self) -> Result<Value, RecordsError> {
        Ok(self.lines()?.0)
    }

    /// All results so far.
    pub fn all(&self) -> Result<Vec<T>, RecordsError> {
        Ok(self.lines()?.1)
    }

    /// What people are told of results that an earlier start left; `None` where there are none.
    pub fn taken(&self) -> Result<Option<Notice>, RecordsError> {
        let results = self.all()?.len();
        Ok((results > 0).then(|| Notice::Taken { results, path: self.path.clone() }))
    }

    /// Appends a result, which is in the file when this returns.
    pub fn append(&self, record: &T) -> Result<(), RecordsError> {
        self.append_line(record)
    }

    fn append_line(&self, line: &impl Serialize) -> Result<(), RecordsError> {
        let encoded = serde_json::to_string(line);
        let text = encoded.map_err(|source| RecordsError::Json { path: self.path.clone(), source })? + "\n";
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        // One call for the whole line: a killed program tears the last line at most.
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        Ok(written.map_err(FileError::writing(&self.path))?)
    }

    /// A line without an end was being written when the program was killed.
    fn cut_off_torn_line(&self) -> Result<(), RecordsError> {
        let Ok(text) = std::fs::read(&self.path) else { return Ok(()) };
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mended = match whole {
            0 => std::fs::remove_file(&self.path),
            _ if whole == text.len() => Ok(()),
            _ => OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(whole as u64)),
        };
        Ok(mended.map_err(FileError::writing(&self.path))?)
    }

    fn lines(&self) -> Result<(Value, Vec<T>), RecordsError> {
        let text = std::fs::read_to_string(&self.path).map_err(FileError::reading(&self.path))?;
        // A line without an end is being written, or its writer was killed.
        let text = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let mut lines = text.lines().enumerate();
        let wrong = |line: usize| {
            move |source| RecordsError::Line { path: self.path.clone(), line: line + 1, source }
        };
        let (first, what) = lines.next().ok_or_else(|| RecordsError::Empty { path: self.path.clone() })?;
        let what = serde_json::from_str(what).map_err(wrong(first))?;
        let parsed = |(number, text): (usize, &str)| serde_json::from_str(text).map_err(wrong(number));
        Ok((what, lines.map(parsed).collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests;
