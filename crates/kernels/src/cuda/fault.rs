//! Faults: what kernels find wrong with contents, after the operation has returned.
//!
//! A kernel skips what is wrong and records it in a word of the rank's record, by the smallest number, so that the same
//! fault is reported every time. The host reads the record with a [`Download`](crate::Download) or when it checks the device.

use super::Cuda;
use crate::KernelError;

/// Words of the record; all ones where nothing happened. `common.cuh` has the same numbers.
pub(crate) const FAULTS: usize = 4;

/// Index of the word of an id past the end of its table: `table << 32 | id`.
const ID: usize = 0;
/// Index of the word of a value that is not finite: `offset << 2 | kind`.
const NOT_FINITE: usize = 1;
/// Index of the word of bags that end behind the values: `u64::MAX − 1 − end`.
const VALUES: usize = 2;

/// What messages say besides the record: the operands of the last call that could fail so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operands {
    /// Rows of the tables.
    pub(crate) rows: Vec<usize>,
    /// Number of values.
    pub(crate) values: usize,
}

/// The error that a record stands for; the words mean what they do in `common.cuh`.
pub(crate) fn error_of(words: &[u64; FAULTS], operands: &Operands) -> Option<KernelError> {
    if words[VALUES] != u64::MAX {
        return Some(KernelError::TooShort {
            op: "index_bags",
            operand: "values",
            expected: (u64::MAX - 1 - words[VALUES]) as usize,
            got: operands.values,
        });
    }
    if words[ID] != u64::MAX {
        let table = (words[ID] >> 32) as usize;
        let rows = operands.rows.get(table).copied().unwrap_or(0);
        return Some(KernelError::IdOutOfRange { table, id: words[ID] as u32, rows });
    }
    if words[NOT_FINITE] != u64::MAX {
        let value = ["NaN", "inf", "-inf"][(words[NOT_FINITE] & 3).min(2) as usize];
        return Some(KernelError::NotFinite { op: "encode", at: (words[NOT_FINITE] >> 2) as usize, value });
    }
    None
}

impl Cuda {
    /// Remembers the rows of the tables that an operation looks ids up in, for messages.
    pub(crate) fn note_rows(&self, rows: impl Iterator<Item = usize>) {
        let mut operands = self.operands();
        operands.rows.clear();
        operands.rows.extend(rows);
    }

    /// Remembers the number of values that bags may cover, for messages.
    pub(crate) fn note_values(&self, values: usize) {
        self.operands().values = values;
    }
}

#[cfg(test)]
mod tests;
