//! Matrices as NumPy writes them: `.npy` files of floats.
//!
//! ```text
//! \x93NUMPY  major minor  length of the header  {'descr': '<f8', 'fortran_order': False, 'shape': (26, 26), }  values
//! ```

/// Why a file is no square matrix of NumPy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    /// Another kind of file.
    #[error("not a .npy file: the signature at its beginning is missing")]
    Magic,
    /// A version of the format that is not known.
    #[error("the version of the .npy format is not 1, 2 or 3")]
    Version,
    /// A file that was cut short.
    #[error("the header of {length} bytes exceeds the file")]
    Short {
        /// Length of the header.
        length: usize,
    },
    /// A header that is no text.
    #[error("the header is not text")]
    Header(#[source] std::str::Utf8Error),
    /// A header without a field.
    #[error("the header has no {name}: {header:?}")]
    Field {
        /// The field.
        name: &'static str,
        /// The header.
        header: String,
    },
    /// A shape that is none.
    #[error("the shape is not a tuple")]
    Tuple,
    /// A shape of something else than numbers.
    #[error("the shape is not a tuple of numbers")]
    Numbers(#[source] std::num::ParseIntError),
    /// An array that is no matrix.
    #[error("the shape is {shape:?}, not that of a matrix")]
    Shape {
        /// Shape of the array.
        shape: Vec<usize>,
    },
    /// A matrix that is not square.
    #[error("the matrix has {rows} × {columns} elements; an affinity is square")]
    Rectangle {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        columns: usize,
    },
    /// Values that were cut short.
    #[error("the {bytes} bytes of values are not a whole number of floats")]
    Torn {
        /// Bytes of values.
        bytes: usize,
    },
    /// Values of another type.
    #[error("the values are not little-endian floats ('<f4' or '<f8'): {header:?}")]
    Type {
        /// The header.
        header: String,
    },
    /// More or fewer values than the shape has.
    #[error("the file has {values} values for a shape of {rows} × {columns}")]
    Count {
        /// Values in the file.
        values: usize,
        /// Rows of the shape.
        rows: usize,
        /// Columns of the shape.
        columns: usize,
    },
}

/// The rows of a square matrix.
pub fn square(bytes: &[u8]) -> Result<Vec<Vec<f64>>, NpyError> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or(NpyError::Magic)?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err(NpyError::Version),
    };
    let (header, values) = rest.split_at_checked(length).ok_or(NpyError::Short { length })?;
    let header = std::str::from_utf8(header).map_err(NpyError::Header)?;
    let field = |name: &'static str| {
        let after = header.split_once(&format!("'{name}':")).map(|(_, after)| after.trim_start());
        after.ok_or_else(|| NpyError::Field { name, header: header.into() })
    };
    let by_columns = field("fortran_order")?.starts_with("True");
    let shape = field("shape")?.strip_prefix('(').and_then(|shape| shape.split_once(')'));
    let (shape, _) = shape.ok_or(NpyError::Tuple)?;
    let numbers = shape.split(',').map(str::trim).filter(|number| !number.is_empty()).map(str::parse);
    let shape = numbers.collect::<Result<Vec<usize>, _>>().map_err(NpyError::Numbers)?;
    let [rows, columns] = shape[..] else { return Err(NpyError::Shape { shape }) };
    if rows != columns {
        return Err(NpyError::Rectangle { rows, columns });
    }
    let descr = field("descr")?;
    let width = if descr.starts_with("'<f4'") { 4 } else { 8 };
    if !values.len().is_multiple_of(width) {
        return Err(NpyError::Torn { bytes: values.len() });
    }
    let values: Vec<f64> = if descr.starts_with("'<f8'") {
        values.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
    } else if descr.starts_with("'<f4'") {
        values.as_chunks().0.iter().map(|chunk| f64::from(f32::from_le_bytes(*chunk))).collect()
    } else {
        return Err(NpyError::Type { header: header.into() });
    };
    if rows.checked_mul(columns) != Some(values.len()) {
        return Err(NpyError::Count { values: values.len(), rows, columns });
    }
    let at =
        |row: usize, column: usize| if by_columns { column * rows + row } else { row * columns + column };
    Ok((0..rows).map(|row| (0..columns).map(|column| values[at(row, column)]).collect()).collect())
}

#[cfg(test)]
mod tests;
