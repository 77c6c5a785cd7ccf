//! The rows of a rank's table, wherever they are: what checkpoints, digests and new weights read and write.

use super::CachedTable;
use crate::Error;
use kernels::Table;
use spec::table_format::TableFormat;
use std::ops::Range;

/// All rows of one table, to be read. Nothing is on its way between files and memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableRows<'a> {
    /// Rows in memory.
    pub table: &'a Table,
    /// All rows, where memory has not all of them.
    pub cached: Option<&'a CachedTable>,
}

/// All rows of one table, to be replaced.
#[derive(Debug)]
pub(crate) struct TableRowsMut<'a> {
    /// Rows in memory.
    pub table: &'a mut Table,
    /// All rows, where memory has not all of them.
    pub cached: Option<&'a mut CachedTable>,
}

impl TableRows<'_> {
    /// Number format in which all weights are kept.
    pub fn format(&self) -> TableFormat {
        self.cached.map_or(self.table.weights.format(), CachedTable::format)
    }

    /// Reads weights as they are kept.
    pub fn read_stored(&self, rows: Range<usize>, bytes: &mut [u8]) -> Result<(), Error> {
        match self.cached {
            Some(cached) => cached.read_stored(self.table, rows, bytes),
            None => Ok(self.table.weights.read_stored(rows.start, bytes)?),
        }
    }

    /// Reads weights as floats.
    pub fn read_weights(&self, rows: Range<usize>, floats: &mut [f32]) -> Result<(), Error> {
        match self.cached {
            Some(cached) => cached.read_weights(self.table, rows, floats),
            None => Ok(self.table.weights.read(rows.start, floats)?),
        }
    }

    /// Reads optimizer state, of which a row has `width` floats.
    pub fn read_state(&self, rows: Range<usize>, width: usize, floats: &mut [f32]) -> Result<(), Error> {
        match self.cached {
            Some(cached) => cached.read_state(self.table, rows, floats),
            None => Ok(self.table.state.read(rows.start * width, floats)?),
        }
    }
}

impl TableRowsMut<'_> {
    /// Number format in which all weights are kept.
    pub fn format(&self) -> TableFormat {
        TableRows { table: self.table, cached: self.cached.as_deref() }.format()
    }

    /// Replaces weights of rows from `first` on by bytes as they are kept.
    pub fn write_stored(&mut self, first: usize, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.cached {
            Some(cached) => cached.write_stored(self.table, first, bytes),
            None => Ok(self.table.weights.write_stored(first, bytes)?),
        }
    }

    /// Replaces weights of rows from `first` on.
    pub fn write_weights(&mut self, first: usize, floats: &[f32]) -> Result<(), Error> {
        match &mut self.cached {
            Some(cached) => cached.write_weights(self.table, first, floats),
            None => Ok(self.table.weights.write(first, floats)?),
        }
    }

    /// Replaces optimizer state, of which a row has `width` floats, of rows from `first` on.
    pub fn write_state(&mut self, first: usize, width: usize, floats: &[f32]) -> Result<(), Error> {
        match &mut self.cached {
            Some(cached) => cached.write_state(self.table, first, floats),
            None => Ok(self.table.state.write(first * width, floats)?),
        }
    }
}
