//! Rows of an embedding table as files, for other tools.
//!
//! ```text
//! row,id,count,v0,v1            CSV, or TSV if the name ends in .tsv
//! 0,,,0.5,-1                    row 0 of a vocabulary has no id
//! 1,Oslo,4711,0.25,2
//! ```
//!
//! In Parquet, if the name ends in `.parquet`, `row` and `count` are 64-bit integers, `id` is a string, and `vector` is a list
//! of floats. Where ids are not known, the columns `id` and `count` are left out. All are written sequentially.
//!
//! ```
//! use data::embeddings::{EmbeddingRow, EmbeddingTable};
//! let mut table = EmbeddingTable::new("city.csv", Vec::new(), 2, true)?;
//! table.append(&EmbeddingRow { row: 1, id: Some(b"Oslo"), count: Some(7), vector: &[0.25, 2.0] })?;
//! assert_eq!(table.finish()?, b"row,id,count,v0,v1\n1,Oslo,7,0.25,2\n");
//! # Ok::<(), data::DataError>(())
//! ```

mod parquet;

use crate::DataError;
use crate::predictions::write_quoted_by;
use parquet::ParquetTable;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A row of an embedding table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingRow<'a> {
    /// Number of the row.
    pub row: u64,
    /// Text of the id whose row it is, if it is known.
    pub id: Option<&'a [u8]>,
    /// How often the id was seen in the training rows, if it is known.
    pub count: Option<u64>,
    /// Values of the row.
    pub vector: &'a [f32],
}

/// Writer of rows of an embedding table. The file is complete only after [`finish`](Self::finish).
pub struct EmbeddingTable<W: Write + Send> {
    /// Name of the file in messages.
    path: PathBuf,
    dim: usize,
    /// Whether rows have ids and counts.
    ids: bool,
    format: Format<W>,
}

enum Format<W: Write + Send> {
    Text { out: BufWriter<W>, delimiter: u8 },
    Parquet(Box<ParquetTable<W>>),
}

impl<W: Write + Send> EmbeddingTable<W> {
    /// Starts a table of rows with `dim` values in `out`, which messages name by `path`; its extension says the format.
    pub fn new(path: impl AsRef<Path>, out: W, dim: usize, ids: bool) -> Result<Self, DataError> {
        let path = path.as_ref().to_owned();
        let is = |extension: &str| path.extension().is_some_and(|end| end.eq_ignore_ascii_case(extension));
        let format = if is("parquet") {
            let table = ParquetTable::new(out, ids).map_err(|error| DataError::file(&path, error))?;
            Format::Parquet(Box::new(table))
        } else {
            let delimiter = if is("tsv") { b'\t' } else { b',' };
            let mut out = BufWriter::new(out);
            header(&mut out, delimiter, dim, ids).map_err(|error| DataError::file(&path, error))?;
            Format::Text { out, delimiter }
        };
        Ok(Self { path, dim, ids, format })
    }

    /// Appends a row.
    pub fn append(&mut self, row: &EmbeddingRow) -> Result<(), DataError> {
        if row.vector.len() != self.dim {
            let (got, expected) = (row.vector.len(), self.dim);
            return Err(DataError::Size { what: "values of an embedding row", got, expected });
        }
        match &mut self.format {
            Format::Text { out, delimiter } => {
                write_row(out, *delimiter, self.ids, row).map_err(|error| DataError::file(&self.path, error))
            }
            Format::Parquet(table) => table.append(row).map_err(|error| DataError::file(&self.path, error)),
        }
    }

    /// Completes the file, and returns the output.
    pub fn finish(self) -> Result<W, DataError> {
        match self.format {
            Format::Text { mut out, .. } => {
                out.flush().map_err(|error| DataError::file(&self.path, error))?;
                Ok(out.into_parts().0)
            }
            Format::Parquet(table) => table.finish().map_err(|error| DataError::file(&self.path, error)),
        }
    }
}

fn header(out: &mut impl Write, delimiter: u8, dim: usize, ids: bool) -> io::Result<()> {
    let between = char::from(delimiter);
    write!(out, "row")?;
    if ids {
        write!(out, "{between}id{between}count")?;
    }
    (0..dim).try_for_each(|value| write!(out, "{between}v{value}"))?;
    writeln!(out)
}

fn write_row(out: &mut impl Write, delimiter: u8, ids: bool, row: &EmbeddingRow) -> io::Result<()> {
    let between = char::from(delimiter);
    write!(out, "{}", row.row)?;
    if ids {
        write!(out, "{between}")?;
        write_quoted_by(out, delimiter, row.id.unwrap_or_default())?;
        write!(out, "{between}")?;
        row.count.map_or(Ok(()), |count| write!(out, "{count}"))?;
    }
    // `{}` prints the fewest digits that give the same float again.
    row.vector.iter().try_for_each(|value| write!(out, "{between}{value}"))?;
    writeln!(out)
}

/// Writes a line of a file of ids by row: `row,id,count`.
pub fn write_id(out: &mut impl Write, row: u64, id: &[u8], count: u64) -> io::Result<()> {
    write!(out, "{row},")?;
    write_quoted_by(out, b',', id)?;
    writeln!(out, ",{count}")
}

#[cfg(test)]
mod tests;
