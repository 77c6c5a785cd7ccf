//! Reads the texts of a vocabulary's ids, one after the other.

use super::HEADER;
use crate::DataError;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Longest line that is read, in bytes. Fields of logs are shorter.
const LONGEST: usize = 64 << 20;

/// Reader of the file that [`IdTexts`](super::IdTexts) wrote.
pub struct IdTextReader {
    path: PathBuf,
    file: BufReader<File>,
    line: Vec<u8>,
    text: Vec<u8>,
    last_row: u64,
}

/// An id that has a row of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdText<'a> {
    /// Row of the id.
    pub row: u64,
    /// Text of the id.
    pub text: &'a [u8],
    /// How often the id was seen in the training rows.
    pub count: u64,
}

impl IdTextReader {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let refuse = |problem: String| DataError::file(path, problem);
        let file = File::open(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            line: vec![],
            text: vec![],
            last_row: 0,
        };
        reader.read_line()?;
        match reader.line == HEADER {
            true => Ok(reader),
            false => Err(refuse("does not hold texts of ids: its first line is not row,id,count".into())),
        }
    }

    /// Reads the next id; `None` after the last. Rows ascend.
    pub fn next_id(&mut self) -> Result<Option<IdText<'_>>, DataError> {
        self.line.clear();
        // A quoted text may hold line ends: the line ends once its quotes are closed.
        loop {
            if !self.read_line()? {
                break;
            }
            if self.line.iter().filter(|&&byte| byte == b'"').count() % 2 == 0 {
                break;
            }
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        let Some((row, count)) = self.parse() else {
            let after = self.last_row;
            return Err(DataError::file(&self.path, format!("the line after row {after} is damaged")));
        };
        self.last_row = row;
        Ok(Some(IdText { row, text: &self.text, count }))
    }

    /// Appends a line of the file. Returns false at its end.
    fn read_line(&mut self) -> Result<bool, DataError> {
        let before = self.line.len();
        let read = self.file.read_until(b'\n', &mut self.line);
        read.map_err(|error| DataError::file(&self.path, format!("cannot be read: {error}")))?;
        match self.line.len() <= LONGEST {
            true => Ok(self.line.len() > before),
            false => Err(DataError::file(&self.path, "has a line that is too long for texts of ids")),
        }
    }

    /// Row and count of the line; the text goes into `text`.
    fn parse(&mut self) -> Option<(u64, u64)> {
        let line = self.line.strip_suffix(b"\n")?;
        let number = |text: &[u8]| str::from_utf8(text).ok()?.parse::<u64>().ok();
        let first = memchr::memchr(b',', line)?;
        let last = memchr::memrchr(b',', line).filter(|last| *last > first)?;
        let row = number(&line[..first]).filter(|row| *row > self.last_row)?;
        let (field, count) = (&line[first + 1..last], number(&line[last + 1..])?);
        self.text.clear();
        match field.strip_prefix(b"\"") {
            None => self.text.extend_from_slice(field),
            Some(quoted) => {
                let mut quoted = quoted.strip_suffix(b"\"")?.iter();
                while let Some(&byte) = quoted.next() {
                    if byte == b'"' && quoted.next() != Some(&b'"') {
                        return None;
                    }
                    self.text.push(byte);
                }
            }
        }
        Some((row, count))
    }
}
