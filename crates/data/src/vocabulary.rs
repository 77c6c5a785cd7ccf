//! Vocabularies: the ids of a column that have rows of their own.
//!
//! ```text
//! row 0: missing ids and all that are not kept        rows 1, 2, …: by count, the largest first, then by key
//!
//! file: "campvoc\0" | version u32 | zero u32 | count u64 | keys in the order of their rows, u64 | xxh3 of all before
//! ```
//!
//! Numbers are little-endian.
//!
//! ```
//! use data::{Counter, id::key};
//! let folder = std::env::temp_dir();
//! let mut counter = Counter::new("city", &folder, 1 << 20);
//! counter.add(&[key(b"Bergen"), key(b"Oslo"), key(b"Oslo"), key(b"")])?;
//! let vocabulary = counter.finish(2, None)?;
//! assert_eq!(vocabulary.rows(), 2);
//! assert_eq!([&b"Oslo"[..], b"Bergen", b""].map(|id| vocabulary.row(key(id))), [1, 0, 0]);
//! # Ok::<(), data::DataError>(())
//! ```

mod buckets;
mod counter;
mod runs;
mod texts;

use crate::{DataError, id};
use buckets::Buckets;
pub use counter::Counter;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
pub use texts::{HEADER as TEXTS_HEADER, IdText, IdTextReader, IdTexts};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: [u8; 8] = *b"campvoc\0";
const VERSION: u32 = 1;
const HEADER: u64 = 24;

/// Largest number of ids of a vocabulary: rows are 32-bit numbers.
const MOST_IDS: u64 = u32::MAX as u64;

/// Largest number of probes for a key. Keys that are hashes never need as many in a table that is half empty.
const MOST_PROBES: usize = 4096;

/// Vocabulary of a column: the row of each id.
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    /// Keys of the rows 1, 2, and so on.
    keys: Vec<u64>,
    /// Hash table of rows, each in the slot of its key's hash or in the next free one; 0 in free slots. The length is a power of
    /// two, and at most half of the slots are in use.
    slots: Vec<u32>,
    /// Buckets of numbers, instead of ids.
    buckets: Option<Buckets>,
}

impl Vocabulary {
    /// Makes a vocabulary of buckets of numbers between `boundaries`, which must be finite and ascend. A boundary belongs to
    /// the bucket below it.
    pub fn of_buckets(boundaries: Vec<f64>) -> Result<Self, VocabularyError> {
        let buckets = Some(Buckets::new(boundaries)?);
        Ok(Self { keys: vec![], slots: vec![0], buckets })
    }

    /// Boundaries between buckets of numbers; `None` if the vocabulary has ids.
    pub fn boundaries(&self) -> Option<&[f64]> {
        self.buckets.as_ref().map(Buckets::boundaries)
    }

