//! Click logs in memory: columns of a data frame, which are read where they lie.
//!
//! A table is a list of batches, as Arrow has them: all columns of a batch have equally many rows. Buffers are shared, never copied: what
//! owns one need only lend it as a slice. Rows become samples as those of [Parquet files](crate::parquet) do.
//!
//! ```
//! use data::table::{Chunk, ColumnType, Table, Values};
//! use std::sync::Arc;
//! let clicks = Chunk::new(3, Values::Int64(Arc::new(vec![0, 1, 0])));
//! let prices = Chunk::new(3, Values::Float64(Arc::new(vec![1.5, 2.5, 4.0])));
//! let types = vec![ColumnType::of("click", &clicks), ColumnType::of("price", &prices)];
//! let mut table = Table::new(types)?;
//! table.push(3, vec![clicks, prices])?;
//! assert_eq!(table.rows(), 3);
//! # Ok::<(), data::DataError>(())
//! ```

mod decode;
mod sample;
mod values;
mod view;

#[cfg(test)]
mod tests;

pub(crate) use decode::decode;
pub(crate) use sample::sample;
pub use values::{Bits, Chunk, Offsets, Shared, StoredType, Values};

use crate::DataError;
use std::fmt;

/// Name that messages call a table by, in place of the path of a file.
pub const NAME: &str = "the table";

/// Name and type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// Name of the column.
    pub name: String,
    /// Type of its values.
    pub stored: StoredType,
}

impl ColumnType {
    /// The column `name`, with values as those of `chunk`.
    pub fn of(name: &str, chunk: &Chunk) -> Self {
        Self { name: name.into(), stored: chunk.stored_type() }
    }
}

/// A log in memory.
#[derive(Clone)]
pub struct Table {
    columns: Vec<ColumnType>,
    batches: Vec<Batch>,
    rows: u64,
}

/// Consecutive rows of all columns.
#[derive(Clone)]
struct Batch {
    rows: usize,
    chunks: Vec<Chunk>,
}

impl Table {
    /// A table without rows, of these columns. Fails if two of them have the same name.
    pub fn new(columns: Vec<ColumnType>) -> Result<Self, DataError> {
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                let problem = format!("has two columns named `{}`; rename one of them", column.name);
                return Err(DataError::file(NAME, problem));
            }
        }
        Ok(Self { columns, batches: vec![], rows: 0 })
    }

    /// Appends rows: a chunk for each column, of the column's type. Every index and length in them is checked.
    pub fn push(&mut self, rows: usize, chunks: Vec<Chunk>) -> Result<(), DataError> {
        if chunks.len() != self.columns.len() {
            let problem = format!("{} columns, where it has {}", chunks.len(), self.columns.len());
            return Err(DataError::file(NAME, problem));
        }
        for (column, chunk) in self.columns.iter().zip(&chunks) {
            let refuse = |problem: String| {
                Err(DataError::Column { path: NAME.into(), column: column.name.clone(), problem })
            };
            if chunk.len() != rows {
                return refuse(format!(
                    "has {} rows, where others have {rows}; all columns must be equally long",
                    chunk.len()
                ));
            }
            if chunk.stored_type() != column.stored {
                return refuse(format!("holds {} here, and {} before", chunk.stored_type(), column.stored));
            }
            if let Err(problem) = chunk.check() {
                return refuse(problem);
            }
        }
        self.rows += rows as u64;
        self.batches.push(Batch { rows, chunks });
        Ok(())
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Names and types of the columns.
    pub fn columns(&self) -> &[ColumnType] {
        &self.columns
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("columns", &self.columns).field("rows", &self.rows).finish()
    }
}
