//! Columns that are kept besides the inputs of a model, to group samples by.
//!
//! A value is kept as the 64-bit key of its text, as ids are. The texts of the first distinct values are kept too, so that
//! groups have names; their number and length are limited, so that memory is.
//!
//! ```
//! use data::samples::Kept;
//! let mut users = Kept::default();
//! users.push(b"ann");
//! users.push(b"bob");
//! users.push(b"ann");
//! assert_eq!(users.keys[0], users.keys[2]);
//! assert_eq!(users.names.get(users.keys[1]), Some("bob"));
//! ```

use crate::id;
use std::collections::HashMap;

/// Number of distinct values of a column whose texts are kept.
pub const MAX_TEXTS: usize = 4096;
/// Length of the longest text that is kept, in bytes.
pub const MAX_TEXT_BYTES: usize = 200;

/// A kept column of some samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Key of the text of each sample's value.
    pub keys: Vec<u64>,
    /// Texts of the first distinct values.
    pub names: Names,
}

/// Texts of the first [`MAX_TEXTS`] distinct values of a column, found by their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// Texts in the order in which they were seen.
    texts: Vec<String>,
    /// Position of each text, by the key of its value.
    places: HashMap<u64, u32>,
}

impl Kept {
    /// Appends the value written as `text`; a missing one is the empty text.
    pub fn push(&mut self, text: &[u8]) {
        let key = id::key(text);
        self.keys.push(key);
        self.names.add(key, text);
    }

    /// Removes all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.names.clear();
    }

    /// Appends the value of a sample of another column.
    pub fn push_from(&mut self, from: &Kept, sample: usize) {
        let key = from.keys[sample];
        self.keys.push(key);
        if let Some(text) = from.names.get(key) {
            self.names.add(key, text.as_bytes());
        }
    }
}

impl Names {
    /// Names of these texts, in order.
    pub fn of(texts: &[String]) -> Self {
        let mut names = Self::default();
        texts.iter().for_each(|text| names.add(id::key(text.as_bytes()), text.as_bytes()));
        names
    }

    /// Keeps the text of the value with this key, unless it is known, too long, no UTF-8, or one too many.
    pub fn add(&mut self, key: u64, text: &[u8]) {
        if self.places.contains_key(&key) || self.texts.len() >= MAX_TEXTS || text.len() > MAX_TEXT_BYTES {
            return;
        }
        if let Ok(text) = str::from_utf8(text) {
            self.places.insert(key, self.texts.len() as u32);
            self.texts.push(text.to_owned());
        }
    }

    /// Adds the texts of `others`, as far as there is room.
    pub fn add_all(&mut self, others: &Names) {
        others.texts.iter().for_each(|text| self.add(id::key(text.as_bytes()), text.as_bytes()));
    }

    /// Text of the value with this key, if it was kept.
    pub fn get(&self, key: u64) -> Option<&str> {
        self.places.get(&key).map(|&place| self.texts[place as usize].as_str())
    }

    /// Texts in the order in which they were seen.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    fn clear(&mut self) {
        self.texts.clear();
        self.places.clear();
    }
}
