//! Weights of a table, row by row in a number format.

use crate::half_float::{self, Half};
use crate::memory::Space;
use crate::{Buffer, KernelError};
use spec::random::RandomSequence;
use spec::table_format::TableFormat;
use std::fs::File;

/// Weights of a table, row by row. Whatever their format, they are read and written as floats here; lookups and updates read them as
/// they are.
///
/// ```
/// use kernels::{Device, RowStore};
/// use spec::table_format::TableFormat;
/// let mut rows = RowStore::zeroed(&Device::Reference, TableFormat::F16, 4)?;
/// rows.write(1, &[0.1, 2.0])?;
/// assert_eq!(rows.to_vec()?, [0.0, 0.099975586, 2.0, 0.0]);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
pub struct RowStore {
    rows: Rows,
    /// Random numbers by which updates round; `None` to round to nearest.
    random: Option<RandomRounding>,
    /// Row of the table in each slot, where slots hold some rows of a larger table; empty where slot and row are the same.
    named: Vec<u32>,
}

#[derive(Debug)]
enum Rows {
    F32(Buffer<f32>),
    Half(Half, Buffer<u16>),
}

/// The weights of a table as they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoredRows<'a> {
    /// Floats.
    F32(&'a Buffer<f32>),
    /// Numbers of 16 bits, and what these mean.
    Half(Half, &'a Buffer<u16>),
}

/// Random numbers by which an update rounds the weights of a table: they follow from the step, the row and the column in the whole table,
/// so that a shard rounds as the whole would.
#[derive(Clone, Copy, Debug)]
pub struct RandomRounding {
    /// Numbers of the table.
    pub sequence: RandomSequence,
    /// First row of the shard.
    pub first_row: usize,
    /// First column of the shard.
    pub first_column: usize,
}

/// How the weights of one row are rounded in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRounding {
    /// Random bits of the row; `None` to round to nearest.
    pub bits: Option<u64>,
    /// Column of the row's first weight.
    pub first_column: u32,
}

/// Floats that are converted at a time.
const BLOCK: usize = 1 << 12;

impl RowStore {
    /// Makes `len` weights of 0 in a format.
    pub fn zeroed(space: impl Into<Space>, format: TableFormat, len: usize) -> Result<Self, KernelError> {
        let rows = match Half::of(format) {
            None => Rows::F32(Buffer::zeroed(space, len)?),
            Some(half) => Rows::Half(half, Buffer::zeroed(space, len)?),
        };
        Ok(Self { rows, random: None, named: Vec::new() })
    }

    /// Makes `len` weights of 0 in a new file that is mapped into the memory of the host.
    pub fn mapped(file: &File, format: TableFormat, len: usize) -> Result<Self, KernelError> {
        let rows = match Half::of(format) {
            None => Rows::F32(Buffer::mapped(file, len)?),
            Some(half) => Rows::Half(half, Buffer::mapped(file, len)?),
        };
        Ok(Self { rows, random: None, named: Vec::new() })
    }

    /// Changes the numbers of 16 bits from `at` on, one row; floats are left alone.
    pub(crate) fn change_halves(&mut self, at: usize, len: usize, change: impl FnOnce(Half, &mut [u16])) {
        if let Rows::Half(half, halves) = &mut self.rows {
            change(*half, &mut halves.host_mut()[at..at + len]);
        }
    }

    /// Lets updates round at random from now on, so that the mean of what is stored is what was computed.
    pub fn round_at_random(&mut self, random: RandomRounding) {
        self.random = Some(random);
    }

    /// Format of the weights.
    pub fn format(&self) -> TableFormat {
        match &self.rows {
            Rows::F32(_) => TableFormat::F32,
            Rows::Half(Half::F16, _) => TableFormat::F16,
            Rows::Half(Half::Bf16, _) => TableFormat::Bf16,
        }
    }

    /// Number of weights.
    pub fn len(&self) -> usize {
        match &self.rows {
            Rows::F32(floats) => floats.len(),
            Rows::Half(_, halves) => halves.len(),
        }
    }

    /// Whether there are no weights.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The weights themselves where they are f32.
    pub fn floats(&self) -> Option<&Buffer<f32>> {
        match &self.rows {
            Rows::F32(floats) => Some(floats),
            Rows::Half(..) => None,
        }
    }

    /// As [`RowStore::floats`], to be changed.
    pub fn floats_mut(&mut self) -> Option<&mut Buffer<f32>> {
        match &mut self.rows {
            Rows::F32(floats) => Some(floats),
            Rows::Half(..) => None,
        }
    }

