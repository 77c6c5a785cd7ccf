//! Results of many runs, a line each, so that a measurement that was stopped goes on where it was.

use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Results in `DIR/records.jsonl`. The first line holds the settings of the measurement.
pub struct Records<T> {
    path: PathBuf,
    kind: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    /// Opens the results in `dir`, which is created if need be. Results that were measured with other settings than `what` are
    /// refused.
    pub fn open(dir: &Path, what: &Value) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(Error::file(dir, "created"))?;
        let records = Self { path: dir.join("records.jsonl"), kind: PhantomData };
        records.cut_off_torn_line()?;
        if records.path.exists() {
            let (measured, _) = records.lines()?;
            if measured != *what {
                let (there, here) = (measured.to_string(), what.to_string());
                return Err(Error::OtherMeasurement { path: records.path, there, here });
            }
        } else {
            records.append_line(what)?;
        }
        Ok(records)
    }

    /// Results that lie in `dir`, to be read.
    pub fn existing(dir: &Path) -> Self {
        Self { path: dir.join("records.jsonl"), kind: PhantomData }
    }

    /// Settings that the results were measured with.
    pub fn what(&self) -> Result<Value> {
        Ok(self.lines()?.0)
    }

    /// All results so far.
    pub fn all(&self) -> Result<Vec<T>> {
        Ok(self.lines()?.1)
    }

    /// Appends a result.
    pub fn append(&self, record: &T) -> Result<()> {
        self.append_line(record)
    }

    fn append_line(&self, line: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(line).map_err(Error::json("a result"))? + "\n";
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file(&self.path, "written"))
    }

    /// A line without an end was being written when the program was killed.
    fn cut_off_torn_line(&self) -> Result<()> {
        let Ok(text) = std::fs::read(&self.path) else { return Ok(()) };
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mended = match whole {
            0 => std::fs::remove_file(&self.path),
            _ if whole == text.len() => Ok(()),
            _ => OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(whole as u64)),
        };
        mended.map_err(Error::file(&self.path, "mended"))
    }

    fn lines(&self) -> Result<(Value, Vec<T>)> {
        let text = std::fs::read_to_string(&self.path).map_err(Error::file(&self.path, "read"))?;
        // A line without an end is being written, or its writer was killed.
        let text = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let line = |number: usize| format!("{}, line {}", self.path.display(), number + 1);
        let parsed = |(number, text): (usize, &str)| {
            serde_json::from_str(text).map_err(|error| Error::json(line(number))(error))
        };
        let what = text.lines().next().ok_or_else(|| Error::NoRecords(self.path.clone()))?;
        let what = serde_json::from_str(what).map_err(|error| Error::json(line(0))(error))?;
        let rest = text.lines().enumerate().skip(1).map(parsed).collect::<Result<_>>()?;
        Ok((what, rest))
    }
}

#[cfg(test)]
mod tests;
