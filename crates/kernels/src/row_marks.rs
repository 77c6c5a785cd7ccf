//! Rows of a table that were updated since they were last asked for: what a checkpoint of changes has to write.

use crate::memory::Space;
use crate::{Buffer, KernelError};

/// A bit for each row of a table: whether the row was updated.
///
/// ```
/// use kernels::{Device, RowMarks};
/// let mut marks = RowMarks::new(&Device::Reference, 70)?;
/// marks.mark([69, 3, 3])?;
/// assert_eq!(marks.take()?, [3, 69]);
/// assert!(marks.take()?.is_empty());
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
pub struct RowMarks {
    rows: usize,
    pub(crate) bits: Buffer<u32>,
}

impl RowMarks {
    /// No marks of so many rows.
    pub fn new(space: impl Into<Space>, rows: usize) -> Result<Self, KernelError> {
        Ok(Self { rows, bits: Buffer::zeroed(space, rows.div_ceil(32))? })
    }

    /// Marks rows, and passes over those that do not exist. Updates of a table mark its rows by themselves; a cache of rows marks those that its
    /// batches change.
    pub fn mark(&mut self, rows: impl IntoIterator<Item = u32>) -> Result<(), KernelError> {
        let here = self.bits.host_mut();
        if !here.is_empty() {
            mark(here, self.rows, rows);
            return Ok(());
        }
        let mut bits = self.bits.to_vec()?;
        mark(&mut bits, self.rows, rows);
        self.bits.write(0, &bits)
    }

    /// The marked rows, which ascend. No row is marked afterwards. A device that computes nothing marks none.
    pub fn take(&mut self) -> Result<Vec<u32>, KernelError> {
        if !self.bits.has_contents() {
            return Ok(Vec::new());
        }
        let bits = self.bits.to_vec()?;
        let mut marked = Vec::with_capacity(bits.iter().map(|word| word.count_ones() as usize).sum());
        for (word, first) in bits.iter().zip((0u32..).step_by(32)) {
            let mut left = *word;
            while left != 0 {
                marked.push(first + left.trailing_zeros());
                left &= left - 1;
            }
        }
        if !marked.is_empty() {
            self.bits.write(0, &vec![0; bits.len()])?;
        }
        Ok(marked)
    }
}

/// Sets the bits of rows, of which there are `count`.
pub(crate) fn mark(bits: &mut [u32], count: usize, rows: impl IntoIterator<Item = u32>) {
    for row in rows.into_iter().filter(|&row| (row as usize) < count) {
        bits[row as usize / 32] |= 1 << (row % 32);
    }
}
