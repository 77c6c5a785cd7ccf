//! Rows of tables that are only touched: what a lookup and an update of the same rows are read against.

use crate::op::size;
use crate::{Buffer, Device, KernelError, Table};

/// What is done to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Rows are read and added up.
    Read,
    /// Rows are read, changed and written back.
    Change,
}

impl Touch {
    /// Bytes that move for each byte of a row.
    pub fn bytes_per_byte(self) -> f64 {
        match self {
            Touch::Read => 1.0,
            Touch::Change => 2.0,
        }
    }
}

/// Touches rows of tables that have the same dim, in the device's queue, and nothing else. A key is `table << 32 | row`. On a GPU a
/// group of threads has `together` rows on their way at a time: 1, 2, 4 or 8. Rows that are changed must be different rows.
///
/// ```
/// use kernels::peak::{Touch, touch_rows};
/// use kernels::{Buffer, Device, Table};
/// let device = Device::cpu(1)?;
/// let mut tables = [Table::zeroed(&device, 10, 4, ground::Pooling::Sum, &ground::optimizer::UpdateRule::Sgd)?];
/// touch_rows(&device, Touch::Change, &mut tables, &Buffer::from_slice(&device, &[3u64, 7])?, 4)?;
/// let refused = touch_rows(&device, Touch::Read, &mut tables, &Buffer::from_slice(&device, &[10u64])?, 4);
/// assert!(refused.is_err(), "the table has 10 rows");
/// # Ok::<(), kernels::KernelError>(())
/// ```
pub fn touch_rows(
    device: &Device,
    touch: Touch,
    tables: &mut [Table],
    keys: &Buffer<u64>,
    together: usize,
) -> Result<(), KernelError> {
    let op = "touch_rows";
    let dim = tables.first().map_or(0, |table| table.dim);
    for table in tables.iter() {
        if table.dim != dim {
            return Err(KernelError::Mismatch { op, what: "dim of a table", expected: dim, got: table.dim });
        }
        let Some(floats) = table.weights.floats() else {
            let problem =
                format!("{op}: a table of {}, but tables of f32 are needed", table.weights.format());
            return Err(KernelError::Device(problem));
        };
        let (expected, got) = (size([table.rows, dim]), floats.len());
        if got < expected {
            return Err(KernelError::TooShort { op, operand: "table weights", expected, got });
        }
    }
    if let Device::Cuda(cuda) = device {
        let bases: Result<Vec<u64>, _> = tables
            .iter()
            .filter_map(|table| table.weights.floats())
            .map(|floats| Ok(floats.card_range(op, 0, 0)?.0))
            .collect();
        return crate::cuda::peak::touch_rows(cuda, touch, &bases?, dim, keys, together);
    }
    let mut sum = 0.0;
    for key in keys.to_vec()? {
        let (table, row) = ((key >> 32) as usize, key as u32 as usize);
        let rows = tables.get(table).map_or(0, |table| table.rows);
        if row >= rows {
            return Err(KernelError::IdOutOfRange { table, id: row as u32, rows });
        }
        let floats = tables[table].weights.floats_mut().map(|floats| floats.host_mut()).unwrap_or_default();
        let row = &mut floats[row * dim..(row + 1) * dim];
        match touch {
            Touch::Read => sum += row.iter().sum::<f32>(),
            Touch::Change => row.iter_mut().for_each(|x| *x += 1e-7 * *x),
        }
    }
    std::hint::black_box(sum);
    Ok(())
}
