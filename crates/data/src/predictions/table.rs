//! Tables of samples or rows and their probabilities, as CSV or as Parquet.

use super::FirstColumn;
use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;
use std::error::Error;
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// Largest number of rows of a Parquet row group.
pub(super) const GROUP_ROWS: usize = 1 << 20;
/// Approximate limit of the bytes of text in a row group.
const GROUP_BYTES: usize = 64 << 20;

/// Result of writing a table. CSV and Parquet have different errors; the caller adds the path.
type WriteResult<T> = Result<T, Box<dyn Error>>;

/// A table that is being written.
pub(super) enum Table<W: Write + Send> {
    Csv {
        out: BufWriter<W>,
        /// Number of labels of a sample.
        labels: usize,
    },
    Parquet(Box<ParquetTable<W>>),
}

/// Value of the first column in a row.
pub(super) enum Value<'a> {
    Labels(&'a [f32]),
    Row(u64),
    Key(Option<&'a [u8]>),
}

pub(super) struct ParquetTable<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// First column of the rows in the current group.
    first: Cells,
    /// Probabilities of the rows that have one, for each label.
    probabilities: Vec<Vec<f32>>,
    /// 1 for each row with a probability, 0 for each row without; empty if all rows must have one.
    present: Vec<i16>,
    rows: usize,
    bytes: usize,
}

enum Cells {
    /// Labels of each name.
    Labels(Vec<Vec<f32>>),
    Rows(Vec<i64>),
    Keys {
        texts: Vec<ByteArray>,
        present: Vec<i16>,
    },
}

impl<W: Write + Send> Table<W> {
    /// Starts a table in `out`.
    pub fn new(out: W, parquet: bool, first: &FirstColumn, names: &[String]) -> WriteResult<Self> {
        if parquet {
            return Ok(Self::Parquet(Box::new(ParquetTable::new(out, first, names)?)));
        }
        let mut csv = BufWriter::new(out);
        let mut columns = match first {
            FirstColumn::Labels => named("label", names),
            FirstColumn::Rows => vec!["row".into()],
            FirstColumn::Keys(name) => vec![name.clone()],
        };
        columns.extend(named("probability", names));
        for (at, column) in columns.iter().enumerate() {
            csv.write_all(if at > 0 { b"," } else { b"" })?;
            write_quoted(&mut csv, column.as_bytes())?;
        }
        writeln!(csv)?;
        Ok(Self::Csv { out: csv, labels: names.len().max(1) })
    }

    /// Appends a row.
    pub fn append(&mut self, value: Value, probabilities: Option<&[f32]>) -> WriteResult<()> {
        match self {
            Self::Csv { out, labels } => {
                // `{}` prints the fewest digits that give the same float again, and 1 for 1.0.
                match value {
                    Value::Labels(labels) => {
                        for (at, label) in labels.iter().enumerate() {
                            write!(out, "{}{label}", if at > 0 { "," } else { "" })?;
                        }
                    }
                    Value::Row(number) => write!(out, "{number}")?,
                    Value::Key(key) => write_quoted(out, key.unwrap_or_default())?,
                }
                match probabilities {
                    Some(probabilities) => {
                        for probability in probabilities {
                            write!(out, ",{probability}")?;
                        }
                    }
                    None => out.write_all(&vec![b','; *labels])?,
                }
                writeln!(out)?;
            }
            Self::Parquet(table) => table.append(value, probabilities)?,
        }
        Ok(())
    }

    /// Writes the remaining rows, and returns the output.
    pub fn close(self) -> WriteResult<W> {
        match self {
            Self::Csv { mut out, .. } => {
                out.flush()?;
                Ok(out.into_parts().0)
            }
            Self::Parquet(mut table) => {
                table.write_group()?;
                Ok(table.writer.into_inner()?)
            }
        }
    }
}

/// Name of the column of `what`, or one for each of several labels.
fn named(what: &str, labels: &[String]) -> Vec<String> {
    match labels {
        [] => vec![what.into()],
        labels => labels.iter().map(|label| format!("{what}_{label}")).collect(),
    }
}

/// Writes a field of a CSV line, quoted if RFC 4180 requires it.
fn write_quoted(csv: &mut impl Write, text: &[u8]) -> std::io::Result<()> {
    write_quoted_by(csv, b',', text)
}