    /// Keys of the rows 1, 2, and so on; none for buckets of numbers.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Makes a vocabulary that assigns rows 1, 2, and so on to `keys`. Fails if keys are equal, missing, or too many.
    pub fn new(mut keys: Vec<u64>) -> Result<Self, VocabularyError> {
        keys.shrink_to_fit();
        if keys.len() as u64 >= MOST_IDS {
            return Err(VocabularyError::TooMany(keys.len() as u64));
        }
        let mut slots = vec![0u32; (2 * keys.len()).next_power_of_two()];
        for (&key, row) in keys.iter().zip(1u32..) {
            if key == id::MISSING {
                return Err(VocabularyError::Missing);
            }
            let mut slot = first_slot(key, slots.len());
            let mut probes = 0;
            while let Some(other) = (slots[slot] as usize).checked_sub(1) {
                if keys[other] == key {
                    return Err(VocabularyError::Twice(key));
                }
                probes += 1;
                if probes > MOST_PROBES {
                    return Err(VocabularyError::Clustered);
                }
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = row;
        }
        Ok(Self { keys, slots, buckets: None })
    }

    /// Number of rows of the table: one more than the number of ids.
    pub fn rows(&self) -> usize {
        self.buckets.as_ref().map_or(self.keys.len() + 1, Buckets::rows)
    }

    /// Row of the id with this key; 0 if the id has no row of its own.
    #[inline]
    pub fn row(&self, key: u64) -> u64 {
        if let Some(buckets) = &self.buckets {
            return buckets.row(key);
        }
        let mask = self.slots.len() - 1;
        let mut slot = first_slot(key, self.slots.len());
        loop {
            let row = self.slots[slot];
            if row == 0 || self.keys[row as usize - 1] == key {
                return u64::from(row);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Writes the vocabulary to a file.
    pub fn save(&self, path: &Path) -> Result<(), DataError> {
        let refuse = |error: io::Error| DataError::file(path, error);
        let mut file = BufWriter::new(File::create(path).map_err(refuse)?);
        let mut hash = Xxh3::new();
        let mut write = |bytes: &[u8]| {
            hash.update(bytes);
            file.write_all(bytes).map_err(refuse)
        };
        match &self.buckets {
            None => {
                write(&header(MAGIC, self.keys.len() as u64))?;
                self.keys.iter().try_for_each(|key| write(&key.to_le_bytes()))?;
            }
            Some(buckets) => {
                write(&header(buckets::MAGIC, buckets.boundaries().len() as u64))?;
                buckets.boundaries().iter().try_for_each(|boundary| write(&boundary.to_le_bytes()))?;
            }
        }
        let checksum = hash.digest();
        file.write_all(&checksum.to_le_bytes()).and_then(|()| file.flush()).map_err(refuse)?;
        file.get_ref().sync_all().map_err(refuse)
    }

    /// Reads a vocabulary that [`save`](Self::save) wrote.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let refuse = |error: io::Error| DataError::file(path, error);
        let file = File::open(path).map_err(refuse)?;
        let length = file.metadata().map_err(refuse)?.len();
        Self::read(BufReader::new(file), length).map_err(|error| DataError::file(path, error))
    }

    /// Reads a vocabulary of `length` bytes.
    fn read(mut reader: impl Read, length: u64) -> Result<Self, VocabularyError> {
        let mut hash = Xxh3::new();
        let mut start = [0; HEADER as usize];
        reader.read_exact(&mut start)?;
        hash.update(&start);
        let [.., a, b, c, d, e, f, g, h] = start;
        let count = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let of_buckets = start == header(buckets::MAGIC, count);
        if !of_buckets && start != header(MAGIC, count) {
            return Err(VocabularyError::Header);
        }
        // Memory is allocated only after the count has been checked against the length.
        let expected = count.checked_mul(8).and_then(|keys| keys.checked_add(HEADER + 8));
        if expected != Some(length) {
            return Err(VocabularyError::Length { count, length });
        }
        let mut keys =
            Vec::with_capacity(usize::try_from(count).map_err(|_| VocabularyError::TooMany(count))?);
        let mut bytes = [0; 8];
        for _ in 0..count {
            reader.read_exact(&mut bytes)?;
            hash.update(&bytes);
            keys.push(u64::from_le_bytes(bytes));
        }
        reader.read_exact(&mut bytes)?;
        if hash.digest() != u64::from_le_bytes(bytes) {
            return Err(VocabularyError::Checksum);
        }
        if of_buckets {
            return Self::of_buckets(keys.into_iter().map(f64::from_bits).collect());
        }
        Self::new(keys)
    }
}

fn header(magic: [u8; 8], count: u64) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// Slot in which the row of a key is searched for first. The product spreads any keys, even consecutive numbers.
#[inline]
fn first_slot(key: u64, slots: usize) -> usize {
    let product = u128::from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ((product * slots as u128) >> 64) as usize
}

/// Reason why keys do not make a vocabulary, or a file does not hold one.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// The header of the file is wrong.
    #[error("not a vocabulary file of version {VERSION}: the header is different")]
    Header,
    /// The length of the file does not match its number of ids.
    #[error("a vocabulary of {count} ids does not have {length} bytes; the file is cut short or damaged")]
    Length {
        /// Number of ids according to the header.
        count: u64,
        /// Length of the file, in bytes.
        length: u64,
    },
    /// The checksum of the file is wrong.
    #[error("the checksum is wrong; the file is damaged")]
    Checksum,
    /// There are too many ids.
    #[error("{0} ids are more than the 2³² − 1 that a vocabulary can hold")]
    TooMany(u64),
    /// The keys contain that of missing ids, which always have row 0.
    #[error("a missing id has a row other than 0")]
    Missing,
    /// A key occurs twice.
    #[error("key {0:#018x} has two rows")]
    Twice(u64),
    /// The keys are not hashes of ids.
    #[error("the keys are too much alike to be hashes of ids")]
    Clustered,
    /// The boundaries of buckets are not finite numbers in order.
    #[error("the boundaries of buckets are not finite numbers that ascend, or too many")]
    Boundaries,
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
}

#[cfg(test)]
mod tests;
