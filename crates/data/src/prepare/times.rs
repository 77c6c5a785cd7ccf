//! Finds the latest times of a column, exactly and in bounded memory.
//!
//! A time becomes a key of 32 bytes that sorts as time does: the bits of a number, changed so that they sort, or the beginning
//! of a text. The keys go to a temporary file. The key at a given position from the end is found by counting, two bytes at a
//! time, until the keys with the same beginning fit into memory.

use crate::DataError;
use crate::bad_lines::excerpt;
use crate::number::finite;
use spec::schema::Schema;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Length of a key, in bytes.
const BYTES: usize = 32;
/// Number of keys that are sorted in memory.
const IN_MEMORY: u64 = 1 << 20;

/// A time, as bytes that sort as time does.
pub(super) type Key = [u8; BYTES];

/// Conversion of the texts of a column to keys.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    missing: Vec<Vec<u8>>,
}

/// Time of a row according to its field.
pub(super) enum Time {
    Missing,
    Number(Key),
    Text(Key),
}

impl Keys {
    pub fn new(schema: &Schema) -> Self {
        Self { missing: schema.missing.iter().map(|text| text.as_bytes().to_vec()).collect() }
    }

    /// Converts `text` to a time.
    pub fn read(&self, text: Option<&[u8]>) -> Time {
        let text = text.unwrap_or_default();
        if text.is_empty() || self.missing.iter().any(|missing| missing == text) {
            return Time::Missing;
        }
        let mut key = [0; BYTES];
        if let Some(number) = finite(text) {
            // Adding 0 turns −0 into 0.
            let bits = (number + 0.0).to_bits();
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            key[..8].copy_from_slice(&ordered.to_be_bytes());
            return Time::Number(key);
        }
        let kept = text.len().min(BYTES);
        key[..kept].copy_from_slice(&text[..kept]);
        Time::Text(key)
    }

    /// Key of `text`, whether it is a number or not; `None` if it is missing.
    pub fn key(&self, text: Option<&[u8]>) -> Option<Key> {
        match self.read(text) {
            Time::Missing => None,
            Time::Number(key) | Time::Text(key) => Some(key),
        }
    }
}

/// Times of all rows, on disk.
pub(super) struct Times {
    column: String,
    keys: Keys,
    path: PathBuf,
    file: BufWriter<File>,
    numbers: u64,
    texts: u64,
    missing: u64,
    first_text: Vec<u8>,
}

/// Time from which rows are held out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Latest {
    pub bound: Key,
    /// Whether rows of exactly this time are held out too.
    pub inclusive: bool,
    /// Number of rows without a time.
    pub missing: u64,
}

impl Latest {
    pub fn holds_out(&self, key: &Key) -> bool {
        *key > self.bound || (self.inclusive && *key == self.bound)
    }
}

impl Times {
    /// Starts to collect the times of `column`, in a temporary file in `folder`.
    pub fn new(column: &str, keys: Keys, folder: &Path) -> Result<Self, DataError> {
        let file = tempfile::tempfile_in(folder).map_err(|error| DataError::file(folder, error))?;
        Ok(Self {
            column: column.into(),
            keys,
            path: folder.to_owned(),
            file: BufWriter::new(file),
            numbers: 0,
            texts: 0,
            missing: 0,
            first_text: vec![],
        })
    }

    /// Adds the time of a row.
    pub fn add(&mut self, text: Option<&[u8]>) -> Result<(), DataError> {
        let key = match self.keys.read(text) {
            Time::Missing => {
                self.missing += 1;
                return Ok(());
            }
            Time::Number(key) => {
                self.numbers += 1;
                key
            }
            Time::Text(key) => {
                if self.texts == 0 {
                    self.first_text = text.unwrap_or_default().to_vec();
                }
                self.texts += 1;
                key
            }
        };
        self.file.write_all(&key).map_err(|error| DataError::file(&self.path, error))
    }

    /// Time from which `wanted` rows are held out, or as close to that number as rows of equal time allow.
    pub fn latest(self, wanted: u64) -> Result<Latest, DataError> {
        let Self { column, path, file, numbers, texts, missing, first_text, .. } = self;
        let refuse = |problem: String| DataError::SplitBy { column: column.clone(), problem };
        if numbers > 0 && texts > 0 {
            return Err(refuse(format!(
                "{numbers} rows hold numbers and {texts} other texts such as {}, so their order is not clear; list texts that \
                 mean nothing as `missing` in the schema, or name another column",
                excerpt(&first_text)
            )));
        }
        let timed = numbers + texts;
        if timed < 2 {
            return Err(refuse(format!("{timed} rows have a time; name another column")));
        }
        let wanted = wanted.clamp(1, timed - 1);
        let found = file.into_inner().map_err(|error| error.into_error()).and_then(|mut file| {
            let bound = nth_largest(&mut file, wanted)?;
            let (mut later, mut same) = (0u64, 0u64);
            each(&mut file, |key| {
                later += u64::from(*key > bound);
                same += u64::from(*key == bound);
            })?;
            Ok((bound, later, same))
        });
        let (bound, later, same) = found.map_err(|error: io::Error| DataError::file(&path, error))?;
        if same == timed {
            return Err(refuse("all rows have the same time; name another column".into()));
        }
        // Rows of equal time stay together, in the part that brings their number closer to the one requested.
        let with_same = later + same;
        let inclusive = later == 0 || (with_same < timed && with_same - wanted <= wanted - later);
        Ok(Latest { bound, inclusive, missing })
    }
}

/// Calls `visit` with every key of the file.
fn each(file: &mut File, mut visit: impl FnMut(&Key)) -> io::Result<()> {
    file.rewind()?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut key = [0; BYTES];
    loop {
        match reader.read_exact(&mut key) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        visit(&key);
    }
}

/// The `position`-th largest key, from 1.
fn nth_largest(file: &mut File, mut position: u64) -> io::Result<Key> {
    let mut left = file.metadata()?.len() / BYTES as u64;
    let mut prefix = vec![];
    while left > IN_MEMORY && prefix.len() < BYTES {
        let at = prefix.len();
        let mut counts = vec![0u64; 1 << 16];
        each(file, |key| {
            if key.starts_with(&prefix) {
                counts[usize::from(u16::from_be_bytes([key[at], key[at + 1]]))] += 1;
            }
        })?;
        for (bucket, &count) in counts.iter().enumerate().rev() {
            if position <= count {
                prefix.extend((bucket as u16).to_be_bytes());
                left = count;
                break;
            }
            position -= count;
        }
    }
    if prefix.len() == BYTES {
        let mut key = [0; BYTES];
        key.copy_from_slice(&prefix);
        return Ok(key);
    }
    let mut keys = Vec::with_capacity(left as usize);
    each(file, |key| {
        if key.starts_with(&prefix) {
            keys.push(*key);
        }
    })?;
    keys.sort_unstable_by(|one, other| other.cmp(one));
    let at = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX);
    keys.get(at).copied().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests;
