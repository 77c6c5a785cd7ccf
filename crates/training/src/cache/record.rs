//! A row and its optimizer state as bytes: what a file holds.

use bytemuck::{cast_slice, cast_slice_mut};
use kernels::{KernelError, RowRounding, Table, store_row, stored_row};
use spec::table_format::TableFormat;

/// Shape of the records of a table: weights in the format of the level, then optimizer state in f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordShape {
    /// Number of weights of a row.
    pub dim: usize,
    /// Number format of the weights in records.
    pub format: TableFormat,
    /// Number of floats of optimizer state.
    pub state: usize,
}

impl RecordShape {
    /// Bytes of the weights of a record.
    pub fn weight_bytes(&self) -> usize {
        self.format.row_bytes(self.dim)
    }

    /// Bytes of a record.
    pub fn bytes(&self) -> usize {
        self.weight_bytes() + size_of::<f32>() * self.state
    }

    /// Sets the weights of a record, rounded to nearest where its format is not f32.
    pub fn set_weights(&self, record: &mut [u8], weights: &[f32]) {
        store_row(self.format, weights, RowRounding::NEAREST, &mut record[..self.weight_bytes()]);
    }

    /// Sets the weights of a record, which are in its format.
    pub fn set_stored(&self, record: &mut [u8], weights: &[u8]) {
        record[..self.weight_bytes()].copy_from_slice(weights);
    }

    /// Sets the optimizer state of a record.
    pub fn set_state(&self, record: &mut [u8], state: &[f32]) {
        record[self.weight_bytes()..self.bytes()].copy_from_slice(cast_slice(state));
    }

    /// Weights of a record as floats.
    pub fn weights(&self, record: &[u8], floats: &mut [f32]) {
        stored_row(self.format, &record[..self.weight_bytes()], floats);
    }

    /// Optimizer state of a record.
    pub fn state(&self, record: &[u8], floats: &mut [f32]) {
        cast_slice_mut(floats).copy_from_slice(&record[self.weight_bytes()..self.bytes()]);
    }

    /// Takes the row of a slot out of memory. Where memory is more precise, weights are rounded.
    pub fn take(
        &self,
        table: &Table,
        slot: usize,
        rounding: RowRounding,
        record: &mut [u8],
    ) -> Result<(), KernelError> {
        let (weights, state) = record.split_at_mut(self.weight_bytes());
        if table.weights.format() == self.format {
            table.weights.read_stored(slot, weights)?;
        } else {
            let mut floats = vec![0.0; self.dim];
            table.weights.read(slot, &mut floats)?;
            store_row(self.format, &floats, rounding, weights);
        }
        table.state.read_bytes(slot * self.state, state)
    }

    /// Puts a row into a slot of memory.
    pub fn put(&self, record: &[u8], table: &mut Table, slot: usize) -> Result<(), KernelError> {
        let (weights, state) = record.split_at(self.weight_bytes());
        if table.weights.format() == self.format {
            table.weights.write_stored(slot, weights)?;
        } else {
            let mut floats = vec![0.0; self.dim];
            self.weights(record, &mut floats);
            table.weights.write(slot, &floats)?;
        }
        table.state.write_bytes(slot * self.state, state)
    }
}
