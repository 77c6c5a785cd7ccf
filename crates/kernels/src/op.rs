//! Operations of a training step, by family: per operation its formula, its arguments, its checks and an example.
//!
//! An operation is a method of [`Device`]. Operations with many operands take an argument struct whose fields say what they
//! are. A method checks that every operand lives on its device and is long enough, and hands the operands to the
//! device's backend, which computes. Matrices are row-major. Buffers may be longer than their shape: a last, smaller
//! batch uses the front.

pub(crate) mod chain;
pub(crate) mod codec;
pub(crate) mod cross;
pub(crate) mod elementwise;
pub(crate) mod embedding;
pub(crate) mod fm;
pub(crate) mod interaction;
pub(crate) mod linear;
pub(crate) mod optimizer;
pub(crate) mod packed;
pub(crate) mod pairs;
pub(crate) mod row_copies;
pub(crate) mod rows;
pub(crate) mod tensor_train;
pub(crate) mod wire;

use crate::memory::Home;
use crate::row_store::StoredRows;
use crate::{Buffer, Device, Element, KernelError, Stored, Table};

/// Result of an operation.
pub(crate) type Result<T = ()> = std::result::Result<T, KernelError>;

/// Checks of the operands of one operation.
pub(crate) struct Check<'a> {
    op: &'static str,
    device: &'a Device,
}

impl<'a> Check<'a> {
    /// Checks for the operation `op` on `device`.
    pub(crate) fn new(op: &'static str, device: &'a Device) -> Self {
        Self { op, device }
    }

    /// Refuses a buffer of another device, of fewer than `elements`, or that stores them otherwise than one after another.
    pub(crate) fn buffer<T: Element>(
        &self,
        operand: &'static str,
        buffer: &Buffer<T>,
        elements: usize,
    ) -> Result {
        buffer.plain(self.op)?;
        self.stored(operand, buffer, elements)
    }

    /// Refuses a buffer of another device, of fewer than `rows` rows of `width`, or that stores rows of another width. A GPU alone
    /// reads rows of bf16.
    pub(crate) fn rows(
        &self,
        operand: &'static str,
        buffer: &Buffer<f32>,
        rows: usize,
        width: usize,
    ) -> Result {
        match buffer.stored() {
            Stored::Plain => {}
            Stored::Bf16Rows { width: got } if matches!(self.device, Device::Cuda(_)) => {
                // Nothing is read of rows that have no columns.
                self.equal("width of stored rows", if width == 0 { got } else { width }, got)?;
            }
            _ => return Err(KernelError::StoredAsRows { op: self.op }),
        }
        self.stored(operand, buffer, size([rows, width]))
    }

    /// As [`Check::rows`], of values between the layers of chains: a CPU reads panels of bf16 of its precision too.
    pub(crate) fn hidden(
        &self,
        operand: &'static str,
        buffer: &Buffer<f32>,
        rows: usize,
        width: usize,
    ) -> Result {
        match buffer.stored() {
            Stored::Bf16Panels { width: got, split } if self.device.panels() == Some(split) => {
                self.equal("width of stored rows", if width == 0 { got } else { width }, got)?;
                self.stored(operand, buffer, size([rows, width]))
            }
            _ => self.rows(operand, buffer, rows, width),
        }
    }

    /// Refuses a table whose weights are on another device, too few, or in a format that the device does not compute with.
    pub(crate) fn table(&self, table: &Table) -> Result {
        let elements = size([table.rows, table.dim]);
        match table.weights.stored() {
            StoredRows::F32(floats) => self.reached("table weights", floats, elements),
            StoredRows::Half(_, halves) => self.reached("table weights", halves, elements),
            StoredRows::Int8(codes) => {
                self.reached("table weights", codes, size([table.rows, table.weights.row_bytes()]))
            }
        }
    }

    /// As [`Check::buffer`]; page-locked memory of the host will do for a GPU, which reaches it by itself.
    pub(crate) fn reached<T: Element>(
        &self,
        operand: &'static str,
        buffer: &Buffer<T>,
        elements: usize,
    ) -> Result {
        match (&buffer.space().home, self.device.home()) {
            (Home::Pinned(there), Home::Card(here)) if *there == here => {
                self.count(operand, elements, buffer.len())
            }
            _ => self.buffer(operand, buffer, elements),
        }
    }

    fn stored<T: Element>(&self, operand: &'static str, buffer: &Buffer<T>, elements: usize) -> Result {
        let home = &buffer.space().home;
        if *home != self.device.home() {
            let (lives, runs) = (home.name(), self.device.name());
            return Err(KernelError::OtherDevice { op: self.op, operand, lives, runs });
        }
        self.count(operand, elements, buffer.len())
    }

    /// Refuses operands that disagree on `what`.
    pub(crate) fn equal(&self, what: &'static str, expected: usize, got: usize) -> Result {
        let op = self.op;
        if got == expected { Ok(()) } else { Err(KernelError::Mismatch { op, what, expected, got }) }
    }

    /// Refuses an operand that has fewer than `expected` elements.
    pub(crate) fn count(&self, operand: &'static str, expected: usize, got: usize) -> Result {
        need(self.op, operand, expected, got)
    }
}

/// Refuses an operand that is shorter than its shape.
pub(crate) fn need(op: &'static str, operand: &'static str, expected: usize, got: usize) -> Result {
    if got < expected { Err(KernelError::TooShort { op, operand, expected, got }) } else { Ok(()) }
}

/// Elements of a shape; past every buffer when they cannot be counted.
pub(crate) fn size<const N: usize>(shape: [usize; N]) -> usize {
    // A shape with an empty side holds nothing, however long the others are.
    if shape.contains(&0) { 0 } else { shape.into_iter().fold(1, usize::saturating_mul) }
}
