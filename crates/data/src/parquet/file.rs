//! A Parquet file of the log, with its footer checked.
//!
//! ```text
//! PAR1 | pages of column chunks … | footer: schema, row groups, chunks | its length: u32 | PAR1
//! ```
//!
//! Every chunk must lie between the opening mark and the footer, and a plain column must have as many values as rows. The
//! decoders of the `parquet` crate return errors for most other damage, but panic for some. `LogFile::guard` turns a panic into
//! an error that names the file.

use super::column::Column;
use super::leaf::Leaf;
use super::pages::CheckedPages;
use crate::DataError;
use crate::cells::Roles;
use crate::rows::Reading;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetStatisticsPolicy, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use ::parquet::file::serialized_reader::ReadOptionsBuilder;
use spec::schema::Schema;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Mark at the beginning and the end of a file.
const MARK: &[u8; 4] = b"PAR1";
/// Mark at the end of a file whose footer is encrypted.
const ENCRYPTED_MARK: &[u8; 4] = b"PARE";
/// Number of bytes after the footer: its length and the mark.
const TAIL: u64 = 8;

/// An open file of the log.
pub(super) struct LogFile {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    leaves: Roles<Leaf>,
}

impl LogFile {
    /// Opens a file, checks its footer, and finds the columns that `schema` and `reading` need.
    pub fn open(path: &Path, schema: &Schema, reading: &Reading) -> Result<Self, DataError> {
        let reader = open_reader(path)?;
        let leaves = guard(path, || {
            let file = reader.metadata().file_metadata().schema_descr();
            Ok(Roles::find(schema, reading, |name, list, wanted| Leaf::find(file, name, list, wanted)))
        })?;
        let leaves = leaves.map_err(|unfit| DataError::Column {
            path: path.into(),
            column: unfit.column,
            problem: unfit.problem,
        })?;
        Ok(Self { path: path.into(), reader, leaves })
    }

    /// Number of rows of each row group.
    pub fn group_rows(&self) -> impl Iterator<Item = usize> {
        self.reader.metadata().row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0))
    }

    /// Opens the columns of a row group at its first row.
    pub fn group(&self, group: usize) -> Result<Roles<Column>, DataError> {
        self.guard(|| {
            let reader = self.reader.get_row_group(group)?;
            self.leaves.try_map(|leaf| open_column(&*reader, leaf))
        })
    }

    /// Runs a decoder on this file, and turns a panic into an error.
    pub fn guard<T>(&self, decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, DataError> {
        guard(&self.path, decode)
    }
}

/// Opens a file and checks its footer.
pub(super) fn open_reader(path: &Path) -> Result<SerializedFileReader<File>, DataError> {
    let mut file = File::open(path).map_err(|error| DataError::file(path, error))?;
    let chunks_end = match footer_start(&mut file) {
        Ok(start) => start.map_err(|problem| DataError::file(path, problem))?,
        Err(error) => return Err(DataError::file(path, error)),
    };
    // Statistics are not needed, and what is not decoded cannot fail.
    let options =
        ReadOptionsBuilder::new().with_column_stats_policy(ParquetStatisticsPolicy::SkipAll).build();
    let reader = guard(path, || SerializedFileReader::new_with_options(file, options))?;
    for (index, group) in reader.metadata().row_groups().iter().enumerate() {
        check_group(group, chunks_end)
            .map_err(|problem| DataError::file(path, format!("row group {index}: {problem}")))?;
    }
    Ok(reader)
}

/// Offset of the footer, or what is wrong with the beginning or the end of the file.
fn footer_start(file: &mut File) -> io::Result<Result<u64, String>> {
    let length = file.metadata()?.len();
    let body = MARK.len() as u64 + TAIL;
    if length < body {
        return Ok(Err(format!("{length} bytes are too few for a Parquet file")));
    }
    let (mut head, mut footer_length, mut tail) = ([0; 4], [0; 4], [0; 4]);
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut head)?;
    file.seek(SeekFrom::Start(length - TAIL))?;
    file.read_exact(&mut footer_length)?;
    file.read_exact(&mut tail)?;
    if &tail == ENCRYPTED_MARK {
        return Ok(Err("is encrypted; write it without encryption".into()));
    }
    if &head != MARK || &tail != MARK {
        return Ok(Err("is not a Parquet file, or was cut off: it does not begin and end with PAR1".into()));
    }
    let footer = u64::from(u32::from_le_bytes(footer_length));
    match (length - TAIL).checked_sub(footer) {
        Some(start) if start >= MARK.len() as u64 => Ok(Ok(start)),
        _ => Ok(Err(format!(
            "the footer of {footer} bytes exceeds the file of {length} bytes; the file is damaged"
        ))),
    }
}

/// Checks that the chunks of a group lie before `end` and have the right number of values.
fn check_group(group: &RowGroupMetaData, end: u64) -> Result<(), String> {
    let rows = u64::try_from(group.num_rows()).map_err(|_| format!("{} rows", group.num_rows()))?;
    if group.columns().len() != group.schema_descr().num_columns() {
        return Err(format!(
            "{} columns, expected {}",
            group.columns().len(),
            group.schema_descr().num_columns()
        ));
    }
    for chunk in group.columns() {
        check_chunk(chunk, rows, end)
            .map_err(|problem| format!("column {}: {problem}", chunk.column_path()))?;
    }
    Ok(())
}

fn check_chunk(chunk: &ColumnChunkMetaData, rows: u64, end: u64) -> Result<(), String> {
    if let Some(file) = chunk.file_path() {
        return Err(format!("the values are in another file, {file:?}; write them into this one"));
    }
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let (size, values) = (chunk.compressed_size(), chunk.num_values());
    let inside = match (u64::try_from(start), u64::try_from(size)) {
        (Ok(start), Ok(size)) => {
            start >= MARK.len() as u64 && start.checked_add(size).is_some_and(|chunk_end| chunk_end <= end)
        }
        _ => false,
    };
    if !inside {
        return Err(format!("{size} bytes at {start} are not inside the file, whose pages end at {end}"));
    }
    let many = chunk.column_descr().max_rep_level() > 0;
    match u64::try_from(values) {
        Ok(values) if values == rows || (many && values > rows) => Ok(()),
        _ => Err(format!("{values} values for {rows} rows")),
    }
}

pub(super) fn open_column(group: &dyn RowGroupReader, leaf: &Leaf) -> Result<Column, ParquetError> {
    let chunk = group.metadata().column(leaf.index);
    let values = chunk.num_values().cast_unsigned();
    let pages =
        CheckedPages::new(group.get_column_page_reader(leaf.index)?, chunk.column_descr_ptr(), values);
    Column::new(leaf.clone(), chunk.column_descr_ptr(), pages)
}

/// Runs a decoder on the file at `path`, and turns a panic into an error.
///
/// The message of the panic is still printed to standard error: silencing it would replace the panic hook of the whole process
/// while other threads run. Values that the decoder may have left half-changed are not used after an error.
pub(super) fn guard<T>(
    path: &Path,
    decode: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, DataError> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(DataError::file(path, error)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(DataError::file(path, format!("the file is damaged; its decoder gave up: {text}")))
        }
    }
}
