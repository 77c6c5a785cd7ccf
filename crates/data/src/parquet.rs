//! Click logs in Parquet files.
//!
//! A file is read row group by row group and, within a group, some thousand rows at a time: first the rows of each column, then
//! the samples. An id is its text, so that a log has the same samples in Parquet as in CSV: the key of an id is the 64-bit XXH3
//! of its bytes, of its decimal digits if the column holds integers, and of the empty text if it is missing.
//!
//! | in the schema | in the file |
//! |---|---|
//! | labels, sample weights, dense, sparse with `ids = "buckets"` | booleans, integers, floats |
//! | `keep` | booleans, numbers, times, strings, binary |
//! | sparse | strings, binary, integers |
//! | sparse with `separator` or `weight_separator` | strings, which are split as the fields of a text |
//! | sparse with `list` | lists of strings, binary or integers; a list that is null is empty |
//! | `weights` | numbers, or lists of them, or strings to split: as many as the column has ids |
//!
//! Files are not trusted. Footers are checked when a file is opened, pages are checked before they are decoded, and a panic of
//! the decoder becomes an error.

mod column;
mod delta;
mod file;
mod leaf;
mod pages;
mod sample;

#[cfg(test)]
mod tests;

use crate::cells::Numbers;
use crate::number::Input;
use crate::rows::Reading;
use crate::{DataError, Samples};
use file::LogFile;
pub(crate) use sample::sample;
use spec::schema::Schema;
use std::path::{Path, PathBuf};

/// A click log in Parquet files.
#[derive(Clone, Copy, Debug)]
pub struct ParquetLog<'a> {
    /// Files of the log, in order.
    pub files: &'a [PathBuf],
    /// Meaning of the columns.
    pub schema: &'a Schema,
    /// Number of rows that are decoded at a time, for example 4096. They are in memory, besides one page of each column.
    pub batch_rows: usize,
    /// What to read besides the samples.
    pub reading: Reading<'a>,
}

/// Description of a row that holds no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow<'a> {
    /// Path of the file.
    pub file: &'a Path,
    /// Number of the row in its file, from 1.
    pub row: u64,
    /// Name of the column that is wrong.
    pub column: &'a str,
    /// Description of the problem.
    pub problem: String,
}

/// Decodes a log and returns its number of samples.
///
/// All files are opened and their columns found before the first row is read. Samples are passed to `sink` in the order of the
/// log, at most `batch_rows` at a time. A row that holds no sample is passed to `bad` instead, which may return an error to
/// stop. `progress` is called with the number of rows that are done and the number of rows of all files.
pub fn decode(
    log: &ParquetLog,
    bad: &mut dyn FnMut(BadRow) -> Result<(), DataError>,
    progress: &(dyn Fn(u64, u64) + Sync),
    sink: &mut dyn FnMut(&Samples) -> Result<(), DataError>,
) -> Result<u64, DataError> {
    let mut total = 0u64;
    for path in log.files {
        let file = LogFile::open(path, log.schema, &log.reading)?;
        total = file.group_rows().fold(total, |sum, rows| sum.saturating_add(rows as u64));
    }
    let mut done = 0u64;
    let mut decoded = 0u64;
    let mut samples = log.reading.samples(log.schema);
    let inputs = Input::of(log.schema, log.reading.transforms);
    let numbers = Numbers { inputs: &inputs, noted: log.reading.numbers };
    for path in log.files {
        let file = LogFile::open(path, log.schema, &log.reading)?;
        let mut row_of_file = 0u64;
        for (group, mut left) in file.group_rows().enumerate() {
            let mut columns = file.group(group)?;
            while left > 0 {
                let count = left.min(log.batch_rows.max(1));
                file.guard(|| columns.iter_mut().try_for_each(|column| column.read(count)))?;
                samples.clear();
                for row in 0..count {
                    row_of_file += 1;
                    let appended = columns.append(row, log.schema, numbers, &mut samples);
                    if log.reading.rows {
                        columns.note(row, appended.is_ok(), &mut samples);
                    }
                    if let Err(fault) = appended {
                        let (column, problem) = (fault.column, fault.problem);
                        bad(BadRow { file: path, row: row_of_file, column, problem })?;
                    }
                }
                if !samples.is_empty() || !samples.rows.is_empty() {
                    sink(&samples)?;
                }
                left -= count;
                decoded += samples.len() as u64;
                done += count as u64;
                progress(done, total);
            }
        }
    }
    Ok(decoded)
}
