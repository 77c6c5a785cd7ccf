//! Bad lines: lines of a log that hold no sample. They are counted, the first few are described, and too many of them are an
//! error.
//!
//! ```
//! use data::bad_lines::{BadLine, BadLines, Policy};
//! let mut bad = BadLines { lines: 20_000, ..BadLines::default() };
//! for line in 1..=300 {
//!     bad.push(|| BadLine { file: "day_0".into(), line, field: Some("I3".into()), problem: "got \"x\"".into() });
//! }
//! assert_eq!((bad.count, bad.first.len()), (300, 5));
//! assert!(Policy::default().check(&bad, false).is_err(), "1.5 % of the lines are bad");
//! ```

use crate::DataError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Number of bad lines that are described, at most.
pub const DESCRIBED: usize = 5;

/// Number of lines before which the share of bad lines is not checked.
const ENOUGH_LINES: u64 = 10_000;

/// Description of a line that holds no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// File that holds the line.
    pub file: PathBuf,
    /// Number of the line in its file, from 1.
    pub line: u64,
    /// Name of the column that is wrong, if the problem lies in one column.
    pub field: Option<String>,
    /// Description of the problem.
    pub problem: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // Rows of a table are counted from 0, as programs that make tables do.
        match self.file == Path::new(crate::table::NAME) {
            true => write!(f, "{}, row {}", self.file.display(), self.line.saturating_sub(1))?,
            false => write!(f, "{}, line {}", self.file.display(), self.line)?,
        }
        if let Some(field) = &self.field {
            write!(f, ", column {field}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Bad lines among the lines read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadLines {
    /// Number of bad lines.
    pub count: u64,
    /// Number of lines in all, without headers.
    pub lines: u64,
    /// Descriptions of the first bad lines, [`DESCRIBED`] at most.
    pub first: Vec<BadLine>,
}

impl BadLines {
    /// Adds a bad line. Calls `describe` only for the first [`DESCRIBED`] of them.
    pub fn push(&mut self, describe: impl FnOnce() -> BadLine) {
        self.count += 1;
        if self.first.len() < DESCRIBED {
            self.first.push(describe());
        }
    }

    /// Adds the bad lines of `next`, which follow these in the log, and empties `next`.
    pub fn append(&mut self, next: &mut BadLines) {
        self.count += next.count;
        self.lines += next.lines;
        let room = DESCRIBED - self.first.len().min(DESCRIBED);
        self.first.extend(next.first.drain(..).take(room));
        *next = BadLines { first: std::mem::take(&mut next.first), ..BadLines::default() };
    }

    /// Share of bad lines, between 0 and 1.
    pub fn share(&self) -> f64 {
        if self.lines == 0 { 0.0 } else { self.count as f64 / self.lines as f64 }
    }
}

/// Rule that says how many bad lines are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Whether a single bad line is an error.
    pub strict: bool,
    /// Largest share of bad lines that is accepted, between 0 and 1.
    pub max_share: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self { strict: false, max_share: 0.01 }
    }
}

impl Policy {
    /// Fails if there are too many bad lines for reading to go on, or, `at_end`, for the log to be used.
    pub fn check(&self, bad: &BadLines, at_end: bool) -> Result<(), DataError> {
        if self.strict
            && let Some(first) = bad.first.first()
        {
            return Err(DataError::BadLine(first.clone()));
        }
        let judged = at_end || bad.lines >= ENOUGH_LINES;
        if judged && bad.count as f64 > self.max_share * bad.lines as f64 {
            return Err(DataError::BadLines { bad: bad.clone(), max_share: self.max_share });
        }
        Ok(())
    }
}

/// The beginning of `text` in quotes, escaped where it is not printable ASCII.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    let shown = &text[..text.len().min(LONGEST)];
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests;
