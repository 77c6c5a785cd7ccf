//! Rows of a table between a device and the host: what a cache of rows moves.

use super::{Check, Result};
use crate::{Buffer, Device, KernelError, Table, Upload};

/// Buffers by which rows go between a device and the host, to be used again.
#[derive(Debug)]
pub struct RowCopies {
    /// Slots, then numbers of the rows.
    pub(crate) slots: Buffer<u32>,
    pub(crate) records: Buffer<u8>,
    pub(crate) upload: Upload,
}

impl RowCopies {
    /// Makes empty buffers for a device.
    pub fn new(device: &Device) -> Self {
        Self { slots: Buffer::new(device), records: Buffer::new(device), upload: Upload::default() }
    }
}

/// Arguments of [`Device::take_rows`].
#[derive(Debug)]
pub struct TakeRows<'a> {
    /// Table that has the rows.
    pub table: &'a Table,
    /// Rows to be copied.
    pub slots: &'a [u32],
    /// Buffers for the way.
    pub copies: &'a mut RowCopies,
    /// Receives a record for each slot: the row as it is stored, then its optimizer state.
    pub records: &'a mut [u8],
}

/// Arguments of [`Device::put_rows`].
#[derive(Debug)]
pub struct PutRows<'a> {
    /// Table that receives the rows.
    pub table: &'a mut Table,
    /// Rows to be replaced, each once.
    pub slots: &'a [u32],
    /// Number of each row in a larger table of which these are a part: updates round by it.
    pub rows: &'a [u32],
    /// Buffers for the way.
    pub copies: &'a mut RowCopies,
    /// A record for each slot: the row as it is stored, then its optimizer state.
    pub records: &'a [u8],
}

/// Bytes of a row as it is stored, and of its optimizer state.
pub(crate) fn record_bytes(table: &Table) -> [usize; 2] {
    [table.weights.row_bytes(), size_of::<f32>() * (table.state.len() / table.rows.max(1))]
}

impl Device {
    /// Copies rows and their optimizer state to the host. The host waits for them.
    ///
    /// ```
    /// use kernels::{Device, PutRows, RowCopies, Table, TakeRows};
    /// use ground::{Pooling, optimizer::UpdateRule};
    /// let device = Device::cpu(1)?;
    /// let mut table = Table::zeroed(&device, 3, 1, Pooling::Sum, &UpdateRule::Adagrad { eps: 0.1 })?;
    /// let (mut copies, mut records) = (RowCopies::new(&device), [0; 16]);
    /// // Weight and state of rows 2 and 0.
    /// let floats = [1.0f32, 10.0, 3.0, 30.0];
    /// device.put_rows(PutRows {
    ///     table: &mut table,
    ///     slots: &[2, 0],
    ///     rows: &[2, 0],
    ///     copies: &mut copies,
    ///     records: bytemuck::cast_slice(&floats),
    /// })?;
    /// assert_eq!(table.weights.to_vec()?, [3.0, 0.0, 1.0]);
    /// device.take_rows(TakeRows { table: &table, slots: &[2, 0], copies: &mut copies, records: &mut records })?;
    /// assert_eq!(records, bytemuck::cast_slice::<f32, u8>(&floats));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn take_rows(&self, args: TakeRows) -> Result {
        let TakeRows { table, slots, .. } = args;
        check("take_rows", self, table, slots, args.records.len())?;
        if slots.is_empty() {
            return Ok(());
        }
        if let Self::Cuda(cuda) = self {
            return cuda.take_rows(args);
        }
        let [row, state] = record_bytes(table);
        for (&slot, record) in slots.iter().zip(args.records.chunks_exact_mut(row + state)) {
            let (weights, kept) = record.split_at_mut(row);
            table.weights.read_stored(slot as usize, weights)?;
            table.state.read_bytes(slot as usize * (state / size_of::<f32>()), kept)?;
        }
        Ok(())
    }

    /// Copies rows and their optimizer state from the host.
    pub fn put_rows(&self, args: PutRows) -> Result {
        let PutRows { table, slots, rows, records, .. } = args;
        check("put_rows", self, table, slots, records.len())?;
        Check::new("put_rows", self).equal("rows of slots", slots.len(), rows.len())?;
        if slots.is_empty() {
            return Ok(());
        }
        if let Self::Cuda(cuda) = self {
            return cuda.put_rows(PutRows { table, slots, rows, copies: args.copies, records });
        }
        let [row, state] = record_bytes(table);
        for (&slot, record) in slots.iter().zip(records.chunks_exact(row + state)) {
            let (weights, kept) = record.split_at(row);
            table.weights.write_stored(slot as usize, weights)?;
            table.state.write_bytes(slot as usize * (state / size_of::<f32>()), kept)?;
        }
        if let Some(names) = table.weights.names_mut() {
            slots.iter().zip(rows).for_each(|(&slot, &row)| names.host_mut()[slot as usize] = row);
        }
        Ok(())
    }
}

fn check(op: &'static str, device: &Device, table: &Table, slots: &[u32], bytes: usize) -> Result {
    let check = Check::new(op, device);
    check.table(table)?;
    let [row, state] = record_bytes(table);
    check.equal("bytes of records", slots.len() * (row + state), bytes)?;
    match slots.iter().find(|&&slot| slot as usize >= table.rows) {
        Some(&id) => Err(KernelError::IdOutOfRange { table: 0, id, rows: table.rows }),
        None => Ok(()),
    }
}
