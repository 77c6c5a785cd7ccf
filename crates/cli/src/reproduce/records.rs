//! The results of many runs, a line each, so that a measurement that was stopped goes on where it was.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Results in `DIR/records.jsonl`. The first line says what is measured.
pub struct Records<T> {
    path: PathBuf,
    kind: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    /// Those in `dir`, which is made if need be. What they measure must be `what`.
    pub fn open(dir: &Path, what: &Value) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("{}: cannot be created", dir.display()))?;
        let records = Self { path: dir.join("records.jsonl"), kind: PhantomData };
        records.cut_off_torn_line()?;
        if records.path.exists() {
            let (measured, _) = records.lines()?;
            ensure!(
                measured == *what,
                "{}: results of something else; go on with the same flags, or choose another folder.\n  there {measured}\n  \
                 here  {what}",
                records.path.display()
            );
        } else {
            records.append_line(what)?;
        }
        Ok(records)
    }

    /// Those that lie in `dir`, to look at.
    pub fn existing(dir: &Path) -> Self {
        Self { path: dir.join("records.jsonl"), kind: PhantomData }
    }

    /// What they measure.
    pub fn what(&self) -> Result<Value> {
        Ok(self.lines()?.0)
    }

    /// All results so far.
    pub fn all(&self) -> Result<Vec<T>> {
        Ok(self.lines()?.1)
    }

    /// One more.
    pub fn append(&self, record: &T) -> Result<()> {
        self.append_line(record)
    }

    fn append_line(&self, line: &impl Serialize) -> Result<()> {
        let named = || format!("{}: cannot be written", self.path.display());
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).with_context(named)?;
        file.write_all((serde_json::to_string(line)? + "\n").as_bytes()).with_context(named)
    }

    /// A line without an end was being written when the program was killed.
    fn cut_off_torn_line(&self) -> Result<()> {
        let Ok(text) = std::fs::read(&self.path) else { return Ok(()) };
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let named = || format!("{}: cannot be mended", self.path.display());
        if whole == 0 {
            return std::fs::remove_file(&self.path).with_context(named);
        }
        if whole < text.len() {
            let file = OpenOptions::new().write(true).open(&self.path).with_context(named)?;
            file.set_len(whole as u64).with_context(named)?;
        }
        Ok(())
    }

    fn lines(&self) -> Result<(Value, Vec<T>)> {
        let named = || format!("{}: cannot be read", self.path.display());
        let text = std::fs::read_to_string(&self.path).with_context(named)?;
        // A line without an end is being written, or its writer was killed.
        let text = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let parsed = |(number, line): (usize, &str)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}, line {}", self.path.display(), number + 1))
        };
        let what = text.lines().next().with_context(|| format!("{}: it is empty", self.path.display()))?;
        let what = serde_json::from_str(what).with_context(|| format!("{}, line 1", self.path.display()))?;
        let rest = text.lines().enumerate().skip(1).map(parsed).collect::<Result<_>>()?;
        Ok((what, rest))
    }
}
