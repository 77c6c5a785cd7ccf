//! Data frames as tables of the library: Arrow streams and NumPy arrays lend their buffers, lists of Python objects are copied.
#![allow(unsafe_code)]

use crate::error::refuse;
use crate::objects;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ffi_stream};
use arrow_buffer::{BooleanBuffer, Buffer, ScalarBuffer};
use arrow_schema::DataType;
use data::table::{Bits, Chunk, ColumnType, Offsets, Shared, Values};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// A log in memory.
#[pyclass(frozen, module = "campanile._campanile")]
pub struct Table {
    /// The table as the library reads it.
    pub inner: Arc<data::Table>,
}

#[pymethods]
impl Table {
    /// Takes the batches of an Arrow stream, whose buffers are read where they lie.
    #[staticmethod]
    fn from_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name holds a pointer to a stream of Arrow's C interface. The stream is moved out of it, which leaves
        // an empty one behind for the capsule's own destructor.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast()) };
        let arrow = |error: arrow_schema::ArrowError| refuse(format!("the table cannot be read: {error}"));
        let reader = ffi_stream::RecordBatchStreamReader::try_new(stream).map_err(arrow)?;
        let schema = arrow_array::RecordBatchReader::schema(&reader);
        let empty = schema.fields().iter().map(|field| {
            let chunk = chunk_of(&arrow_array::new_empty_array(field.data_type()));
            ColumnType::of(field.name(), &chunk)
        });
        let mut table = data::Table::new(empty.collect()).map_err(refuse)?;
        for batch in reader {
            let batch = batch.map_err(arrow)?;
            let chunks = batch.columns().iter().map(chunk_of).collect();
            table.push(batch.num_rows(), chunks).map_err(refuse)?;
        }
        Ok(Self { inner: Arc::new(table) })
    }

    /// Takes columns by name: NumPy arrays lend their numbers, lists of other objects are copied. Bytes beside a column say which of its
    /// values are missing: those that are not 0.
    #[staticmethod]
    fn from_columns(columns: Vec<(String, Bound<'_, PyAny>, Option<Vec<u8>>)>) -> PyResult<Self> {
        let mut chunks = Vec::new();
        for (name, values, missing) in &columns {
            let chunk = objects::chunk_of(name, values)?;
            chunks.push(match missing {
                None => chunk,
                Some(missing) => {
                    chunk.with_validity(Some(objects::packed(missing.iter().map(|&one| one == 0))))
                }
            });
        }
        let types = columns.iter().zip(&chunks).map(|((name, ..), chunk)| ColumnType::of(name, chunk));
        let mut table = data::Table::new(types.collect()).map_err(refuse)?;
        let rows = chunks.first().map_or(0, Chunk::len);
        table.push(rows, chunks).map_err(refuse)?;
        Ok(Self { inner: Arc::new(table) })
    }

    /// Number of rows.
    #[getter]
    fn rows(&self) -> u64 {
        self.inner.rows()
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inner.columns().iter().map(|column| column.name.clone()).collect()
    }
}

/// Bytes of a buffer of Arrow.
struct Bytes(Buffer);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

fn bits(buffer: &BooleanBuffer) -> Bits {
    Bits { bytes: Arc::new(Bytes(buffer.inner().clone())), offset: buffer.offset() }
}

/// The rows of an array, whose buffers are shared.
fn chunk_of(array: &Arc<dyn Array>) -> Chunk {
    let validity = array.nulls().map(|nulls| bits(nulls.inner()));
    Chunk::new(array.len(), values_of(array)).with_validity(validity)
}

fn values_of(array: &Arc<dyn Array>) -> Values {
    /// The numbers of an array of this type.
    macro_rules! numbers {
        ($kind:ident, $type:ty) => {
            Values::$kind(Arc::new(array.as_primitive::<$type>().values().clone()))
        };
    }
    match array.data_type() {
        DataType::Boolean => Values::Bool(bits(array.as_boolean().values())),
        DataType::Int8 => numbers!(Int8, Int8Type),
        DataType::Int16 => numbers!(Int16, Int16Type),
        DataType::Int32 => numbers!(Int32, Int32Type),
        DataType::Int64 => numbers!(Int64, Int64Type),
        DataType::UInt8 => numbers!(UInt8, UInt8Type),
        DataType::UInt16 => numbers!(UInt16, UInt16Type),
        DataType::UInt32 => numbers!(UInt32, UInt32Type),
        DataType::UInt64 => numbers!(UInt64, UInt64Type),
        DataType::Float32 => numbers!(Float32, Float32Type),
        DataType::Float64 => numbers!(Float64, Float64Type),
        DataType::Float16 => {
            let numbers = array.as_primitive::<Float16Type>().values().iter().map(|half| half.to_f32());
            Values::Float32(Arc::new(numbers.collect::<Vec<f32>>()))
        }
        DataType::Date32 => Values::Days(Arc::new(stored(array))),
        DataType::Date64 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::Duration(_) => {
            Values::Times(Arc::new(stored(array)))
        }
        DataType::Utf8 => texts(
            Offsets::Small(Arc::new(array.as_string::<i32>().offsets().clone())),
            array.as_string::<i32>().values(),
        ),
        DataType::LargeUtf8 => texts(
            Offsets::Large(Arc::new(array.as_string::<i64>().offsets().clone())),
            array.as_string::<i64>().values(),
        ),
        DataType::Binary => texts(
            Offsets::Small(Arc::new(array.as_binary::<i32>().offsets().clone())),
            array.as_binary::<i32>().values(),
        ),
        DataType::LargeBinary => texts(
            Offsets::Large(Arc::new(array.as_binary::<i64>().offsets().clone())),
            array.as_binary::<i64>().values(),
        ),
        DataType::Utf8View => gathered(array.as_string_view().iter().map(|text| text.map(str::as_bytes))),
        DataType::BinaryView => gathered(array.as_binary_view().iter()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let keys = Box::new(values_of(&dictionary.keys().slice(0, dictionary.len())));
            Values::Dictionary { keys, values: Box::new(chunk_of(dictionary.values())) }
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = Offsets::Small(Arc::new(list.offsets().clone()));
            Values::List { offsets, items: Box::new(chunk_of(list.values())) }
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = Offsets::Large(Arc::new(list.offsets().clone()));
            Values::List { offsets, items: Box::new(chunk_of(list.values())) }
        }
        DataType::Null => Values::Other("nulls only".into()),
        other => Values::Other(other.to_string()),
    }
}

/// Integers as which dates and times are stored.
fn stored<T: arrow_buffer::ArrowNativeType>(array: &Arc<dyn Array>) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

fn texts(offsets: Offsets, bytes: &Buffer) -> Values {
    Values::Bytes { offsets, bytes: Arc::new(Bytes(bytes.clone())) }
}

/// Texts of views, which lie in many buffers, one behind the other.
fn gathered<'a>(texts: impl Iterator<Item = Option<&'a [u8]>>) -> Values {
    let (mut offsets, mut bytes) = (vec![0i64], Vec::new());
    for text in texts {
        bytes.extend_from_slice(text.unwrap_or_default());
        offsets.push(bytes.len() as i64);
    }
    Values::Bytes { offsets: Offsets::Large(Arc::new(offsets)), bytes: Arc::new(bytes) as Shared<u8> }
}
