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
//! A file is CSV, or Parquet (both columns are floats) if its name ends in `.parquet`. It has another name until it is
//! complete.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("predictions.csv");
//! let mut predictions = data::Predictions::create(&path)?;
//! predictions.append(&[0.0, 1.0], &[0.0312, 0.75])?;
//! predictions.finish()?;
//! assert_eq!(std::fs::read_to_string(&path).unwrap(), "label,probability\n0,0.0312\n1,0.75\n");
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
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a Parquet row group.
const GROUP_ROWS: usize = 1 << 20;

/// Both kinds of table fail in their own way; the caller adds the path.
type Written<T> = Result<T, Box<dyn Error>>;

/// A file of predictions that is being written. It disappears if it is never finished.
pub struct Predictions {
    path: PathBuf,
    /// What the file is called until it is complete.
    partial: PathBuf,
    /// Taken when the file is finished.
    table: Option<Table>,
}

enum Table {
    Csv(BufWriter<File>),
    Parquet(Box<ParquetTable>),
}

struct ParquetTable {
    writer: SerializedFileWriter<File>,
    /// Rows of a group that is not full yet.
    labels: Vec<f32>,
    probabilities: Vec<f32>,
}

impl Predictions {
    /// Starts the file at `path`: Parquet if it is named so, CSV otherwise.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let Some(name) = path.file_name() else {
            return Err(DataError::file(path, "is not the name of a file"));
        };
        let mut partial_name = name.to_owned();
        partial_name.push(".partial");
        let partial = path.with_file_name(partial_name);
        let parquet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        let table = Table::create(&partial, parquet).map_err(|error| DataError::file(&partial, error))?;
        Ok(Self { path: path.to_owned(), partial, table: Some(table) })
    }

    /// Appends the labels and probabilities of some samples.
    pub fn append(&mut self, labels: &[f32], probabilities: &[f32]) -> Result<(), DataError> {
        let (got, expected) = (probabilities.len(), labels.len());
        if got != expected {
            return Err(DataError::Size { what: "probabilities", got, expected });
        }
        let Some(table) = &mut self.table else { return Ok(()) };
        table.append(labels, probabilities).map_err(|error| DataError::file(&self.partial, error))
    }

    /// Completes the file and gives it its name.
    pub fn finish(mut self) -> Result<(), DataError> {
        let Some(table) = self.table.take() else { return Ok(()) };
        let finished = table.close().and_then(|()| Ok(fs::rename(&self.partial, &self.path)?));
        finished.map_err(|error| {
            let _ = fs::remove_file(&self.partial);
            DataError::file(&self.path, error)
        })
    }
}

impl Drop for Predictions {
    fn drop(&mut self) {
        // Half a table would be taken for a whole one by whoever finds it. Nobody can be told if this fails.
        if self.table.take().is_some() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

impl Table {
    fn create(path: &Path, parquet: bool) -> Written<Self> {
        let file = File::create(path)?;
        if parquet {
            return Ok(Self::Parquet(Box::new(ParquetTable::new(file)?)));
        }
        let mut csv = BufWriter::new(file);
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

    fn close(self) -> Written<()> {
        let file = match self {
            Self::Csv(csv) => csv.into_inner()?,
            Self::Parquet(mut table) => {
                table.write_group(table.labels.len())?;
                table.writer.into_inner()?
            }
        };
        Ok(file.sync_all()?)
    }
}

impl ParquetTable {
    fn new(file: File) -> Result<Self, ParquetError> {
        let float = |name| {
            let builder = Type::primitive_type_builder(name, Physical::FLOAT);
            builder.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
        };
        let fields = vec![float("label")?, float("probability")?];
        let schema = Type::group_type_builder("predictions").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
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

    fn values(count: usize) -> (Vec<f32>, Vec<f32>) {
        let labels = (0..count).map(|i| f32::from(u8::from(i % 3 == 0))).collect();
        let probabilities = (0..count).map(|i| 1.0 / (1.0 + i as f32)).collect();
        (labels, probabilities)
    }

    #[test]
    fn csv_gives_the_same_floats_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let (mut labels, mut probabilities) = values(1000);
        for tiny in [f32::MIN_POSITIVE, 1e-40, 1.0 - f32::EPSILON / 2.0] {
            labels.push(1.0);
            probabilities.push(tiny);
        }
        let mut predictions = Predictions::create(&path).unwrap();
        predictions.append(&labels[..400], &probabilities[..400]).unwrap();
        predictions.append(&labels[400..], &probabilities[400..]).unwrap();
        predictions.finish().unwrap();

        let text = fs::read_to_string(&path).unwrap();
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.parquet");
        let (labels, probabilities) = values(GROUP_ROWS + 100);
        let mut predictions = Predictions::create(&path).unwrap();
        for (labels, probabilities) in labels.chunks(300_000).zip(probabilities.chunks(300_000)) {
            predictions.append(labels, probabilities).unwrap();
        }
        predictions.finish().unwrap();

        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.parquet");
        Predictions::create(&path).unwrap().finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn the_name_is_given_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let names = || {
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        };
        for name in ["out.csv", "out.parquet"] {
            let path = folder.path().join(name);
            fs::write(&path, "an older one").unwrap();
            let mut predictions = Predictions::create(&path).unwrap();
            predictions.append(&[1.0], &[0.5]).unwrap();
            drop(predictions);
            assert_eq!(fs::read_to_string(&path).unwrap(), "an older one");
            assert_eq!(names(), [name]);
            Predictions::create(&path).unwrap().finish().unwrap();
            assert_ne!(fs::read(&path).unwrap(), b"an older one");
            assert_eq!(names(), [name]);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn errors_name_the_path() {
        let error = Predictions::create("/nowhere/at/all/out.csv").err().unwrap();
        assert!(error.to_string().contains("/nowhere/at/all/out.csv"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let mut predictions = Predictions::create(folder.path().join("out.csv")).unwrap();
        let error = predictions.append(&[1.0], &[]).unwrap_err();
        assert_eq!(error, DataError::Size { what: "probabilities", got: 0, expected: 1 });
    }
}
