//! Some rows of a log, as text.

/// Rows of the beginning that are looked at.
pub(crate) const FIRST_ROWS: usize = 20_000;
/// Cells that are looked at, at most.
pub(crate) const MOST_CELLS: usize = 4 << 20;

/// How a column is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// As fields of a text, which may be anything.
    Text,
    /// Parquet: booleans, seen as 0 and 1.
    Boolean,
    /// Parquet: integers.
    Integer,
    /// Parquet: floats.
    Float,
    /// Parquet: strings.
    String,
    /// Parquet: lists of strings or integers.
    IdList,
    /// Parquet: dates or timestamps, seen as the integers they are stored as.
    Time,
    /// Parquet: something that no column of a log can be, and what it is.
    Other(String),
}

impl Stored {
    /// Whether a label, a number or a weight may be read from it.
    pub fn as_number(&self) -> bool {
        matches!(self, Stored::Text | Stored::Boolean | Stored::Integer | Stored::Float)
    }

    /// Whether ids may be read from it.
    pub fn as_id(&self) -> bool {
        matches!(self, Stored::Text | Stored::Integer | Stored::String | Stored::IdList)
    }
}

/// Some rows of a log. A value that is not there is an empty text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Names of the columns.
    pub names: Vec<String>,
    /// How they are stored.
    pub stored: Vec<Stored>,
    /// Whether these are all rows of the log.
    pub whole: bool,
    text: Vec<u8>,
    /// Where each cell ends, row by row.
    ends: Vec<usize>,
}

impl Sample {
    /// No rows of these columns yet.
    pub fn new(names: Vec<String>, stored: Vec<Stored>) -> Self {
        Self { names, stored, whole: true, text: vec![], ends: vec![] }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len() / self.names.len().max(1)
    }

    /// Rows that there is room for.
    pub fn room(&self) -> usize {
        (MOST_CELLS / self.names.len().max(1)).max(64).saturating_sub(self.rows())
    }

    /// Appends the next cell: rows must be filled one after the other.
    pub fn push(&mut self, cell: &[u8]) {
        self.text.extend_from_slice(cell);
        self.ends.push(self.text.len());
    }

    /// The cell of a row and a column.
    pub fn cell(&self, row: usize, column: usize) -> &[u8] {
        let at = row * self.names.len() + column;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    /// The cells of a column.
    pub fn column(&self, column: usize) -> impl Iterator<Item = &[u8]> + Clone {
        (0..self.rows()).map(move |row| self.cell(row, column))
    }
}
