//! Weights of a table, row by row in a number format.

use crate::cuda::memory::Pointer;
use crate::half_float::{self, Half};
use crate::int8_row;
use crate::memory::{Home, Space};
use crate::op::size;
use crate::{Buffer, KernelError};
use ground::random::RandomSequence;
use ground::table_format::TableFormat;
use std::fs::File;

/// Weights of a table, row by row. Whatever their format, they are read and written as floats here, whole rows at a time; lookups and
/// updates read them as they are.
///
/// ```
/// use kernels::{Device, RowStore};
/// use ground::table_format::TableFormat;
/// let mut rows = RowStore::zeroed(&Device::Reference, TableFormat::F16, [2, 2])?;
/// rows.write(1, &[0.1, 2.0])?;
/// assert_eq!(rows.to_vec()?, [0.0, 0.0, 0.099975586, 2.0]);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
pub struct RowStore {
    rows: Rows,
    /// Number of weights of a row.
    dim: usize,
    /// Random numbers by which updates round; `None` to round to nearest.
    random: Option<RandomRounding>,
    /// Row of the table in each slot, where slots hold some rows of a larger table whose numbers updates round by; otherwise empty.
    named: Buffer<u32>,
}

#[derive(Debug)]
enum Rows {
    F32(Buffer<f32>),
    Half(Half, Buffer<u16>),
    /// Rows of `dim` codes with their scale and minimum, as [`int8_row`] has them.
    Int8(Buffer<u8>),
}

