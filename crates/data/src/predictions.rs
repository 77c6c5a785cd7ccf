//! Tables of predictions, for other tools.
//!
//! A table of a model with one label has two columns. The second is `probability`; the first identifies the sample or row:
//!
//! ```text
//! label,probability       row,probability      user,probability
//! 0,0.0312                0,0.0312             "Smith, J.",0.0312
//! 1,0.75                  1,                   u17,0.75
//! ```
//!
//! A model with several labels has a probability for each, `probability_NAME`, and a label for each, `label_NAME`:
//!
//! ```text
//! label_click,label_buy,probability_click,probability_buy      row,probability_click,probability_buy
//! ```
//!
//! There is a row for every evaluated sample, with its label, or for every row of a log, with its number or with the text of a
//! column. A row of a log that holds no sample has no probability. CSV is quoted by RFC 4180.
//!
//! A table is CSV, or Parquet if its name ends in `.parquet`. In Parquet, labels and probabilities are floats, row numbers are
//! 64-bit integers, texts are strings, and missing values are null. Both are written sequentially, so that they can go into a
//! pipe.
//!
//! ```
//! use data::predictions::{FirstColumn, Predictions};
//! let mut predictions = Predictions::new("predictions.csv", Vec::new(), &FirstColumn::Labels)?;
//! predictions.append(&[0.0, 1.0], &[0.0312, 0.75])?;
//! assert_eq!(predictions.finish()?, b"label,probability\n0,0.0312\n1,0.75\n");
//! # Ok::<(), data::DataError>(())
//! ```

mod table;

use crate::DataError;
use std::io::Write;
use std::path::{Path, PathBuf};
pub(crate) use table::write_quoted_by;
use table::{Table, Value};

/// Contents of the first column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstColumn {
    /// Labels of samples; the column is named `label`.
    Labels,
    /// Row numbers, from 0; the column is named `row`.
    Rows,
    /// Texts of a column of the log, with this name.
    Keys(String),
}

/// Writer of a table of predictions. The table is complete only after [`finish`](Self::finish).
pub struct Predictions<W: Write + Send> {
    /// Name of the table in messages.
    path: PathBuf,
    table: Table<W>,
    /// Number of labels of a sample.
    labels: usize,
}

impl<W: Write + Send> Predictions<W> {
    /// Starts a table in `out`: Parquet if `path` ends in `.parquet`, CSV otherwise. Messages name the table by `path`.
    pub fn new(path: impl AsRef<Path>, out: W, first: &FirstColumn) -> Result<Self, DataError> {
        Self::of_labels(path, out, first, &[])
    }

    /// Starts a table as [`new`](Self::new) does, for a model with labels of these names; none for a model with one label.
    pub fn of_labels(
        path: impl AsRef<Path>,
        out: W,
        first: &FirstColumn,
        names: &[String],
    ) -> Result<Self, DataError> {
        let path = path.as_ref();
        let parquet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        let table = Table::new(out, parquet, first, names).map_err(|error| DataError::file(path, error))?;
        Ok(Self { path: path.to_owned(), table, labels: names.len().max(1) })
    }

    /// Appends the labels and probabilities of some samples: samples × labels of each.
    pub fn append(&mut self, labels: &[f32], probabilities: &[f32]) -> Result<(), DataError> {
        let (got, expected) = (probabilities.len(), labels.len());
        if got != expected {
            return Err(DataError::Size { what: "probabilities", got, expected });
        }
        let samples = labels.chunks_exact(self.labels).zip(probabilities.chunks_exact(self.labels));
        for (labels, probabilities) in samples {
            self.write(Value::Labels(labels), Some(probabilities))?;
        }
        Ok(())
    }

    /// Appends row `number` of a log.
    pub fn append_row(&mut self, number: u64, probability: Option<f32>) -> Result<(), DataError> {
        self.append_row_of_labels(number, probability.as_ref().map(std::slice::from_ref))
    }

    /// Appends row `number` of a log, with a probability for each label.
    pub fn append_row_of_labels(
        &mut self,
        number: u64,
        probabilities: Option<&[f32]>,
    ) -> Result<(), DataError> {
        self.write(Value::Row(number), probabilities)
    }

    /// Appends a row of a log with the text `key`, or without text if it could not be read.
    pub fn append_key(&mut self, key: Option<&[u8]>, probability: Option<f32>) -> Result<(), DataError> {
        self.append_key_of_labels(key, probability.as_ref().map(std::slice::from_ref))
    }

    /// Appends a row of a log with the text `key`, with a probability for each label.
    pub fn append_key_of_labels(
        &mut self,
        key: Option<&[u8]>,
        probabilities: Option<&[f32]>,
    ) -> Result<(), DataError> {
        self.write(Value::Key(key), probabilities)
    }

    fn write(&mut self, value: Value, probabilities: Option<&[f32]>) -> Result<(), DataError> {
        if let Some(got) = probabilities.map(<[f32]>::len).filter(|&got| got != self.labels) {
            return Err(DataError::Size { what: "probabilities", got, expected: self.labels });
        }
        self.table.append(value, probabilities).map_err(|error| DataError::file(&self.path, error))
    }

    /// Completes the table, and returns the output.
    pub fn finish(self) -> Result<W, DataError> {
        self.table.close().map_err(|error| DataError::file(&self.path, error))
    }
}

#[cfg(test)]
mod tests;
