//! Sample rows of a log, as text.

use crate::cells::CellColumn;
use std::ops::Range;

/// Number of rows at the beginning of a log that are examined.
pub(crate) const FIRST_ROWS: usize = 20_000;
/// Largest number of cells that are examined.
pub(crate) const MOST_CELLS: usize = 4 << 20;

/// Storage type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Fields of a text, which may hold anything.
    Text,
    /// Booleans of Parquet or a table, read as 0 and 1.
    Boolean,
    /// Integers of Parquet or a table.
    Integer,
    /// Floats of Parquet or a table.
    Float,
    /// Strings of Parquet or a table.
    String,
    /// Lists of strings or integers of Parquet or a table.
    IdList,
    /// Dates or timestamps of Parquet or a table, read as the integers they are stored as.
    Time,
    /// A type of Parquet or a table that cannot be read, with its description.
    Other(String),
}

impl Stored {
    /// Whether a label, a number or a weight can be read from the column.
    pub fn as_number(&self) -> bool {
        matches!(self, Stored::Text | Stored::Boolean | Stored::Integer | Stored::Float)
    }

    /// Whether ids can be read from the column.
    pub fn as_id(&self) -> bool {
        matches!(self, Stored::Text | Stored::Integer | Stored::String | Stored::IdList)
    }
}

/// Sample rows of a log. A missing value is an empty text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Storage type of each column.
    pub stored: Vec<Stored>,
    /// Whether these are all rows of the log.
    pub whole: bool,
    text: Vec<u8>,
    /// End of each cell in the text, row by row.
    ends: Vec<usize>,
}

impl Sample {
    /// Sample without rows, of these columns.
    pub fn new(names: Vec<String>, stored: Vec<Stored>) -> Self {
        Self { names, stored, whole: true, text: vec![], ends: vec![] }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len() / self.names.len().max(1)
    }

    /// Number of rows that may still be added.
    pub fn room(&self) -> usize {
        (MOST_CELLS / self.names.len().max(1)).max(64).saturating_sub(self.rows())
    }

    /// Appends the next cell. Cells must be appended row by row.
    pub fn push(&mut self, cell: &[u8]) {
        self.text.extend_from_slice(cell);
        self.ends.push(self.text.len());
    }

    /// Appends rows of columns, of which those that cannot be read are `None`: integers as digits, booleans as 0 and 1, lists with
    /// bars between elements.
    pub fn push_rows<C: CellColumn>(&mut self, columns: &[Option<&C>], rows: Range<usize>) {
        let mut text = vec![];
        for row in rows {
            for column in columns {
                text.clear();
                for (at, cell) in column.iter().flat_map(|column| column.cells(row)).enumerate() {
                    if at > 0 {
                        text.push(b'|');
                    }
                    cell.with_text(|cell| text.extend_from_slice(cell.unwrap_or_default()));
                }
                self.push(&text);
            }
        }
    }

    /// Text of the cell in a row and a column.
    pub fn cell(&self, row: usize, column: usize) -> &[u8] {
        let at = row * self.names.len() + column;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    /// Cells of a column, row by row.
    pub fn column(&self, column: usize) -> impl Iterator<Item = &[u8]> + Clone {
        (0..self.rows()).map(move |row| self.cell(row, column))
    }
}
