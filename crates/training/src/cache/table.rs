//! One table whose rows lie in a file, and some of them in memory.

use super::bytes::AlignedBytes;
use super::directory::{Directory, RowSlot};
use super::initial::InitialRows;
use super::record::RecordShape;
use super::row_file::RowFile;
use super::transfers::{Below, Records};
use crate::Error;
use kernels::{Device, RowCopies, RowMarks, RowRounding, Table};
use spec::table_format::TableFormat;
use std::ops::Range;
use std::sync::Arc;

/// A table of which a rank keeps some rows in memory.
#[derive(Debug)]
pub struct CachedTable {
    /// Device that has the rows in memory.
    device: Device,
    /// Number of rows of the shard.
    rows: usize,
    shape: RecordShape,
    directory: Directory,
    below: Below,
    /// Whether each row is in the file, a bit for each.
    stored: Vec<u64>,
    /// Records that go and come, whose memory is used again.
    spare: Vec<Records>,
}

/// Bytes that are changed at a time where rows follow each other.
const RUN: usize = 1 << 20;

impl CachedTable {
    pub(super) fn new(
        device: &Device,
        rows: usize,
        shape: RecordShape,
        directory: Directory,
        file: RowFile,
        initial: InitialRows,
    ) -> Self {
        let below = Below { file: Arc::new(file), initial: Arc::new(initial) };
        let stored = vec![0; rows.div_ceil(64)];
        Self { device: device.clone(), rows, shape, directory, below, stored, spare: Vec::new() }
    }