/// Writes a field of a line with this delimiter, quoted if RFC 4180 requires it.
pub(crate) fn write_quoted_by(csv: &mut impl Write, delimiter: u8, text: &[u8]) -> std::io::Result<()> {
    if !text.iter().any(|byte| *byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r')) {
        return csv.write_all(text);
    }
    csv.write_all(b"\"")?;
    for (number, piece) in text.split(|&byte| byte == b'"').enumerate() {
        if number > 0 {
            csv.write_all(b"\"\"")?;
        }
        csv.write_all(piece)?;
    }
    csv.write_all(b"\"")
}

impl<W: Write + Send> ParquetTable<W> {
    fn new(out: W, first: &FirstColumn, names: &[String]) -> Result<Self, ParquetError> {
        let column = |name: &str, physical, repetition, logical| {
            let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
            builder.with_logical_type(logical).build().map(Arc::new)
        };
        // Every sample that is evaluated has a probability; a row of a log may have none.
        let (required, optional) = (Repetition::REQUIRED, Repetition::OPTIONAL);
        let floats = |what: &str, repetition| {
            let columns = named(what, names).into_iter();
            columns
                .map(|name| column(&name, Physical::FLOAT, repetition, None))
                .collect::<Result<Vec<_>, _>>()
        };
        let labels = names.len().max(1);
        let (mut fields, cells, probability) = match first {
            FirstColumn::Labels => {
                (floats("label", required)?, Cells::Labels(vec![vec![]; labels]), required)
            }
            FirstColumn::Rows => {
                (vec![column("row", Physical::INT64, required, None)?], Cells::Rows(vec![]), optional)
            }
            FirstColumn::Keys(name) => {
                let texts = column(name, Physical::BYTE_ARRAY, optional, Some(LogicalType::String))?;
                (vec![texts], Cells::Keys { texts: vec![], present: vec![] }, optional)
            }
        };
        fields.extend(floats("probability", probability)?);
        let schema = Type::group_type_builder("predictions").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let probabilities = vec![vec![]; labels];
        Ok(Self { writer, first: cells, probabilities, present: vec![], rows: 0, bytes: 0 })
    }

    fn append(&mut self, value: Value, probabilities: Option<&[f32]>) -> Result<(), ParquetError> {
        match (&mut self.first, value) {
            (Cells::Labels(columns), Value::Labels(labels)) => {
                columns.iter_mut().zip(labels).for_each(|(column, label)| column.push(*label));
            }
            (Cells::Rows(rows), Value::Row(number)) => rows.push(number as i64),
            (Cells::Keys { texts, present }, Value::Key(key)) => {
                present.push(i16::from(key.is_some()));
                // Strings of Parquet are UTF-8; invalid bytes become the replacement character.
                let text = key.map(|key| String::from_utf8_lossy(key).into_owned());
                self.bytes += text.as_ref().map_or(0, String::len);
                texts.extend(text.map(|text| ByteArray::from(text.into_bytes())));
            }
            _ => return Err(ParquetError::General("a row of another table".into())),
        }
        if !matches!(self.first, Cells::Labels(_)) {
            self.present.push(i16::from(probabilities.is_some()));
        }
        let columns = self.probabilities.iter_mut().zip(probabilities.unwrap_or_default());
        columns.for_each(|(column, probability)| column.push(*probability));
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    /// Writes the current rows as a row group.
    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        match &mut self.first {
            Cells::Labels(columns) => {
                for labels in columns {
                    write_column::<FloatType, W>(&mut group, labels, None)?;
                }
            }
            Cells::Rows(rows) => write_column::<Int64Type, W>(&mut group, rows, None)?,
            Cells::Keys { texts, present } => {
                write_column::<ByteArrayType, W>(&mut group, texts, Some(present))?;
                present.clear();
            }
        }
        let present = (!self.present.is_empty()).then_some(&self.present[..]);
        for probabilities in &mut self.probabilities {
            write_column::<FloatType, W>(&mut group, probabilities, present)?;
        }
        self.present.clear();
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

/// Writes the present values with the levels that mark missing ones, and empties the values.
fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    present: Option<&[i16]>,
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, present, None)?;
        column.close()?;
    }
    values.clear();
    Ok(())
}
