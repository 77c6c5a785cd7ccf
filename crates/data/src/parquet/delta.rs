//! Checks the headers of delta-encoded lengths.
//!
//! ```text
//! numbers := block size | miniblocks per block | count | first value | block …
//! block   := least delta | a bit width per miniblock | miniblocks
//! strings := numbers (lengths) | bytes
//! strings with shared beginnings := numbers (bytes shared with the string before) | strings
//! ```
//!
//! The decoder allocates memory for `count` lengths before it reads them, and a count may be any number below 2⁶³. So counts are
//! compared with the number of values of the page first.

/// Largest number of miniblocks of a block; writers use 4 or 8.
const MAX_MINIBLOCKS: u64 = 512;

/// Whether `data`, the strings of a page, announces at most `values` lengths; with `shared` beginnings there are two lists.
pub(super) fn counts_fit(data: &[u8], values: u64, shared: bool) -> bool {
    let mut cursor = Cursor(data);
    let first = cursor.numbers(values);
    if shared { first.and_then(|()| cursor.numbers(values)).is_some() } else { first.is_some() }
}

/// Bytes that are left to read.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// Skips a list of at most `most` numbers. `None` if the list is longer or invalid.
    fn numbers(&mut self, most: u64) -> Option<()> {
        let (block_size, miniblocks, count) = (self.varint()?, self.varint()?, self.varint()?);
        self.varint()?;
        if count > most || !(1..=MAX_MINIBLOCKS).contains(&miniblocks) || block_size < miniblocks {
            return None;
        }
        let values = block_size / miniblocks;
        // The first value stands in the header.
        let mut left = count.saturating_sub(1);
        while left > 0 {
            self.varint()?;
            let widths = self.0.get(..miniblocks as usize)?;
            let mut bytes = miniblocks;
            for &width in widths {
                // Widths after the last value mean nothing.
                let width = if left > 0 { u64::from(width) } else { 0 };
                bytes = bytes.checked_add(width.checked_mul(values)? / 8)?;
                left = left.saturating_sub(values);
            }
            // The last miniblock may be cut off.
            let bytes = usize::try_from(bytes).ok()?.min(self.0.len());
            self.0 = &self.0[bytes..];
        }
        Some(())
    }

    /// Reads a variable-length integer: seven bits per byte, the lowest first.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
