//! Texts of the ids that have rows of their own, for people and other programs.
//!
//! A vocabulary holds keys, from which no text can be had again. So the texts are collected while samples are written, and
//! stand in a file beside the vocabulary, as CSV quoted by RFC 4180:
//!
//! ```text
//! row,id,count
//! 1,Oslo,4711
//! 2,"Bergen, west",17
//! ```
//!
//! Row 0 is for missing ids and all that have no row, and has no line. `count` is how often the id was seen in the training
//! rows. A text is kept on disk from the moment that it is found; in memory an id takes nine bytes.

mod read;

pub use read::{IdText, IdTextReader};

use super::Vocabulary;
use crate::DataError;
use crate::embeddings::write_id;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Largest size of the collected texts that are read into memory at once, in bytes.
const AT_ONCE: u64 = 16 << 20;
/// Size of the buffer in front of the temporary file, in bytes.
const BUFFER: usize = 64 << 10;
/// Offset of a row whose text was not found.
const NOWHERE: u64 = u64::MAX;

/// Collector of the texts of a vocabulary's ids. Threads share one.
#[derive(Debug)]
pub struct IdTexts {
    folder: PathBuf,
    /// A bit for each row whose text is known, row 0 included.
    known: Vec<AtomicU64>,
    found: Mutex<Found>,
}

/// Texts in a temporary file, each after its length.
#[derive(Debug)]
struct Found {
    file: BufWriter<File>,
    /// Offset of the text of each row in the file.
    offsets: Vec<u64>,
    end: u64,
    /// First error of writing. The threads that parse cannot end reading.
    error: Option<io::Error>,
}

impl IdTexts {
    /// Collector for the ids of `vocabulary`, with a temporary file in `folder`.
    pub fn new(vocabulary: &Vocabulary, folder: &Path) -> Result<Self, DataError> {
        let rows = vocabulary.rows();
        let file = tempfile::tempfile_in(folder).map_err(|error| DataError::file(folder, error))?;
        let known: Vec<AtomicU64> = (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        if let Some(first) = known.first() {
            first.store(1, Ordering::Relaxed);
        }
        let offsets = vec![NOWHERE; rows];
        let found = Found { file: BufWriter::with_capacity(BUFFER, file), offsets, end: 0, error: None };
        Ok(Self { folder: folder.to_owned(), known, found: Mutex::new(found) })
    }

    /// Memory that the collector takes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.known.len() as u64 * (8 + 64 * 8) + BUFFER as u64
    }

    /// Takes the texts of ids, each with its row.
    pub(crate) fn offer<'a>(&self, ids: impl Iterator<Item = (u64, &'a [u8])>) {
        for (row, text) in ids {
            let Some(word) = self.known.get((row / 64) as usize) else { continue };
            let bit = 1 << (row % 64);
            if word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
                self.found.lock().unwrap_or_else(PoisonError::into_inner).push(row as usize, text);
            }
        }
    }

    /// Writes the texts to the file at `path`, in the order of rows, with the `counts` of rows 1, 2, and so on.
    pub fn write(self, counts: &[u64], path: &Path) -> Result<(), DataError> {
        let Found { file, offsets, end, error } =
            self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lost = |error: io::Error| DataError::file(&self.folder, format!("texts of ids: {error}"));
        error.map_or(Ok(()), |error| Err(lost(error)))?;
        let mut file = file.into_inner().map_err(|error| lost(error.into_error()))?;
        let mut whole = vec![];
        if end <= AT_ONCE {
            file.rewind().and_then(|()| file.read_to_end(&mut whole)).map_err(lost)?;
        }
        let refuse = |error: io::Error| DataError::file(path, error);
        let mut out = BufWriter::with_capacity(256 << 10, File::create(path).map_err(refuse)?);
        out.write_all(HEADER).map_err(refuse)?;
        let mut text = vec![];
        for ((row, &offset), count) in offsets.iter().enumerate().skip(1).zip(counts) {
            // A row without a text would be a defect; the line is left out, and readers say which row has no text.
            if offset == NOWHERE {
                continue;
            }
            match end <= AT_ONCE {
                true => read_text(&mut whole.get(offset as usize..).unwrap_or_default(), &mut text),
                false => file.seek(SeekFrom::Start(offset)).and_then(|_| read_text(&mut file, &mut text)),
            }
            .map_err(lost)?;
            write_id(&mut out, row as u64, &text, *count).map_err(refuse)?;
        }
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(refuse)
    }
}

/// First line of a file of texts.
pub const HEADER: &[u8] = b"row,id,count\n";

impl Found {
    fn push(&mut self, row: usize, text: &[u8]) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let text = &text[..length as usize];
        let written = self.file.write_all(&length.to_le_bytes()).and_then(|()| self.file.write_all(text));
        match written {
            Err(error) => {
                self.error.get_or_insert(error);
            }
            Ok(()) => {
                self.offsets[row] = self.end;
                self.end += 4 + u64::from(length);
            }
        }
    }
}

fn read_text(file: &mut impl Read, text: &mut Vec<u8>) -> io::Result<()> {
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    text.resize(u32::from_le_bytes(length) as usize, 0);
    file.read_exact(text)
}

#[cfg(test)]
mod tests;
