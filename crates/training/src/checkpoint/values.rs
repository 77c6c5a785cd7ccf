//! Numbers of a tensor, in the format in which they are kept.

use kernels::stored_row;
use safetensors::Dtype;
use spec::table_format::TableFormat;

/// Numbers of a piece, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Floats of 32 bits.
    F32(Vec<f32>),
    /// Numbers of 16 bits in a format of tables.
    Half(TableFormat, Vec<u16>),
    /// Rows of int8, each with its scale and its minimum.
    Int8(Vec<u8>),
}

impl Values {
    /// The numbers as a file has them.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(floats) => bytemuck::cast_slice(floats),
            Self::Half(_, halves) => bytemuck::cast_slice(halves),
            Self::Int8(codes) => codes,
        }
    }

    /// Format of the numbers.
    pub fn format(&self) -> TableFormat {
        match self {
            Self::F32(_) => TableFormat::F32,
            Self::Half(format, _) => *format,
            Self::Int8(_) => TableFormat::Int8,
        }
    }
}

impl From<Vec<f32>> for Values {
    fn from(floats: Vec<f32>) -> Self {
        Self::F32(floats)
    }
}

/// Name of a format in the header of a file.
pub(super) fn dtype(format: TableFormat) -> Dtype {
    match format {
        TableFormat::F32 => Dtype::F32,
        TableFormat::F16 => Dtype::F16,
        TableFormat::Bf16 => Dtype::BF16,
        TableFormat::Int8 => Dtype::U8,
    }
}

/// Format that the header of a file names, if it is one of ours.
pub(super) fn format(dtype: Dtype) -> Option<TableFormat> {
    TableFormat::ALL.into_iter().find(|&format| self::dtype(format) == dtype)
}

/// Bytes of a number, or of a code, in a file.
pub(super) fn element_bytes(format: TableFormat) -> usize {
    match format {
        TableFormat::F32 => 4,
        TableFormat::F16 | TableFormat::Bf16 => 2,
        TableFormat::Int8 => 1,
    }
}

/// Shape of some rows in a file: rows of int8 have their scale and their minimum behind their codes.
pub(super) fn file_shape(format: TableFormat, shape: &[usize]) -> Vec<usize> {
    match format {
        TableFormat::Int8 => vec![shape[0], format.row_bytes(shape[1..].iter().product())],
        _ => shape.to_vec(),
    }
}

/// Reads rows of `columns` numbers of a format as floats; `read` fills bytes.
pub(super) fn read_floats<E>(
    format: TableFormat,
    columns: usize,
    floats: &mut [f32],
    mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if format == TableFormat::F32 {
        return read(bytemuck::cast_slice_mut(floats));
    }
    let row_bytes = format.row_bytes(columns);
    let mut bytes = vec![0; floats.len() / columns * row_bytes];
    read(&mut bytes)?;
    let rows = bytes.chunks_exact(row_bytes).zip(floats.chunks_exact_mut(columns));
    rows.for_each(|(stored, row)| stored_row(format, stored, row));
    Ok(())
}
