//! Rows of an embedding table in Parquet.

use super::EmbeddingRow;
use ::parquet::basic::Compression;
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// Number of floats of a row group, at least.
const GROUP_FLOATS: usize = 1 << 22;
/// Bytes of text of a row group, at least.
const GROUP_BYTES: usize = 64 << 20;

const IDS: &str = "optional binary id (UTF8); optional int64 count;";

pub(super) struct ParquetTable<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    has_ids: bool,
    rows: Vec<i64>,
    ids: Vec<ByteArray>,
    /// 1 for each row with an id, 0 for each row without.
    with_id: Vec<i16>,
    counts: Vec<i64>,
    with_count: Vec<i16>,
    floats: Vec<f32>,
    /// 0 for the first value of a vector, 1 for the others.
    repeated: Vec<i16>,
    bytes: usize,
}

impl<W: Write + Send> ParquetTable<W> {
    pub fn new(out: W, has_ids: bool) -> Result<Self, ParquetError> {
        let ids = if has_ids { IDS } else { "" };
        let message = format!(
            "message embeddings {{ required int64 row; {ids} \
             required group vector (LIST) {{ repeated group list {{ required float element; }} }} }}"
        );
        let schema = Arc::new(parse_message_type(&message)?);
        // Values of vectors hardly repeat, so a dictionary would be of no use.
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_column_dictionary_enabled("vector.list.element".into(), false)
            .build();
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        Ok(Self {
            writer,
            has_ids,
            rows: vec![],
            ids: vec![],
            with_id: vec![],
            counts: vec![],
            with_count: vec![],
            floats: vec![],
            repeated: vec![],
            bytes: 0,
        })
    }

    pub fn append(&mut self, row: &EmbeddingRow) -> Result<(), ParquetError> {
        self.rows.push(row.row as i64);
        if self.has_ids {
            self.with_id.push(i16::from(row.id.is_some()));
            self.with_count.push(i16::from(row.count.is_some()));
            self.counts.extend(row.count.map(|count| count as i64));
            // Strings of Parquet are UTF-8; invalid bytes become the replacement character.
            let text = row.id.map(|id| String::from_utf8_lossy(id).into_owned());
            self.bytes += text.as_ref().map_or(0, String::len);
            self.ids.extend(text.map(|text| ByteArray::from(text.into_bytes())));
        }
        self.floats.extend_from_slice(row.vector);
        self.repeated.extend((0..row.vector.len()).map(|value| i16::from(value > 0)));
        if self.floats.len() >= GROUP_FLOATS || self.bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<W, ParquetError> {
        self.write_group()?;
        self.writer.into_inner()
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        write::<Int64Type, W>(&mut group, &mut self.rows, None, None)?;
        if self.has_ids {
            write::<ByteArrayType, W>(&mut group, &mut self.ids, Some(&mut self.with_id), None)?;
            write::<Int64Type, W>(&mut group, &mut self.counts, Some(&mut self.with_count), None)?;
        }
        let mut present = vec![1; self.floats.len()];
        write::<FloatType, W>(&mut group, &mut self.floats, Some(&mut present), Some(&mut self.repeated))?;
        group.close()?;
        self.bytes = 0;
        Ok(())
    }
}

/// Writes a column with its levels, and empties all.
fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    present: Option<&mut Vec<i16>>,
    repeated: Option<&mut Vec<i16>>,
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        let levels = (present.as_deref().map(Vec::as_slice), repeated.as_deref().map(Vec::as_slice));
        column.typed::<T>().write_batch(values, levels.0, levels.1)?;
        column.close()?;
    }
    values.clear();
    [present, repeated].into_iter().flatten().for_each(Vec::clear);
    Ok(())
}
