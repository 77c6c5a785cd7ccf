//! Columns that are no Arrow arrays: NumPy arrays, whose numbers are lent, and lists of Python objects, which are copied.
#![allow(unsafe_code)]

use crate::error::refuse;
use data::table::{Bits, Chunk, Offsets, Values};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;

/// Numbers of a NumPy array, which lives as long as they are lent.
struct Lent<T> {
    _array: Py<PyAny>,
    first: *const T,
    len: usize,
}

// SAFETY: the numbers are only read, and the array is only held, and given back under the interpreter's lock.
unsafe impl<T: Sync> Send for Lent<T> {}
// SAFETY: as above; a shared reference gives out shared references to numbers alone.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T> AsRef<[T]> for Lent<T> {
    fn as_ref(&self) -> &[T] {
        // SAFETY: `lend` checked that the array has `len` numbers of this type, one behind the other, aligned; the array is held, and
        // NumPy does not move the numbers of an array that is referenced. Whoever writes to an array while it is trained on must expect
        // that old or new numbers are read, as with any library that reads arrays.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

/// The column `name` of a table, made of `values`.
pub fn chunk_of(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Chunk> {
    if let Ok(interface) = values.getattr("__array_interface__")
        && let Some(chunk) = array(name, values, interface.cast::<PyDict>()?)?
    {
        return Ok(chunk);
    }
    let values: Vec<Bound<'_, PyAny>> = values.try_iter()?.collect::<PyResult<_>>()?;
    list(name, &values)
}

/// The numbers of a NumPy array; `None` if it holds other values.
fn array(name: &str, array: &Bound<'_, PyAny>, interface: &Bound<'_, PyDict>) -> PyResult<Option<Chunk>> {
    let get = |key: &str| {
        interface.get_item(key)?.ok_or_else(|| refuse(format!("column {name}: an array without {key}")))
    };
    let kind: String = get("typestr")?.extract()?;
    let shape: Vec<usize> = get("shape")?.extract()?;
    let (address, _): (usize, bool) = get("data")?.extract()?;
    let [len] = shape[..] else {
        return Err(refuse(format!(
            "column {name}: an array of {} dimensions; a column has one. Give each of its columns a name",
            shape.len()
        )));
    };
    let strided = interface.get_item("strides")?.is_some_and(|strides| !strides.is_none());
    if strided {
        return Err(refuse(format!(
            "column {name}: the numbers do not lie side by side; use numpy.ascontiguousarray"
        )));
    }
    /// Lends the numbers of this type.
    macro_rules! lend {
        ($kind:ident, $type:ty) => {{
            let first = if len == 0 {
                std::ptr::NonNull::<$type>::dangling().as_ptr().cast_const()
            } else {
                address as *const $type
            };
            if first.is_null() || !first.is_aligned() {
                return Err(refuse(format!(
                    "column {name}: the numbers are not aligned; use numpy.require(…, requirements='A')"
                )));
            }
            Values::$kind(Arc::new(Lent { _array: array.clone().unbind(), first, len }))
        }};
    }
    let values = match kind.as_str() {
        "|i1" => lend!(Int8, i8),
        "<i2" => lend!(Int16, i16),
        "<i4" => lend!(Int32, i32),
        "<i8" => lend!(Int64, i64),
        "|u1" => lend!(UInt8, u8),
        "<u2" => lend!(UInt16, u16),
        "<u4" => lend!(UInt32, u32),
        "<u8" => lend!(UInt64, u64),
        "<f4" => lend!(Float32, f32),
        "<f8" => lend!(Float64, f64),
        "|b1" => {
            let Values::UInt8(bytes) = lend!(UInt8, u8) else { return Ok(None) };
            Values::Bool(packed(bytes.as_ref().as_ref().iter().map(|&byte| byte != 0)))
        }
        time if time.starts_with("<M8[") => lend!(Times, i64),
        big if big.starts_with('>') => {
            return Err(refuse(format!(
                "column {name}: numbers of {big}, the highest byte first; use array.astype('{}')",
                big.replace('>', "<")
            )));
        }
        _ => return Ok(None),
    };
    Ok(Some(Chunk::new(len, values)))
}

/// Booleans as bits, the lowest of a byte first.
pub fn packed(values: impl Iterator<Item = bool>) -> Bits {
    let mut bytes = Vec::new();
    for (at, value) in values.enumerate() {
        if at % 8 == 0 {
            bytes.push(0u8);
        }
        bytes[at / 8] |= u8::from(value) << (at % 8);
    }
    Bits { bytes: Arc::new(bytes), offset: 0 }
}

/// Whether a value is missing: `None`, or the `NaN` and `NaT` that pandas writes.
fn is_missing(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.cast::<PyFloat>().is_ok_and(|float| float.value().is_nan())
        || value.get_type().name().is_ok_and(|name| name == "NAType" || name == "NaTType")
}

/// A column of Python objects: strings, numbers, or lists of them.
fn list(name: &str, values: &[Bound<'_, PyAny>]) -> PyResult<Chunk> {
    let refuse_value = |row: usize, value: &Bound<'_, PyAny>, wanted: &str| {
        let kind = value.get_type().name().map_or("?".into(), |name| name.to_string());
        Err(refuse(format!(
            "column {name}, row {row}: got {kind}, where {wanted}; give a column values of one type"
        )))
    };
    let is_list = |value: &Bound<'_, PyAny>| {
        value.is_instance_of::<PyList>()
            || value.is_instance_of::<PyTuple>()
            || value.hasattr("__array_interface__").unwrap_or(false) && value.len().is_ok()
    };
    let missing: Vec<bool> = values.iter().map(is_missing).collect();
    let validity = missing.contains(&true).then(|| packed(missing.iter().map(|missing| !missing)));
    let Some(first) = values.iter().zip(&missing).find(|(_, missing)| !**missing).map(|(value, _)| value)
    else {
        // Nothing is there: a column of missing numbers.
        let none = Values::Float64(Arc::new(vec![0.0; values.len()]));
        return Ok(Chunk::new(values.len(), none).with_validity(validity));
    };
    let present =
        || values.iter().zip(&missing).enumerate().map(|(row, (value, &missing))| (row, value, missing));
    let values_of = if first.is_instance_of::<PyString>() || first.is_instance_of::<PyBytes>() {
        let (mut offsets, mut bytes) = (vec![0i64], Vec::new());
        for (row, value, missing) in present() {
            if let Ok(text) = value.extract::<std::borrow::Cow<'_, str>>() {
                bytes.extend_from_slice(text.as_bytes());
            } else if let Ok(text) = value.cast::<PyBytes>() {
                bytes.extend_from_slice(text.as_bytes());
            } else if !missing {
                return refuse_value(row, value, "other rows hold strings");
            }
            offsets.push(bytes.len() as i64);
        }
        Values::Bytes { offsets: Offsets::Large(Arc::new(offsets)), bytes: Arc::new(bytes) }
    } else if first.is_instance_of::<PyBool>() {
        let mut bits = Vec::new();
        for (row, value, missing) in present() {
            match value.extract::<bool>() {
                Ok(bit) => bits.push(bit),
                Err(_) if missing => bits.push(false),
                Err(_) => return refuse_value(row, value, "other rows hold booleans"),
            }
        }
        Values::Bool(packed(bits.into_iter()))
    } else if present().all(|(_, value, missing)| missing || value.is_instance_of::<PyInt>()) {
        let mut numbers = Vec::new();
        for (row, value, missing) in present() {
            match value.extract::<i64>() {
                Ok(number) => numbers.push(number),
                Err(_) if missing => numbers.push(0),
                Err(_) => return refuse_value(row, value, "integers have 64 bits"),
            }
        }
        Values::Int64(Arc::new(numbers))
    } else if is_list(first) {
        let (mut offsets, mut items) = (vec![0i64], Vec::new());
        for (row, value, missing) in present() {
            if !missing {
                if !is_list(value) {
                    return refuse_value(row, value, "other rows hold lists");
                }
                for item in value.try_iter()? {
                    // Numbers of NumPy become Python's own.
                    let item = item?;
                    items.push(if item.hasattr("item")? { item.call_method0("item")? } else { item });
                }
            }
            offsets.push(items.len() as i64);
        }
        let items = Box::new(list(name, &items)?);
        Values::List { offsets: Offsets::Large(Arc::new(offsets)), items }
    } else {
        let mut numbers = Vec::new();
        for (row, value, missing) in present() {
            match value.extract::<f64>() {
                Ok(number) => numbers.push(number),
                Err(_) if missing => numbers.push(f64::NAN),
                Err(_) => {
                    return refuse_value(row, value, "strings, numbers, booleans or lists of them are read");
                }
            }
        }
        Values::Float64(Arc::new(numbers))
    };
    Ok(Chunk::new(values.len(), values_of).with_validity(validity))
}
