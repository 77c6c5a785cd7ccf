//! A row and its optimizer state as bytes: what a file holds.

use bytemuck::{cast_slice, cast_slice_mut};
use kernels::{Device, KernelError, PutRows, RowCopies, RowRounding, Table, TakeRows, store_row, stored_row};
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

    /// Takes rows out of slots of memory: a record for each. Where memory is more precise, `rounding` says how weights are rounded, by the
    /// place of a slot in `slots`.
    pub fn take(
        &self,
        device: &Device,
        copies: &mut RowCopies,
        (table, slots): (&Table, &[u32]),
        rounding: impl Fn(usize) -> RowRounding,
        records: &mut [u8],
    ) -> Result<(), KernelError> {
        let in_memory = Self { format: table.weights.format(), ..*self };
        if in_memory.format == self.format {
            return device.take_rows(TakeRows { table, slots, copies, records });
        }
        let mut taken = vec![0; slots.len() * in_memory.bytes()];
        device.take_rows(TakeRows { table, slots, copies, records: &mut taken })?;
        let (mut floats, pairs) = (vec![0.0; self.dim], taken.chunks_exact(in_memory.bytes()));
        for (i, (from, to)) in pairs.zip(records.chunks_exact_mut(self.bytes())).enumerate() {
            in_memory.weights(from, &mut floats);
            store_row(self.format, &floats, rounding(i), &mut to[..self.weight_bytes()]);
            to[self.weight_bytes()..].copy_from_slice(&from[in_memory.weight_bytes()..]);
        }
        Ok(())
    }

    /// Puts records into slots of memory; `rows` are the numbers of their rows.
    pub fn put(
        &self,
        device: &Device,
        copies: &mut RowCopies,
        records: &[u8],
        table: &mut Table,
        [slots, rows]: [&[u32]; 2],
    ) -> Result<(), KernelError> {
        let in_memory = Self { format: table.weights.format(), ..*self };
        if in_memory.format == self.format {
            return device.put_rows(PutRows { table, slots, rows, copies, records });
        }
        let mut put = vec![0; slots.len() * in_memory.bytes()];
        let (mut floats, pairs) = (vec![0.0; self.dim], records.chunks_exact(self.bytes()));
        for (from, to) in pairs.zip(put.chunks_exact_mut(in_memory.bytes())) {
            self.weights(from, &mut floats);
            in_memory.set_weights(to, &floats);
            to[in_memory.weight_bytes()..].copy_from_slice(&from[self.weight_bytes()..]);
        }
        device.put_rows(PutRows { table, slots, rows, copies, records: &put })
    }
}
