//! Records: lines of a log whose quoted fields may hold line ends (RFC 4180).
//!
//! ```text
//! 7,"two          one record of two lines
//! lines",x
//! ```
//!
//! A field is quoted if it begins with a quote. It ends with a quote before a delimiter or a line end; a quote inside is
//! written twice. If a quoted field does not end like this, within the file and [`MAX_LINE`] bytes, the record ends with the
//! line on which that field begins, and the next line begins a new record.
//!
//! The end of a record depends on the bytes of the record alone. So the code that cuts a text into chunks of records and the
//! code that cuts a chunk into records agree.

use super::MAX_LINE;
use memchr::{memchr, memchr_iter, memchr2};

/// A record of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record without its line end.
    pub text: &'a [u8],
    /// Number of the line on which the record begins, counted in the file from 1.
    pub first_line: u64,
    /// Number of the line on which the record ends.
    pub last_line: u64,
}

/// Iterator over the records of a text that consists of whole records.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    delimiter: u8,
    line: u64,
}

impl<'a> Records<'a> {
    /// Iterates over the records of `text`, which begins on line `first_line` of its file.
    pub fn new(text: &'a [u8], delimiter: u8, first_line: u64) -> Self {
        Self { rest: text, delimiter, line: first_line }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = record_end(self.rest, self.delimiter, true).unwrap_or(self.rest.len());
        let (record, rest) = self.rest.split_at(end);
        self.rest = rest;
        let text = record.strip_suffix(b"\n").unwrap_or(record);
        let first_line = self.line;
        let last_line = first_line + memchr_iter(b'\n', text).count() as u64;
        self.line = last_line + 1;
        Some(Record { text: text.strip_suffix(b"\r").unwrap_or(text), first_line, last_line })
    }
}

/// End of the last whole record of `bytes`; `complete` says that nothing follows them.
pub(super) fn last_end(bytes: &[u8], delimiter: u8, complete: bool) -> Option<usize> {
    let mut last = 0;
    while let Some(end) = record_end(&bytes[last..], delimiter, complete) {
        last += end;
    }
    (last > 0).then_some(last)
}

/// End of the record at the start of `bytes`, one past its line end. `None` if the line end is not among the bytes, or if more
/// bytes are needed to decide, unless the text is `complete`.
fn record_end(bytes: &[u8], delimiter: u8, complete: bool) -> Option<usize> {
    let complete = complete || bytes.len() >= MAX_LINE;
    let bytes = &bytes[..bytes.len().min(MAX_LINE)];
    let mut at = 0;
    loop {
        let found = at + memchr2(b'"', b'\n', &bytes[at..])?;
        if bytes[found] == b'\n' {
            return Some(found + 1);
        }
        at = found + 1;
        let opens = found == 0 || bytes[found - 1] == delimiter;
        if !opens {
            continue;
        }
        match closing(bytes, at, delimiter, complete) {
            Closing::After(end) => at = end,
            Closing::Unknown => return None,
            Closing::None => return memchr(b'\n', &bytes[at..]).map(|end| at + end + 1),
        }
    }
}

/// End of a quoted field.
enum Closing {
    /// The field ends at this offset, after its closing quote.
    After(usize),
    /// The field does not end.
    None,
    /// The end, if there is one, lies in bytes that were not read yet.
    Unknown,
}

/// Finds the end of the quoted field whose text begins at `start`.
fn closing(bytes: &[u8], start: usize, delimiter: u8, complete: bool) -> Closing {
    let mut at = start;
    loop {
        let unseen = || if complete { Closing::None } else { Closing::Unknown };
        let Some(quote) = memchr(b'"', &bytes[at..]) else { return unseen() };
        let end = at + quote + 1;
        match bytes.get(end..).unwrap_or_default() {
            [b'"', ..] => at = end + 1,
            [b'\n', ..] | [b'\r', b'\n', ..] => return Closing::After(end),
            [byte, ..] if *byte == delimiter => return Closing::After(end),
            [] | [b'\r'] if complete => return Closing::After(end),
            [] | [b'\r'] => return Closing::Unknown,
            _ => return Closing::None,
        }
    }
}

#[cfg(test)]
mod tests;
