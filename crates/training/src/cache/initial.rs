//! Rows that no batch has changed: they are drawn when they are needed, so that a table need not be written before it is trained.

use super::record::RecordShape;
use spec::random::RandomSequence;
use std::ops::Range;

/// Initial weights of the rows of a shard; the optimizer state is zero.
#[derive(Clone, Debug)]
pub(super) struct InitialRows {
    /// Random numbers of the table.
    pub sequence: RandomSequence,
    /// Weights are uniform in ± this.
    pub bound: f32,
    /// Columns of the whole table.
    pub width: usize,
    /// First row of the shard in the table.
    pub first_row: usize,
    /// Columns of the shard.
    pub columns: Range<usize>,
    /// Shape of a record.
    pub shape: RecordShape,
}

impl InitialRows {
    /// Writes the record of a row of the shard.
    pub fn write(&self, row: usize, record: &mut [u8]) {
        let Self { sequence, bound, width, first_row, columns, shape } = self;
        let first = (first_row + row) as u64 * *width as u64;
        let weights: Vec<f32> =
            columns.clone().map(|column| sequence.symmetric(first + column as u64, *bound)).collect();
        record.fill(0);
        shape.set_weights(record, &weights);
    }
}
