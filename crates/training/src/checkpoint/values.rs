//! Numbers of a tensor, in the format in which they are kept.

use kernels::decode_halves;
use safetensors::Dtype;
use spec::table_format::TableFormat;

/// Numbers of a piece, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Floats of 32 bits.
    F32(Vec<f32>),
    /// Numbers of 16 bits in a format of tables.
    Half(TableFormat, Vec<u16>),
}

impl Values {
    /// So many zeros in a format.
    pub(super) fn zeroed(format: TableFormat, len: usize) -> Self {
        match format {
            TableFormat::F32 => Self::F32(vec![0.0; len]),
            format => Self::Half(format, vec![0; len]),
        }
    }

    /// Number of numbers.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(floats) => floats.len(),
            Self::Half(_, halves) => halves.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers as a file has them.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(floats) => bytemuck::cast_slice(floats),
            Self::Half(_, halves) => bytemuck::cast_slice(halves),
        }
    }

    /// The numbers as a file has them, to be filled in.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::F32(floats) => bytemuck::cast_slice_mut(floats),
            Self::Half(_, halves) => bytemuck::cast_slice_mut(halves),
        }
    }

    /// Format of the numbers.
    pub fn format(&self) -> TableFormat {
        match self {
            Self::F32(_) => TableFormat::F32,
            Self::Half(format, _) => *format,
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
    }
}

/// Format that the header of a file names, if it is one of ours.
pub(super) fn format(dtype: Dtype) -> Option<TableFormat> {
    TableFormat::ALL.into_iter().find(|&format| self::dtype(format) == dtype)
}

/// Reads numbers of a format as floats; `read` fills bytes.
pub(super) fn read_floats<E>(
    format: TableFormat,
    floats: &mut [f32],
    mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if format == TableFormat::F32 {
        return read(bytemuck::cast_slice_mut(floats));
    }
    let mut halves = vec![0u16; floats.len()];
    read(bytemuck::cast_slice_mut(&mut halves))?;
    decode_halves(format, &halves, floats);
    Ok(())
}
