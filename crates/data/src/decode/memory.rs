//! Division of the memory limit among the parts of the decoder.
//!
//! ```text
//! ¼  the decompressor: its window
//! ½  jobs × (chunk + samples of its lines + texts of kept columns)
//! ¼  everything else: buffers of files, the rest of a chunk, vectors while they move to grow
//!
//! a byte of text is at most        1 byte of the chunk
//!                                + a line's share of label, numbers, lengths and single ids
//!                                + where columns hold many ids, one id with its weight, in a vector that doubles
//!                                + where rows are noted, a row with its text
//!                                + where numbers or texts of ids are noted, these
//! ```

use crate::DataError;
use crate::lines::{CHUNK, MAX_LINE};
use crate::rows::Reading;
use crate::samples::{MAX_TEXT_BYTES, MAX_TEXTS};
use spec::schema::Schema;

/// Share of each part of the decoder in the memory limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Shares {
    /// Memory of the decompressor, in bytes.
    pub decompressor: u64,
    /// Number of chunks in memory at the same time.
    pub jobs: usize,
    /// Size of a chunk, in bytes.
    pub chunk: usize,
}

impl Shares {
    /// Divides `memory` bytes. With little memory there are fewer chunks than threads.
    pub fn new(schema: &Schema, memory: u64, threads: usize, reading: &Reading) -> Result<Self, DataError> {
        let sample = sample_bytes(schema, reading);
        let many = many_bytes(schema, reading) + if reading.rows { ROW_BYTES } else { 0 };
        // The longest line must fit, and a line is at most one sample.
        let texts = text_bytes(schema);
        let longest = MAX_LINE as u64 * (1 + many) + sample + texts;
        let half = memory / 2;
        let jobs = (half / longest).min(2 * threads.max(1) as u64 + 2);
        if jobs == 0 {
            return Err(DataError::Memory { needed: 2 * longest, allowed: memory });
        }
        // A sample has a byte per column at least. Where a header names the columns there may be more of them, not fewer.
        let columns = schema.columns.as_ref().map_or_else(|| used_columns(schema), Vec::len) as u64;
        let per_byte = 1 + many + sample.div_ceil(columns.max(1));
        let chunk = ((half / jobs - texts) / per_byte).clamp(1, CHUNK as u64);
        Ok(Self { decompressor: memory / 4, jobs: jobs as usize, chunk: chunk as usize })
    }
}

/// Memory in bytes that a byte of text needs at most when rows are noted: a line end alone is a row, whose state and end lie in
/// vectors that double, and all of a line may be the text that is noted.
const ROW_BYTES: u64 = 2 * (1 + 4) + 2;

/// Size of a sample in bytes, without the ids of columns that hold many.
fn sample_bytes(schema: &Schema, reading: &Reading) -> u64 {
    let sparse = schema.sparse.iter().enumerate().map(|(index, column)| {
        // A text in its vector has an end there.
        let text = if reading.has_texts(index) && !column.many() { 2 * 4 } else { 0 };
        text + match (column.many(), column.weighted()) {
            (true, _) => 4,
            (false, false) => 8,
            (false, true) => 12,
        }
    });
    let labels = 4 * (schema.label_count() + usize::from(schema.weight.is_some())) as u64;
    let number = if reading.numbers { 4 + 8 } else { 4 };
    labels + 8 * schema.keep.len() as u64 + number * schema.dense.len() as u64 + sparse.sum::<u64>()
}

/// Memory in bytes that the texts of kept columns need at most, with the table that finds them by their keys.
fn text_bytes(schema: &Schema) -> u64 {
    (schema.keep.len() * MAX_TEXTS * (MAX_TEXT_BYTES + 64)) as u64
}

/// Memory in bytes that a separator of ids, or a byte of their texts, needs at most.
fn many_bytes(schema: &Schema, reading: &Reading) -> u64 {
    let many = schema.sparse.iter().enumerate().filter(|(_, column)| column.many());
    let ids = many.map(|(index, column)| {
        let text = if reading.has_texts(index) { 4 } else { 0 };
        2 * (text + if column.weighted() { 12 } else { 8 })
    });
    // All of a line may be texts of ids, in vectors that double.
    let texts = if (0..schema.sparse.len()).any(|column| reading.has_texts(column)) { 2 } else { 0 };
    ids.max().unwrap_or(0) + texts
}

fn used_columns(schema: &Schema) -> usize {
    schema.used().map(|(_, column)| column.to_owned()).collect::<std::collections::HashSet<_>>().len()
}

#[cfg(test)]
mod tests;
