//! Cuts a stream of bytes into chunks of whole lines.
//!
//! Lines end with `\n` or `\r\n`; the last one may lack it. A UTF-8 byte order mark at the start is dropped. A line of
//! [`MAX_LINE`] bytes or more is not kept: a chunk without bytes stands for it. If fields may be quoted
//! ([`Chunks::quoted`]), chunks hold whole records, whose quoted fields may hold line ends.
//!
//! ```
//! use data::lines::{Chunk, Chunks};
//! let mut chunks = Chunks::new("a\nbc\nd".as_bytes(), "log.tsv".as_ref(), 4);
//! let mut chunk = Chunk::default();
//! let mut seen = vec![];
//! while chunks.next(&mut chunk)? {
//!     seen.push((chunk.first_line, String::from_utf8(chunk.bytes.clone()).unwrap()));
//! }
//! assert_eq!(seen, [(1, "a\n".to_owned()), (2, "bc\n".to_owned()), (3, "d".to_owned())]);
//! # Ok::<(), data::DataError>(())
//! ```

mod records;

use crate::DataError;
use memchr::{memchr, memchr_iter, memrchr};
pub use records::{Record, Records};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Usual size of a chunk, in bytes.
pub const CHUNK: usize = 1 << 20;

/// Length in bytes from which a line is too long to be read.
pub const MAX_LINE: usize = 1 << 20;

/// Consecutive lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Text of the lines, with their line ends.
    pub bytes: Vec<u8>,
    /// Number of the first line in its file, from 1.
    pub first_line: u64,
    /// Number of lines.
    pub lines: u64,
    /// Whether the chunk stands for a line, or a record, that was too long to be kept. Such a chunk has no bytes.
    pub too_long: bool,
}

impl Chunk {
    /// Lines without their line ends.
    pub fn lines(&self) -> Lines<'_> {
        Lines { rest: &self.bytes }
    }

    /// Records without their line ends, in text whose fields are separated by `delimiter` and may be quoted.
    pub fn records(&self, delimiter: u8) -> Records<'_> {
        Records::new(&self.bytes, delimiter, self.first_line)
    }
}

/// Iterator over lines without their line ends.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Cuts a file into chunks.
#[derive(Debug)]
pub struct Chunks<R> {
    reader: R,
    path: PathBuf,
    /// Size of a chunk in bytes, unless a line is longer.
    size: usize,
    /// Delimiter of text whose fields may be quoted; `None` if quotes have no meaning.
    quotes: Option<u8>,
    /// The beginning of the next chunk.
    rest: Vec<u8>,
    next_line: u64,
    /// Number of bytes that were read.
    bytes: u64,
    ended: bool,
}

impl<R: Read> Chunks<R> {
    /// Cuts the lines of `reader` into chunks of about `size` bytes. Errors name `path`.
    pub fn new(reader: R, path: &Path, size: usize) -> Self {
        let size = size.clamp(1, MAX_LINE);
        let path = path.to_owned();
        Self { reader, path, size, quotes: None, rest: vec![], next_line: 1, bytes: 0, ended: false }
    }

    /// Cuts only at the ends of records, if there is a `delimiter` of text whose fields may be quoted.
    pub fn quoted(self, delimiter: Option<u8>) -> Self {
        Self { quotes: delimiter, ..self }
    }

    /// Number of bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the header: the first line, or record, without its line end. `None` for an empty file.
    pub fn header(&mut self) -> Result<Option<Vec<u8>>, DataError> {
        let mut chunk = Chunk::default();
        if !self.next(&mut chunk)? {
            return Ok(None);
        }
        if chunk.too_long {
            let problem =
                format!("the first line, which should name the columns, has {MAX_LINE} bytes or more");
            return Err(DataError::file(&self.path, problem));
        }
        let first = match self.quotes {
            Some(delimiter) => chunk.records(delimiter).next().map(|r| (r.text.to_vec(), r.last_line)),
            None => chunk.lines().next().map(|line| (line.to_vec(), 1)),
        };
        let (header, last_line) = first.unwrap_or((vec![], 1));
        let mut ends = memchr_iter(b'\n', &chunk.bytes).skip(last_line as usize - 1);
        let end = ends.next().map_or(chunk.bytes.len(), |end| end + 1);
        chunk.bytes.drain(..end);
        chunk.bytes.append(&mut self.rest);
        self.rest = chunk.bytes;
        self.next_line = last_line + 1;
        Ok(Some(header))
    }