/// The weights of a table as they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoredRows<'a> {
    /// Floats.
    F32(&'a Buffer<f32>),
    /// Numbers of 16 bits, and what these mean.
    Half(Half, &'a Buffer<u16>),
    /// Codes of 8 bits, each row with its scale and its minimum.
    Int8(&'a Buffer<u8>),
}

/// One row as it is stored, to be changed.
#[derive(Debug)]
pub(crate) enum StoredRowMut<'a> {
    /// Floats.
    F32(&'a mut [f32]),
    /// Numbers of 16 bits, and what these mean.
    Half(Half, &'a mut [u16]),
    /// Codes of 8 bits, then their scale and their minimum.
    Int8(&'a mut [u8]),
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
pub struct RowRounding {
    /// Random bits of the row; `None` to round to nearest.
    pub(crate) bits: Option<u64>,
    /// Column of the row's first weight.
    pub(crate) first_column: u32,
}

impl RowRounding {
    /// Rounding to nearest.
    pub const NEAREST: Self = Self { bits: None, first_column: 0 };

    /// Rounding at random by the given bits, for tests alone: runs take those of [`RowStore::rounding_of`].
    #[doc(hidden)]
    pub const fn at_random(bits: u64, first_column: u32) -> Self {
        Self { bits: Some(bits), first_column }
    }
}

/// Floats that are converted at a time.
const BLOCK: usize = 1 << 12;

impl RowStore {
    /// Makes rows of weights 0 in a format.
    pub fn zeroed(
        space: impl Into<Space>,
        format: TableFormat,
        [rows, dim]: [usize; 2],
    ) -> Result<Self, KernelError> {
        let space = &space.into();
        let rows = match (format, Half::of(format)) {
            (TableFormat::Int8, _) => Rows::Int8(Buffer::zeroed(space, size([rows, format.row_bytes(dim)]))?),
            (_, Some(half)) => Rows::Half(half, Buffer::zeroed(space, size([rows, dim]))?),
            (_, None) => Rows::F32(Buffer::zeroed(space, size([rows, dim]))?),
        };
        Ok(Self { rows, dim, random: None, named: Buffer::new(space) })
    }

    /// Makes no rows of `dim` weights.
    pub(crate) fn empty(space: &Space, dim: usize) -> Self {
        Self { rows: Rows::F32(Buffer::new(space)), dim, random: None, named: Buffer::new(space) }
    }

    /// Makes rows of weights 0 in a new file that is mapped into the memory of the host.
    pub fn mapped(file: &File, format: TableFormat, [rows, dim]: [usize; 2]) -> Result<Self, KernelError> {
        let rows = match (format, Half::of(format)) {
            (TableFormat::Int8, _) => Rows::Int8(Buffer::mapped(file, size([rows, format.row_bytes(dim)]))?),
            (_, Some(half)) => Rows::Half(half, Buffer::mapped(file, size([rows, dim]))?),
            (_, None) => Rows::F32(Buffer::mapped(file, size([rows, dim]))?),
        };
        // Files have whole tables, whose slots are rows.
        Ok(Self { rows, dim, random: None, named: Buffer::new(Space { home: Home::Host, exchange: false }) })
    }

    /// One row on the host, as it is stored.
    pub(crate) fn row_mut(&mut self, row: usize) -> StoredRowMut<'_> {
        let (dim, bytes) = (self.dim, self.row_bytes());
        match &mut self.rows {
            Rows::F32(floats) => StoredRowMut::F32(&mut floats.host_mut()[row * dim..][..dim]),
            Rows::Half(half, halves) => StoredRowMut::Half(*half, &mut halves.host_mut()[row * dim..][..dim]),
            Rows::Int8(codes) => StoredRowMut::Int8(&mut codes.host_mut()[row * bytes..][..bytes]),
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
            Rows::Int8(_) => TableFormat::Int8,
        }
    }

    /// Bytes of a row as it is stored.
    pub fn row_bytes(&self) -> usize {
        self.format().row_bytes(self.dim)
    }

    /// Number of weights.
    pub fn len(&self) -> usize {
        match &self.rows {
            Rows::F32(floats) => floats.len(),
            Rows::Half(_, halves) => halves.len(),
            Rows::Int8(codes) => codes.len() / self.row_bytes() * self.dim,
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
            Rows::Half(..) | Rows::Int8(_) => None,
        }
    }

    /// As [`RowStore::floats`], to be changed.
    pub fn floats_mut(&mut self) -> Option<&mut Buffer<f32>> {
        match &mut self.rows {
            Rows::F32(floats) => Some(floats),
            Rows::Half(..) | Rows::Int8(_) => None,
        }
    }

    /// The weights themselves, as they are stored.
    #[inline(always)]
    pub(crate) fn stored(&self) -> StoredRows<'_> {
        match &self.rows {
            Rows::F32(floats) => StoredRows::F32(floats),
            Rows::Half(half, halves) => StoredRows::Half(*half, halves),
            Rows::Int8(codes) => StoredRows::Int8(codes),
        }
    }

    /// Random numbers by which updates round; `None` where they round to nearest or not at all.
    pub(crate) fn random(&self) -> Option<RandomRounding> {
        self.random.filter(|_| self.format().rounds())
    }

    /// Rows of a larger table in the slots, by whose numbers weights are rounded; `None` where slots are rows.
    pub(crate) fn names(&self) -> Option<&Buffer<u32>> {
        (!self.named.is_empty()).then_some(&self.named)
    }

    /// Rows of a larger table in the slots, to be changed.
    pub(crate) fn names_mut(&mut self) -> Option<&mut Buffer<u32>> {
        (!self.named.is_empty()).then_some(&mut self.named)
    }

    /// Where a card reaches the weights.
    pub(crate) fn card_address(&self) -> Pointer {
        match &self.rows {
            Rows::F32(floats) => floats.card_address(),
            Rows::Half(_, halves) => halves.card_address(),
            Rows::Int8(codes) => codes.card_address(),
        }
    }

    /// How the weights in a slot are rounded in `step`, by the host.
    #[inline(always)]
    pub(crate) fn rounding(&self, slot: usize, step: u64) -> RowRounding {
        self.rounding_of(self.named.host().get(slot).map_or(slot, |&row| row as usize), step)
    }

    /// How the weights of a row of the table, wherever it is, are rounded in `step`.
    #[inline(always)]
    pub fn rounding_of(&self, row: usize, step: u64) -> RowRounding {
        let bits = self.random.map(|random| {
            let row = random.first_row.wrapping_add(row) as u64;
            random.sequence.bits((step << 32).wrapping_add(row))
        });
        RowRounding { bits, first_column: self.random.map_or(0, |random| random.first_column as u32) }
    }

    /// Reads the weights of whole rows, from row `first` on.
    pub fn read(&self, first: usize, data: &mut [f32]) -> Result<(), KernelError> {
        let (rows_at_once, at) = (self.at_once(), size([first, self.dim]));
        let blocks = data.chunks_mut(rows_at_once * self.dim.max(1)).enumerate();
        match &self.rows {
            Rows::F32(floats) => floats.read(at, data),
            Rows::Half(half, halves) => {
                let mut stored = Vec::new();
                blocks.map(|(i, block)| (i * rows_at_once * self.dim, block)).try_for_each(|(from, block)| {
                    stored.resize(block.len(), 0);
                    halves.read(at + from, &mut stored)?;
                    half_float::decode(*half, &stored, block);
                    Ok(())
                })
            }
            Rows::Int8(codes) => {
                let (bytes, mut stored) = (self.row_bytes(), Vec::new());
                blocks.map(|(i, block)| (first + i * rows_at_once, block)).try_for_each(|(row, block)| {
                    stored.resize(block.len() / self.dim * bytes, 0);
                    codes.read(row * bytes, &mut stored)?;
                    let rows = stored.chunks_exact(bytes).zip(block.chunks_exact_mut(self.dim));
                    rows.for_each(|(stored, row)| int8_row::decode(stored, row));
                    Ok(())
                })
            }
        }
    }

    /// Writes the weights of whole rows, from row `first` on, rounded to nearest.
    pub fn write(&mut self, first: usize, data: &[f32]) -> Result<(), KernelError> {
        let (dim, bytes, rows_at_once) = (self.dim, self.row_bytes(), self.at_once());
        let blocks = data.chunks(rows_at_once * dim.max(1)).enumerate();
        let mut blocks = blocks.map(|(i, block)| (first + i * rows_at_once, block));
        match &mut self.rows {
            Rows::F32(floats) => floats.write(size([first, dim]), data),
            Rows::Half(half, halves) => {
                let mut stored = Vec::new();
                blocks.try_for_each(|(row, block)| {
                    stored.resize(block.len(), 0);
                    half_float::encode(*half, block, RowRounding::NEAREST, &mut stored);
                    halves.write(size([row, dim]), &stored)
                })
            }
            Rows::Int8(codes) => {
                let mut stored = Vec::new();
                blocks.try_for_each(|(row, block)| {
                    stored.resize(block.len() / dim * bytes, 0);
                    let rows = block.chunks_exact(dim).zip(stored.chunks_exact_mut(bytes));
                    rows.for_each(|(row, stored)| int8_row::encode(row, RowRounding::NEAREST, stored));
                    codes.write(row * bytes, &stored)
                })
            }
        }
    }

    /// Rows that are converted at a time.
    fn at_once(&self) -> usize {
        (BLOCK / self.dim.max(1)).max(1)
    }

    /// Says that slots hold some rows of a larger table. [`Device::put_rows`](crate::Device::put_rows) says which.
    pub fn hold_some_rows(&mut self) -> Result<(), KernelError> {
        if self.random().is_some() {
            self.named.resize(self.len() / self.dim.max(1))?;
        }
        Ok(())
    }

    /// Makes room for `rows` rows. Those that are there stay, and the values of new ones are unspecified.
    pub fn resize(&mut self, rows: usize) -> Result<(), KernelError> {
        let (len, bytes) = (size([rows, self.dim]), size([rows, self.row_bytes()]));
        if !self.named.is_empty() {
            self.named.resize(rows)?;
        }
        match &mut self.rows {
            Rows::F32(floats) => floats.resize(len),
            Rows::Half(_, halves) => halves.resize(len),
            Rows::Int8(codes) => codes.resize(bytes),
        }
    }

    /// Reads rows from `first` on as they are stored: as many as `bytes` has room for.
    pub fn read_stored(&self, first: usize, bytes: &mut [u8]) -> Result<(), KernelError> {
        match &self.rows {
            Rows::F32(floats) => floats.read_bytes(size([first, self.dim]), bytes),
            Rows::Half(_, halves) => halves.read_bytes(size([first, self.dim]), bytes),
            Rows::Int8(codes) => codes.read_bytes(size([first, self.row_bytes()]), bytes),
        }
    }

    /// Writes rows from `first` on as they are stored.
    pub fn write_stored(&mut self, first: usize, bytes: &[u8]) -> Result<(), KernelError> {
        let (at, row_bytes) = (size([first, self.dim]), self.row_bytes());
        match &mut self.rows {
            Rows::F32(floats) => floats.write_bytes(at, bytes),
            Rows::Half(_, halves) => halves.write_bytes(at, bytes),
            Rows::Int8(codes) => codes.write_bytes(size([first, row_bytes]), bytes),
        }
    }

    /// All weights as floats.
    pub fn to_vec(&self) -> Result<Vec<f32>, KernelError> {
        let there = match &self.rows {
            Rows::F32(floats) => return floats.to_vec(),
            Rows::Half(_, halves) => halves.has_contents(),
            Rows::Int8(codes) => codes.has_contents(),
        };
        if !there {
            return Err(KernelError::NoContents { op: "to_vec" });
        }
        let mut all = vec![0.0; self.len()];
        self.read(0, &mut all)?;
        Ok(all)
    }
}

/// The weights of one row that is stored in a format. Panics where `stored` is no row of as many weights as `floats` has room for.
///
/// ```
/// use kernels::RowRounding;
/// use ground::table_format::TableFormat;
/// let mut stored = vec![0; TableFormat::Int8.row_bytes(3)];
/// kernels::store_row(TableFormat::Int8, &[-1.0, 0.0, 254.0], RowRounding::NEAREST, &mut stored);
/// let mut floats = [0.0; 3];
/// kernels::stored_row(TableFormat::Int8, &stored, &mut floats);
/// assert_eq!(floats, [-1.0, 0.0, 254.0]);
/// ```
pub fn stored_row(format: TableFormat, stored: &[u8], floats: &mut [f32]) {
    assert_eq!(stored.len(), format.row_bytes(floats.len()), "bytes of a row of {format}");
    match (format, Half::of(format)) {
        (TableFormat::Int8, _) => int8_row::decode(stored, floats),
        (_, Some(half)) => {
            let halves = stored.as_chunks::<2>().0.iter().map(|&bytes| u16::from_le_bytes(bytes));
            floats.iter_mut().zip(halves).for_each(|(to, bits)| *to = half.decode(bits));
        }
        (_, None) => bytemuck::cast_slice_mut(floats).copy_from_slice(stored),
    }
}

/// Stores the weights of one row in a format. Panics where `stored` is no row of as many weights as `floats` has.
pub fn store_row(format: TableFormat, floats: &[f32], rounding: RowRounding, stored: &mut [u8]) {
    assert_eq!(stored.len(), format.row_bytes(floats.len()), "bytes of a row of {format}");
    match (format, Half::of(format)) {
        (TableFormat::Int8, _) => int8_row::encode(floats, rounding, stored),
        (_, Some(half)) => {
            let mut halves = vec![0; floats.len()];
            half_float::encode(half, floats, rounding, &mut halves);
            stored.copy_from_slice(bytemuck::cast_slice(&halves));
        }
        (_, None) => stored.copy_from_slice(bytemuck::cast_slice(floats)),
    }
}
