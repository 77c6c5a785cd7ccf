//! What a model predicted, for other tools.
//!
//! A table of two columns, `label` and `probability`, one row a sample:
//!
//! ```text
//! label,probability
//! 0,0.0312
//! 1,0.75
//! ```
//!
//! A table is CSV, or Parquet (both columns are floats) if its name ends in `.parquet`. Both are written from the first byte
//! to the last, so that they can go into a pipe.
//!
//! ```
//! let mut predictions = data::Predictions::new("predictions.csv", Vec::new())?;
//! predictions.append(&[0.0, 1.0], &[0.0312, 0.75])?;
//! assert_eq!(predictions.finish()?, b"label,probability\n0,0.0312\n1,0.75\n");
//! # Ok::<(), data::DataError>(())
//! ```

use crate::DataError;
use ::parquet::basic::{Compression, Repetition, Type as Physical};
use ::parquet::data_type::FloatType;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a Parquet row group.
const GROUP_ROWS: usize = 1 << 20;

/// Both kinds of table fail in their own way; the caller adds the path.
type Written<T> = Result<T, Box<dyn Error>>;

/// A table of predictions that is being written. Without [`finish`](Self::finish) it is not complete.
pub struct Predictions<W: Write + Send> {
    /// Where it goes, for messages.
    path: PathBuf,
    table: Table<W>,
}

enum Table<W: Write + Send> {
    Csv(BufWriter<W>),
    Parquet(Box<ParquetTable<W>>),
}

struct ParquetTable<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Rows of a group that is not full yet.
    labels: Vec<f32>,
    probabilities: Vec<f32>,
}

impl<W: Write + Send> Predictions<W> {
    /// Starts a table that goes to `out`: Parquet if `path`, which also names it in messages, ends so, CSV otherwise.
    pub fn new(path: impl AsRef<Path>, out: W) -> Result<Self, DataError> {
        let path = path.as_ref();
        let parquet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        let table = Table::new(out, parquet).map_err(|error| DataError::file(path, error))?;
        Ok(Self { path: path.to_owned(), table })
    }

    /// Appends the labels and probabilities of some samples.
    pub fn append(&mut self, labels: &[f32], probabilities: &[f32]) -> Result<(), DataError> {
        let (got, expected) = (probabilities.len(), labels.len());
        if got != expected {
            return Err(DataError::Size { what: "probabilities", got, expected });
        }
        self.table.append(labels, probabilities).map_err(|error| DataError::file(&self.path, error))
    }

    /// Completes the table, and gives back where it went.
    pub fn finish(self) -> Result<W, DataError> {
        self.table.close().map_err(|error| DataError::file(&self.path, error))
    }
}

impl<W: Write + Send> Table<W> {
    fn new(out: W, parquet: bool) -> Written<Self> {
        if parquet {
            return Ok(Self::Parquet(Box::new(ParquetTable::new(out)?)));
        }
        let mut csv = BufWriter::new(out);
        writeln!(csv, "label,probability")?;
        Ok(Self::Csv(csv))
    }

    fn append(&mut self, labels: &[f32], probabilities: &[f32]) -> Written<()> {
        match self {
            Self::Csv(csv) => {
                for (label, probability) in labels.iter().zip(probabilities) {
                    // `{}` prints the fewest digits that give the same float again, and 1 for 1.0.
                    writeln!(csv, "{label},{probability}")?;
                }
            }
            Self::Parquet(table) => table.append(labels, probabilities)?,
        }
        Ok(())
    }

    fn close(self) -> Written<W> {
        match self {
            Self::Csv(mut csv) => {
                csv.flush()?;
                Ok(csv.into_parts().0)
            }
            Self::Parquet(mut table) => {
                table.write_group(table.labels.len())?;
                Ok(table.writer.into_inner()?)
            }
        }
    }
}