    /// Returns the beginning of the file, as many bytes as a chunk has, without consuming it.
    pub fn peek(&mut self) -> Result<&[u8], DataError> {
        let mut beginning = std::mem::take(&mut self.rest);
        let at_start = self.bytes == 0;
        self.fill(&mut beginning, self.size.max(3))?;
        if at_start && beginning.starts_with(b"\xef\xbb\xbf") {
            beginning.drain(..3);
        }
        self.rest = beginning;
        Ok(&self.rest)
    }

    /// Replaces the contents of `chunk` by the next lines. Returns false if none are left.
    pub fn next(&mut self, chunk: &mut Chunk) -> Result<bool, DataError> {
        let bytes = &mut chunk.bytes;
        bytes.clear();
        bytes.append(&mut self.rest);
        let at_start = self.bytes == 0;
        // The byte order mark has three bytes.
        self.fill(bytes, if at_start { self.size.max(3) } else { self.size })?;
        if at_start && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        let mut searched = 0;
        let end = loop {
            if let Some(end) = self.last_end(bytes, searched) {
                break end;
            }
            searched = bytes.len();
            if searched >= MAX_LINE {
                return self.skip(chunk).map(|()| true);
            }
            if self.ended {
                break searched;
            }
            // A record is searched from its beginning each time, so that its bytes must grow fast.
            let more = if self.quotes.is_some() { self.size.max(searched) } else { self.size };
            self.fill(bytes, MAX_LINE.min(searched + more))?;
        };
        self.rest.extend_from_slice(&bytes[end..]);
        bytes.truncate(end);
        let open = bytes.last().is_some_and(|&last| last != b'\n');
        chunk.lines = memchr_iter(b'\n', bytes).count() as u64 + u64::from(open);
        chunk.first_line = self.next_line;
        chunk.too_long = false;
        self.next_line += chunk.lines;
        Ok(chunk.lines > 0)
    }

    /// End of the last line or record in `bytes`, if one ends after the first `searched` bytes.
    fn last_end(&self, bytes: &[u8], searched: usize) -> Option<usize> {
        match self.quotes {
            Some(delimiter) if memchr(b'"', bytes).is_some() => {
                records::last_end(bytes, delimiter, self.ended)
            }
            _ => memrchr(b'\n', &bytes[searched..]).map(|end| searched + end + 1),
        }
    }

    /// Skips to the end of a line that is too long. Of a record that is too long, all lines that were read are skipped.
    fn skip(&mut self, chunk: &mut Chunk) -> Result<(), DataError> {
        let bytes = &mut chunk.bytes;
        if let Some(end) = memrchr(b'\n', bytes) {
            let lines = memchr_iter(b'\n', &bytes[..=end]).count() as u64;
            self.rest.extend_from_slice(&bytes[end + 1..]);
            bytes.clear();
            let bytes = std::mem::take(bytes);
            *chunk = Chunk { bytes, first_line: self.next_line, lines, too_long: true };
            self.next_line += lines;
            return Ok(());
        }
        while !self.ended {
            bytes.clear();
            self.fill(bytes, self.size)?;
            if let Some(end) = memchr(b'\n', bytes) {
                self.rest.extend_from_slice(&bytes[end + 1..]);
                break;
            }
        }
        bytes.clear();
        *chunk = Chunk { bytes: std::mem::take(bytes), first_line: self.next_line, lines: 1, too_long: true };
        self.next_line += 1;
        Ok(())
    }

    /// Reads until `bytes` has `length` bytes or the stream ends.
    fn fill(&mut self, bytes: &mut Vec<u8>, length: usize) -> Result<(), DataError> {
        let mut filled = bytes.len();
        if filled < length {
            bytes.reserve_exact(length - filled);
            bytes.resize(length, 0);
        }
        while filled < bytes.len() && !self.ended {
            match self.reader.read(&mut bytes[filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => {
                    filled += read;
                    self.bytes += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(DataError::file(&self.path, error)),
            }
        }
        bytes.truncate(filled);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