    /// Number of rows of the shard, wherever they are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn directory(&mut self) -> &mut Directory {
        &mut self.directory
    }

    fn is_stored(&self, row: u32) -> bool {
        self.stored[row as usize / 64] >> (row % 64) & 1 == 1
    }

    fn note_stored(&mut self, row: u32) {
        self.stored[row as usize / 64] |= 1 << (row % 64);
    }

    /// Rows to be fetched for the batch whose rows were found. Those that leave memory for them are put aside first.
    pub(super) fn missing_records(&mut self, table: usize) -> Option<(Below, Records)> {
        if self.directory.missing.is_empty() {
            return None;
        }
        let mut missing = std::mem::take(&mut self.directory.missing);
        missing.sort_unstable_by_key(|moved| moved.row);
        let mut records = self.empty(table, &missing);
        records.stored.extend(missing.iter().map(|moved| self.is_stored(moved.row)));
        self.directory.missing = missing;
        Some((self.below.clone(), records))
    }

    /// Changed rows that leave memory before `step`, copied out of their slots by way of `copies`.
    pub(super) fn evicted_records(
        &mut self,
        copies: &mut RowCopies,
        (index, table): (usize, &Table),
        step: u64,
    ) -> Result<Option<(Below, Records)>, Error> {
        if self.directory.evicted.is_empty() {
            return Ok(None);
        }
        let mut evicted = std::mem::take(&mut self.directory.evicted);
        evicted.sort_unstable_by_key(|moved| moved.row);
        let mut records = self.empty(index, &evicted);
        records.bytes.resize(evicted.len() * self.shape.bytes(), 0);
        let Records { slots, rows, bytes, .. } = &mut records;
        let rounding = |i: usize| table.weights.rounding_of(rows[i] as usize, step);
        self.shape.take(&self.device, copies, (table, slots), rounding, bytes)?;
        evicted.iter().for_each(|moved| self.note_stored(moved.row));
        self.directory.evicted = evicted;
        Ok(Some((self.below.clone(), records)))
    }

    /// Puts rows that were fetched into their slots, by way of `copies`.
    pub(super) fn place(
        &self,
        device: &Device,
        copies: &mut RowCopies,
        records: &Records,
        table: &mut Table,
    ) -> Result<(), Error> {
        let Records { slots, rows, bytes, .. } = records;
        let bytes = &bytes[..rows.len() * self.shape.bytes()];
        Ok(self.shape.put(device, copies, bytes, table, [slots, rows])?)
    }

    /// Takes memory back, to use it again.
    pub(super) fn give_back(&mut self, records: Records) {
        self.spare.push(records);
    }

    fn empty(&mut self, table: usize, moved: &[RowSlot]) -> Records {
        let mut records = self.spare.pop().unwrap_or_default();
        records.table = table;
        records.rows.clear();
        records.rows.extend(moved.iter().map(|moved| moved.row));
        records.slots.clear();
        records.slots.extend(moved.iter().map(|moved| moved.slot));
        records.stored.clear();
        records
    }

    /// Reads rows, wherever they are, some at a time: `take` gets their records, one behind another. Nothing may be under way.
    pub(super) fn read_records(
        &self,
        table: &Table,
        rows: Range<usize>,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (file, size) = (&self.below.file, self.shape.bytes());
        let (mut records, mut copies) = (Vec::new(), RowCopies::new(&self.device));
        // Rows that are in memory, and their places among the records.
        let (mut slots, mut places, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        file.read_rows(rows, |first, bytes| {
            records.clear();
            slots.clear();
            places.clear();
            for (record, row) in bytes.chunks_exact(file.stride).zip(first..) {
                let at = records.len();
                records.extend_from_slice(&record[..size]);
                match self.directory.slot_of(row as u32) {
                    Some(slot) => {
                        slots.push(slot as u32);
                        places.push(at);
                    }
                    None if !self.is_stored(row as u32) => self.below.initial.write(row, &mut records[at..]),
                    None => {}
                }
            }
            taken.resize(slots.len() * size, 0);
            let nearest = |_| RowRounding::NEAREST;
            self.shape.take(&self.device, &mut copies, (table, &slots), nearest, &mut taken)?;
            for (&at, record) in places.iter().zip(taken.chunks_exact(size)) {
                records[at..at + size].copy_from_slice(record);
            }
            take(&records)
        })
    }

    /// Reads the records of some rows, which ascend, wherever they are. Nothing may be under way.
    pub(crate) fn read_some_records(
        &self,
        table: &Table,
        rows: &[u32],
        copies: &mut RowCopies,
        records: &mut [u8],
    ) -> Result<(), Error> {
        let size = self.shape.bytes();
        // Rows that are in memory, and their places among the records.
        let (mut slots, mut places) = (Vec::new(), Vec::new());
        for (place, &row) in rows.iter().enumerate() {
            match self.directory.slot_of(row) {
                Some(slot) => {
                    slots.push(slot as u32);
                    places.push(place);
                }
                None => self.read_records(table, row as usize..row as usize + 1, |record| {
                    records[place * size..][..size].copy_from_slice(record);
                    Ok(())
                })?,
            }
        }
        let mut taken = vec![0; slots.len() * size];
        let nearest = |_| RowRounding::NEAREST;
        self.shape.take(&self.device, copies, (table, &slots), nearest, &mut taken)?;
        for (place, record) in places.into_iter().zip(taken.chunks_exact(size)) {
            records[place * size..][..size].copy_from_slice(record);
        }
        Ok(())
    }

    /// Notes from here on which rows are updated.
    pub(crate) fn track_updates(&mut self) -> Result<(), Error> {
        self.directory.track_updates(RowMarks::new(&Device::Reference, self.rows)?);
        Ok(())
    }

    /// Rows that were updated since they were last asked for, or will be by a batch whose rows were found.
    pub(crate) fn take_updated(&mut self) -> Result<Vec<u32>, Error> {
        Ok(self.directory.take_updated()?)
    }

    /// Number format of the weights in files. Rows in memory may be more precise, until they leave it.
    pub(super) fn format(&self) -> TableFormat {
        self.shape.format
    }

    /// Reads weights in the format of the files.
    pub(super) fn read_stored(
        &self,
        table: &Table,
        rows: Range<usize>,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        let mut to = bytes.chunks_exact_mut(self.shape.weight_bytes());
        self.read_records(table, rows, |records| {
            for record in records.chunks_exact(self.shape.bytes()) {
                let row = to.next().expect("room for each row");
                row.copy_from_slice(&record[..self.shape.weight_bytes()]);
            }
            Ok(())
        })
    }

    /// Weights of rows as floats.
    pub fn read_weights(&self, table: &Table, rows: Range<usize>, floats: &mut [f32]) -> Result<(), Error> {
        self.read_floats(table, rows, self.shape.dim, floats, |shape, record, row| shape.weights(record, row))
    }

    /// Optimizer state of rows.
    pub fn read_state(&self, table: &Table, rows: Range<usize>, floats: &mut [f32]) -> Result<(), Error> {
        self.read_floats(table, rows, self.shape.state, floats, |shape, record, row| shape.state(record, row))
    }

    fn read_floats(
        &self,
        table: &Table,
        rows: Range<usize>,
        width: usize,
        floats: &mut [f32],
        each: impl Fn(&RecordShape, &[u8], &mut [f32]),
    ) -> Result<(), Error> {
        if width == 0 {
            return Ok(());
        }
        let mut to = floats.chunks_exact_mut(width);
        self.read_records(table, rows, |records| {
            for record in records.chunks_exact(self.shape.bytes()) {
                let row = to.next().expect("a row of floats for each record");
                each(&self.shape, record, row);
            }
            Ok(())
        })
    }

    /// Writes weights of rows from `first` on.
    pub fn write_weights(&mut self, table: &Table, first: usize, floats: &[f32]) -> Result<(), Error> {
        let width = self.shape.dim;
        self.change_records(table, first..first + floats.len() / width, |shape, record, row| {
            shape.set_weights(record, &floats[(row - first) * width..][..width]);
        })
    }

    /// Writes weights of rows from `first` on, which are in the format of the files.
    pub(super) fn write_stored(&mut self, table: &Table, first: usize, bytes: &[u8]) -> Result<(), Error> {
        let width = self.shape.weight_bytes();
        self.change_records(table, first..first + bytes.len() / width, |shape, record, row| {
            shape.set_stored(record, &bytes[(row - first) * width..][..width]);
        })
    }

    /// Writes optimizer state of rows from `first` on.
    pub fn write_state(&mut self, table: &Table, first: usize, floats: &[f32]) -> Result<(), Error> {
        let width = self.shape.state;
        if width == 0 {
            return Ok(());
        }
        self.change_records(table, first..first + floats.len() / width, |shape, record, row| {
            shape.set_state(record, &floats[(row - first) * width..][..width]);
        })
    }

    /// Changes records that follow each other, in the file; none of them is in memory afterwards.
    fn change_records(
        &mut self,
        table: &Table,
        rows: Range<usize>,
        change: impl Fn(&RecordShape, &mut [u8], usize),
    ) -> Result<(), Error> {
        let (file, size) = (self.below.file.clone(), self.shape.bytes());
        let (per_unit, stride) = (file.rows_per_unit(), file.stride);
        let at_once = (RUN / stride).next_multiple_of(per_unit).max(per_unit);
        let mut bytes = AlignedBytes::default();
        let mut first = rows.start / per_unit * per_unit;
        while first < rows.end {
            // Whole units, with what other rows of them have.
            let end = (first + at_once).min(rows.end.next_multiple_of(per_unit));
            let there = first..end.min(self.rows);
            bytes.resize((end - first) * stride);
            bytes.as_mut_slice().fill(0);
            let mut records = bytes.as_mut_slice().chunks_exact_mut(stride);
            self.read_records(table, there.clone(), |read| {
                for record in read.chunks_exact(size) {
                    records.next().expect("room for each")[..size].copy_from_slice(record);
                }
                Ok(())
            })?;
            for (record, row) in bytes.as_mut_slice().chunks_exact_mut(stride).zip(there.clone()) {
                if rows.contains(&row) {
                    change(&self.shape, &mut record[..size], row);
                }
                self.note_stored(row as u32);
            }
            file.write_rows(first, &bytes)?;
            first = end;
        }
        // What memory has of these rows is out of date.
        self.directory.forget(rows);
        Ok(())
    }
}
