//! Buckets of numbers: a vocabulary whose ids are ranges.
//!
//! ```text
//! row 0: missing numbers        row 1: x ≤ boundary 0        row 2: boundary 0 < x ≤ boundary 1        …
//!
//! file: "campbkt\0" | version u32 | zero u32 | count u64 | boundaries ascending, f64 | xxh3 of all before
//! ```

use super::VocabularyError;
use crate::number::of_ordered_key;
use spec::schema::MAX_BUCKETS;

/// First bytes of a file of buckets.
pub(super) const MAGIC: [u8; 8] = *b"campbkt\0";

/// Boundaries between the buckets of a column of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Buckets {
    boundaries: Vec<f64>,
}

impl Buckets {
    /// Buckets between `boundaries`, which must be finite and ascend.
    pub fn new(boundaries: Vec<f64>) -> Result<Self, VocabularyError> {
        let ascending = boundaries.is_sorted_by(|one, other| one < other);
        match ascending && boundaries.len() < MAX_BUCKETS && boundaries.iter().all(|x| x.is_finite()) {
            true => Ok(Self { boundaries }),
            false => Err(VocabularyError::Boundaries),
        }
    }

    /// Boundaries between the buckets, ascending.
    pub fn boundaries(&self) -> &[f64] {
        &self.boundaries
    }

    /// Number of rows of the table: one for each bucket, and row 0.
    pub fn rows(&self) -> usize {
        self.boundaries.len() + 2
    }

    /// Row of the number with this ordered key.
    pub fn row(&self, key: u64) -> u64 {
        let below = |x: f64| self.boundaries.partition_point(|boundary| *boundary < x) as u64;
        of_ordered_key(key).map_or(0, |x| 1 + below(x))
    }
}
