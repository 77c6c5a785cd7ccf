//! What a model predicted, for other tools.
//!
//! A table of two columns. The second is `probability`, the first says of what:
//!
//! ```text
//! label,probability       row,probability      user,probability
//! 0,0.0312                0,0.0312             "Smith, J.",0.0312
//! 1,0.75                  1,                   u17,0.75
//! ```
//!
//! There is a row for every sample that was evaluated on, with its label, or for every row of a log, with its number or with
//! the text of a column. A row of a log that holds no sample has no probability. CSV is quoted by RFC 4180.
//!
//! A file is CSV, or Parquet if its name ends in `.parquet`: labels and probabilities are floats, numbers 64-bit integers,
//! texts strings, and what is missing is null. It has another name until it is complete.
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

mod table;

use crate::DataError;
use std::fs;
use std::path::{Path, PathBuf};
use table::{Table, Value};

/// What the first column of a table holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstColumn {
    /// Labels of samples, under `label`.
    Labels,
    /// Numbers of rows, from 0, under `row`.
    Rows,
    /// Texts of a column, under its name.
    Keys(String),
}

/// A file of predictions that is being written. It disappears if it is never finished.
pub struct Predictions {
    path: PathBuf,
    /// What the file is called until it is complete.
    partial: PathBuf,
    /// Taken when the file is finished.
    table: Option<Table>,
}

impl Predictions {
    /// Starts the file at `path`, with labels in its first column: Parquet if it is named so, CSV otherwise.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, DataError> {
        Self::with(path, &FirstColumn::Labels)
    }

    /// As [`create`](Self::create), with another first column.
    pub fn with(path: impl AsRef<Path>, first: &FirstColumn) -> Result<Self, DataError> {
        let path = path.as_ref();
        let Some(name) = path.file_name() else {
            return Err(DataError::file(path, "is not the name of a file"));
        };
        let mut partial_name = name.to_owned();
        partial_name.push(".partial");
        let partial = path.with_file_name(partial_name);
        let parquet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        let table =
            Table::create(&partial, parquet, first).map_err(|error| DataError::file(&partial, error))?;
        Ok(Self { path: path.to_owned(), partial, table: Some(table) })
    }

    /// Appends the labels and probabilities of some samples.
    pub fn append(&mut self, labels: &[f32], probabilities: &[f32]) -> Result<(), DataError> {
        let (got, expected) = (probabilities.len(), labels.len());
        if got != expected {
            return Err(DataError::Size { what: "probabilities", got, expected });
        }
        labels
            .iter()
            .zip(probabilities)
            .try_for_each(|(&label, &probability)| self.write(Value::Label(label), Some(probability)))
    }

    /// Appends row `number` of a log.
    pub fn append_row(&mut self, number: u64, probability: Option<f32>) -> Result<(), DataError> {
        self.write(Value::Row(number), probability)
    }

    /// Appends the row of a log that has the text `key`, where it could be read.
    pub fn append_key(&mut self, key: Option<&[u8]>, probability: Option<f32>) -> Result<(), DataError> {
        self.write(Value::Key(key), probability)
    }

    fn write(&mut self, value: Value, probability: Option<f32>) -> Result<(), DataError> {
        let Some(table) = &mut self.table else { return Ok(()) };
        table.append(value, probability).map_err(|error| DataError::file(&self.partial, error))
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

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;
    use std::fs::File;
    use table::GROUP_ROWS;

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
    fn rows_without_a_probability_keep_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, first: FirstColumn| {
            let path = folder.path().join(name);
            let mut predictions = Predictions::with(&path, &first).unwrap();
            for (number, (key, probability)) in
                [(Some("a,\"b\""), Some(0.5)), (None, None), (Some("ü\n"), None)].into_iter().enumerate()
            {
                match first {
                    FirstColumn::Keys(_) => predictions.append_key(key.map(str::as_bytes), probability),
                    _ => predictions.append_row(number as u64, probability),
                }
                .unwrap();
            }
            predictions.finish().unwrap();
            path
        };
        let keys = || FirstColumn::Keys("the key, quoted".into());
        let text = |name, first| fs::read_to_string(write(name, first)).unwrap();
        assert_eq!(text("rows.csv", FirstColumn::Rows), "row,probability\n0,0.5\n1,\n2,\n");
        let expected = "\"the key, quoted\",probability\n\"a,\"\"b\"\"\",0.5\n,\n\"ü\n\",\n";
        assert_eq!(text("keys.csv", keys()), expected);

        let read = |path| {
            let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect::<Vec<_>>()
        };
        let rows = read(write("rows.parquet", FirstColumn::Rows));
        assert_eq!(rows[0], "{row: 0, probability: 0.5}");
        assert_eq!(rows[2], "{row: 2, probability: null}");
        let keyed = read(write("keys.parquet", keys()));
        assert_eq!(keyed[1], "{the key, quoted: null, probability: null}");
        assert!(keyed[0].contains("a,\"b\"") && keyed[2].contains("null"), "{keyed:?}");
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
