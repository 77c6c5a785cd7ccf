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
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_measurement_goes_on_after_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new");
        let records = Records::<u64>::open(&dir, &json!({ "steps": 4 })).unwrap();
        records.append(&1).unwrap();
        let path = dir.join("records.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"22").unwrap();
        assert_eq!(records.all().unwrap(), [1], "a line without an end does not count");
        let again = Records::<u64>::open(&dir, &json!({ "steps": 4 })).unwrap();
        again.append(&3).unwrap();
        assert_eq!(again.all().unwrap(), [1, 3]);
    }

    #[test]
    fn results_of_other_settings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        Records::<u64>::open(folder.path(), &json!({ "steps": 4 })).unwrap();
        let Err(error) = Records::<u64>::open(folder.path(), &json!({ "steps": 5 })) else {
            panic!("other settings were accepted")
        };
        assert!(matches!(error, Error::OtherMeasurement { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("records.jsonl: the folder holds results of other settings")
                && text.contains("there {"),
            "{text}"
        );
    }

    #[test]
    fn a_line_that_is_no_result_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::<u64>::open(folder.path(), &json!({})).unwrap();
        std::fs::write(folder.path().join("records.jsonl"), "{}\n1\n\"two\"\n").unwrap();
        let text = records.all().unwrap_err().chain();
        assert!(text.contains("records.jsonl, line 3: invalid type"), "{text}");
    }
}
