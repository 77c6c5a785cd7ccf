//! Keys of ids: the XXH3 hash of the id's text, the same for every format.
//!
//! ```text
//! key = xxh3_64(text)        a missing id has the key of the empty text
//! ```
//!
//! Whole numbers of binary formats are hashed as decimal text, so that a log has the same keys however it is stored.
//!
//! ```
//! assert_eq!(data::id::key(b""), data::id::MISSING);
//! assert_ne!(data::id::key(b"68fd1e64"), data::id::key(b"68fd1e65"));
//! ```

/// Key of a missing id: that of the empty text.
pub const MISSING: u64 = 0x2d06_8005_38d3_94c2;

/// Key of the id written as `text`.
#[inline]
pub fn key(text: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(text)
}

#[cfg(test)]
mod tests;
