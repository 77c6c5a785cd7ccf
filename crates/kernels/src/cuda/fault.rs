//! Faults: what kernels find wrong with contents, after the operation has returned.
//!
//! A kernel skips what is wrong and records it in a word of the rank's record, by the smallest number, so that the same
//! fault is reported every time. The host reads the record with a [`Download`](crate::Download) or when it checks the device.

use super::Cuda;
use crate::KernelError;

/// Words of the record; all ones where nothing happened. `common.cuh` has the same numbers.
pub const FAULTS: usize = 4;

/// Index of the word of an id past the end of its table: `table << 32 | id`.
const ID: usize = 0;
/// Index of the word of a value that is not finite: `offset << 2 | kind`.
const NOT_FINITE: usize = 1;
/// Index of the word of bags that end behind the values: `u64::MAX − 1 − end`.
const VALUES: usize = 2;
/// Index of the word of sorted keys that do not fit: `table << 34 | kind << 32 | what was found`.
const KEYS: usize = 3;

/// What messages say besides the record: the operands of the last call that could fail so.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    /// Rows of the tables.
    pub rows: Vec<usize>,
    /// Number of values.
    pub values: usize,
    /// Number of samples of the index.
    pub samples: usize,
    /// Number of samples that have gradients.
    pub gradients: usize,
}

/// The error that a record stands for; the words mean what they do in `common.cuh`.
pub fn error_of(words: &[u64; FAULTS], operands: &Operands) -> Option<KernelError> {
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
    (words[KEYS] != u64::MAX).then(|| error_of_keys(words[KEYS], operands))
}

/// The error of a sorted key that names no row, value or sample.
fn error_of_keys(word: u64, operands: &Operands) -> KernelError {
    let (table, got) = ((word >> 34) as usize, word as u32 as usize);
    let mismatch = |what, expected| KernelError::Mismatch { op: "update_tables", what, expected, got };
    match word >> 32 & 3 {
        0 => mismatch("rows of a table", operands.rows.get(table).copied().unwrap_or(0)),
        1 => mismatch("values of the sorted ids", operands.values),
        2 => mismatch("samples of the index", operands.samples),
        _ => KernelError::TooShort {
            op: "sum_rows",
            operand: "gradients of samples",
            expected: got + 1,
            got: operands.gradients,
        },
    }
}

impl Cuda {
    /// Remembers the rows of the tables that an operation looks ids up in, for messages.
    pub(crate) fn note_rows(&self, rows: impl Iterator<Item = usize>) {
        let mut operands = self.operands();
        operands.rows.clear();
        operands.rows.extend(rows);
    }

    /// Remembers how many samples the index has, and how many have gradients, for messages.
    pub(crate) fn note_samples(&self, samples: usize, gradients: usize) {
        let mut operands = self.operands();
        (operands.samples, operands.gradients) = (samples, gradients);
    }

    /// Remembers the number of values that bags may cover, for messages.
    pub(crate) fn note_values(&self, values: usize) {
        self.operands().values = values;
    }
}