impl<W: Write + Send> ParquetTable<W> {
    fn new(out: W) -> Result<Self, ParquetError> {
        let float = |name| {
            let builder = Type::primitive_type_builder(name, Physical::FLOAT);
            builder.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
        };
        let fields = vec![float("label")?, float("probability")?];
        let schema = Type::group_type_builder("predictions").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        Ok(Self { writer, labels: vec![], probabilities: vec![] })
    }

    fn append(&mut self, labels: &[f32], probabilities: &[f32]) -> Result<(), ParquetError> {
        self.labels.extend_from_slice(labels);
        self.probabilities.extend_from_slice(probabilities);
        while self.labels.len() >= GROUP_ROWS {
            self.write_group(GROUP_ROWS)?;
        }
        Ok(())
    }

    /// Writes the first `rows` rows as a group.
    fn write_group(&mut self, rows: usize) -> Result<(), ParquetError> {
        if rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for values in [&mut self.labels, &mut self.probabilities] {
            if let Some(mut column) = group.next_column()? {
                column.typed::<FloatType>().write_batch(&values[..rows], None, None)?;
                column.close()?;
            }
            values.drain(..rows);
        }
        group.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;
    use std::fs::File;

    fn read(bytes: Vec<u8>) -> SerializedFileReader<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    fn values(count: usize) -> (Vec<f32>, Vec<f32>) {
        let labels = (0..count).map(|i| f32::from(u8::from(i % 3 == 0))).collect();
        let probabilities = (0..count).map(|i| 1.0 / (1.0 + i as f32)).collect();
        (labels, probabilities)
    }

    #[test]
    fn csv_gives_the_same_floats_again() {
        let (mut labels, mut probabilities) = values(1000);
        for tiny in [f32::MIN_POSITIVE, 1e-40, 1.0 - f32::EPSILON / 2.0] {
            labels.push(1.0);
            probabilities.push(tiny);
        }
        let mut predictions = Predictions::new("out.csv", Vec::new()).unwrap();
        predictions.append(&labels[..400], &probabilities[..400]).unwrap();
        predictions.append(&labels[400..], &probabilities[400..]).unwrap();
        let text = String::from_utf8(predictions.finish().unwrap()).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("label,probability"));
        let rows: Vec<(f32, f32)> = lines
            .map(|line| line.split_once(',').unwrap())
            .map(|(label, probability)| {
                assert!(label == "0" || label == "1", "{label}");
                (label.parse().unwrap(), probability.parse().unwrap())
            })
            .collect();
        assert_eq!(rows, labels.into_iter().zip(probabilities).collect::<Vec<_>>());
    }

    #[test]
    fn parquet_is_read_back_group_by_group() {
        let (labels, probabilities) = values(GROUP_ROWS + 100);
        let mut predictions = Predictions::new("out.parquet", Vec::new()).unwrap();
        for (labels, probabilities) in labels.chunks(300_000).zip(probabilities.chunks(300_000)) {
            predictions.append(labels, probabilities).unwrap();
        }
        let reader = read(predictions.finish().unwrap());
        let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(groups, [GROUP_ROWS as i64, 100]);
        let mut count = 0;
        for (row, (label, probability)) in
            reader.get_row_iter(None).unwrap().zip(labels.iter().zip(&probabilities))
        {
            let row = row.unwrap();
            assert_eq!((row.get_float(0).unwrap(), row.get_float(1).unwrap()), (*label, *probability));
            count += 1;
        }
        assert_eq!(count, labels.len());
    }

    #[test]
    fn an_empty_table_is_a_table() {
        let reader = read(Predictions::new("OUT.Parquet", Vec::new()).unwrap().finish().unwrap());
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn errors_name_the_path() {
        let mut predictions = Predictions::new("out.csv", Vec::new()).unwrap();
        let error = predictions.append(&[1.0], &[]).unwrap_err();
        assert_eq!(error, DataError::Size { what: "probabilities", got: 0, expected: 1 });
        // A medium of one byte is full at once.
        for name in ["out.csv", "out.parquet"] {
            let mut room = [0; 1];
            let error =
                Predictions::new(name, &mut room[..]).and_then(|table| table.finish().map(drop)).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
