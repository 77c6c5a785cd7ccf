//! Records: lines, where a quoted field may hold line ends (RFC 4180).
//!
//! ```text
//! 7,"two          one record of two lines
//! lines",x
//! ```
//!
//! A field is quoted if it begins with a quote. It ends with a quote before a delimiter or a line end; a quote inside is
//! written twice. A quoted field that does not end so, within the file and [`MAX_LINE`] bytes, takes no other line with
//! it: the record then ends with the line on which that field begins, and the next line begins a record.
//!
//! What is decided here depends on the bytes of the record alone. So whoever cuts a text into chunks of records and
//! whoever cuts such a chunk into records agree.

use super::MAX_LINE;
use memchr::{memchr, memchr_iter, memchr2};

/// A record of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record without its line end.
    pub text: &'a [u8],
    /// The line it begins on, counted in the file from 1.
    pub first_line: u64,
    /// The line it ends on.
    pub last_line: u64,
}

/// The records of some text that begins and ends with one.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    delimiter: u8,
    line: u64,
}

impl<'a> Records<'a> {
    /// The records of `text`, which begins on line `first_line` of its file.
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

/// Where the last whole record of `bytes` ends; `complete` where nothing follows them.
pub(super) fn last_end(bytes: &[u8], delimiter: u8, complete: bool) -> Option<usize> {
    let mut last = 0;
    while let Some(end) = record_end(&bytes[last..], delimiter, complete) {
        last += end;
    }
    (last > 0).then_some(last)
}

/// Where the record at the start of `bytes` ends, one past its line end. None where its line end is not among them, or
/// where more bytes would have to be seen, which there are unless the text is `complete`.
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

/// Where a quoted field ends.
enum Closing {
    /// After its closing quote.
    After(usize),
    /// Nowhere.
    None,
    /// In bytes that were not seen yet, if at all.
    Unknown,
}

/// The end of the quoted field whose text begins at `start`.
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
mod tests {
    use super::*;

    fn records(text: &str) -> Vec<(u64, u64, &str)> {
        let records = Records::new(text.as_bytes(), b',', 1);
        records.map(|r| (r.first_line, r.last_line, str::from_utf8(r.text).unwrap())).collect()
    }

    #[test]
    fn quoted_fields_span_lines() {
        assert_eq!(records("a,\"b\nc\",d\ne\n"), [(1, 2, "a,\"b\nc\",d"), (3, 3, "e")]);
        assert_eq!(records("\"\r\n\"\"\n\"\r\nx"), [(1, 3, "\"\r\n\"\"\n\""), (4, 4, "x")]);
        assert_eq!(records("\"a\n\"\n\"b\n\""), [(1, 2, "\"a\n\""), (3, 4, "\"b\n\"")]);
    }

    #[test]
    fn other_quotes_mean_nothing() {
        assert_eq!(records("6\" pipe,1\n7\"\n"), [(1, 1, "6\" pipe,1"), (2, 2, "7\"")]);
    }

    /// The line on which the quote stands is all that an open one takes.
    #[test]
    fn open_quotes_end_with_their_line() {
        assert_eq!(records("a,\"b\nc,d\ne"), [(1, 1, "a,\"b"), (2, 2, "c,d"), (3, 3, "e")]);
        assert_eq!(records("\"said,3\n\"foo\",4\n"), [(1, 1, "\"said,3"), (2, 2, "\"foo\",4")]);
        assert_eq!(records("\"x\ny\",\"z\nw\n"), [(1, 2, "\"x\ny\",\"z"), (3, 3, "w")]);
        let far = format!("\"a\nb\n{}\"\n", "x\n".repeat(MAX_LINE / 2));
        assert_eq!(records(&far)[..2], [(1, 1, "\"a"), (2, 2, "b")]);
    }
}