    /// The weights themselves, as they are stored.
    #[inline(always)]
    pub(crate) fn stored(&self) -> StoredRows<'_> {
        match &self.rows {
            Rows::F32(floats) => StoredRows::F32(floats),
            Rows::Half(half, halves) => StoredRows::Half(*half, halves),
        }
    }

    /// How the weights of `row` are rounded in `step`.
    #[inline(always)]
    pub(crate) fn rounding(&self, row: usize, step: u64) -> RowRounding {
        let bits = self.random.map(|random| {
            let row = self.named.get(row).map_or(row, |&row| row as usize);
            let row = random.first_row.wrapping_add(row) as u64;
            random.sequence.bits((step << 32).wrapping_add(row))
        });
        RowRounding { bits, first_column: self.random.map_or(0, |random| random.first_column as u32) }
    }

    /// Reads the weights from `at` on.
    pub fn read(&self, at: usize, data: &mut [f32]) -> Result<(), KernelError> {
        let (half, halves) = match &self.rows {
            Rows::F32(floats) => return floats.read(at, data),
            Rows::Half(half, halves) => (*half, halves),
        };
        let mut block = vec![0; BLOCK.min(data.len())];
        for (i, part) in data.chunks_mut(BLOCK).enumerate() {
            let block = &mut block[..part.len()];
            halves.read(at + i * BLOCK, block)?;
            part.iter_mut().zip(block).for_each(|(to, &mut from)| *to = half.decode(from));
        }
        Ok(())
    }

    /// Writes weights from `at` on, rounded to nearest.
    pub fn write(&mut self, at: usize, data: &[f32]) -> Result<(), KernelError> {
        let (half, halves) = match &mut self.rows {
            Rows::F32(floats) => return floats.write(at, data),
            Rows::Half(half, halves) => (*half, halves),
        };
        let mut block = vec![0; BLOCK.min(data.len())];
        for (i, part) in data.chunks(BLOCK).enumerate() {
            let block = &mut block[..part.len()];
            half_float::encode(half, part, RowRounding { bits: None, first_column: 0 }, block);
            halves.write(at + i * BLOCK, block)?;
        }
        Ok(())
    }

    /// Says that a slot holds some row of a larger table, by whose number its weights are rounded.
    pub fn name_row(&mut self, slot: usize, row: u32) {
        if self.random.is_none() {
            return;
        }
        if slot >= self.named.len() {
            self.named.resize(slot + 1, 0);
        }
        self.named[slot] = row;
    }

    /// Makes room for `len` weights. Those that are there stay, and the values of new ones are unspecified.
    pub fn resize(&mut self, len: usize) -> Result<(), KernelError> {
        match &mut self.rows {
            Rows::F32(floats) => floats.resize(len),
            Rows::Half(_, halves) => halves.resize(len),
        }
    }

    /// Reads weights from `at` on as they are stored: as many as `bytes` has room for.
    pub fn read_stored(&self, at: usize, bytes: &mut [u8]) -> Result<(), KernelError> {
        match &self.rows {
            Rows::F32(floats) => floats.read_bytes(at, bytes),
            Rows::Half(_, halves) => halves.read_bytes(at, bytes),
        }
    }

    /// Writes weights from `at` on as they are stored.
    pub fn write_stored(&mut self, at: usize, bytes: &[u8]) -> Result<(), KernelError> {
        match &mut self.rows {
            Rows::F32(floats) => floats.write_bytes(at, bytes),
            Rows::Half(_, halves) => halves.write_bytes(at, bytes),
        }
    }

    /// All weights as they are stored, where that is in 16 bits.
    pub fn halves_to_vec(&self) -> Result<Option<Vec<u16>>, KernelError> {
        match &self.rows {
            Rows::F32(_) => Ok(None),
            Rows::Half(_, halves) => halves.to_vec().map(Some),
        }
    }

    /// All weights as floats.
    pub fn to_vec(&self) -> Result<Vec<f32>, KernelError> {
        if let Rows::F32(floats) = &self.rows {
            return floats.to_vec();
        }
        if let Rows::Half(_, halves) = &self.rows
            && !halves.has_contents()
        {
            return Err(KernelError::NoContents { op: "to_vec" });
        }
        let mut all = vec![0.0; self.len()];
        self.read(0, &mut all)?;
        Ok(all)
    }
}

/// Floats of numbers of 16 bits; floats of 32 bits are left alone.
///
/// ```
/// use spec::table_format::TableFormat;
/// let mut floats = [0.0; 2];
/// kernels::decode_halves(TableFormat::F16, &[0x3c00, 0xc000], &mut floats);
/// assert_eq!(floats, [1.0, -2.0]);
/// ```
pub fn decode_halves(format: TableFormat, halves: &[u16], floats: &mut [f32]) {
    if let Some(half) = Half::of(format) {
        floats.iter_mut().zip(halves).for_each(|(to, &from)| *to = half.decode(from));
    }
}

/// Numbers of 16 bits nearest to floats; none for floats of 32 bits.
pub fn encode_halves(format: TableFormat, floats: &[f32]) -> Vec<u16> {
    let mut halves = vec![0; floats.len()];
    match Half::of(format) {
        Some(half) => {
            half_float::encode(half, floats, RowRounding { bits: None, first_column: 0 }, &mut halves)
        }
        None => halves.clear(),
    }
    halves
}
