//! Lines that hold no sample: counted, the first few remembered, and too many of them an error.
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
use std::path::PathBuf;

/// How many bad lines are described.
pub const DESCRIBED: usize = 5;

/// The share of bad lines is not judged before this many lines.
const ENOUGH_LINES: u64 = 10_000;

/// A line that holds no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its file.
    pub file: PathBuf,
    /// Its number, from 1.
    pub line: u64,
    /// The column at fault, where it is one.
    pub field: Option<String>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}, line {}", self.file.display(), self.line)?;
        if let Some(field) = &self.field {
            write!(f, ", column {field}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// The bad ones among some lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadLines {
    /// How many are bad.
    pub count: u64,
    /// How many lines there are in all, without headers.
    pub lines: u64,
    /// The first of the bad ones, [`DESCRIBED`] at most.
    pub first: Vec<BadLine>,
}

impl BadLines {
    /// Adds a bad line; describes it only while there is room.
    pub fn push(&mut self, describe: impl FnOnce() -> BadLine) {
        self.count += 1;
        if self.first.len() < DESCRIBED {
            self.first.push(describe());
        }
    }

    /// Adds the lines that follow these, and empties `next`.
    pub fn append(&mut self, next: &mut BadLines) {
        self.count += next.count;
        self.lines += next.lines;
        let room = DESCRIBED - self.first.len().min(DESCRIBED);
        self.first.extend(next.first.drain(..).take(room));
        *next = BadLines { first: std::mem::take(&mut next.first), ..BadLines::default() };
    }

    /// The share of bad lines.
    pub fn share(&self) -> f64 {
        if self.lines == 0 { 0.0 } else { self.count as f64 / self.lines as f64 }
    }
}

/// How many bad lines are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Whether one is.
    pub strict: bool,
    /// The largest share that is put up with.
    pub max_share: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self { strict: false, max_share: 0.01 }
    }
}

impl Policy {
    /// Whether reading may go on after these lines, or was good enough `at_end`.
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
