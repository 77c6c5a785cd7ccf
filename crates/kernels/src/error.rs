//! What can go wrong in a kernel.

/// An operation was refused before it began; no buffer was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A buffer is too short for the shape it was given.
    #[error("{op}: {operand} holds {got} elements, {expected} are needed")]
    TooShort {
        /// The operation.
        op: &'static str,
        /// The operand at fault.
        operand: &'static str,
        /// Elements the shape asks for.
        expected: usize,
        /// Elements there are.
        got: usize,
    },
    /// Two operands do not fit each other.
    #[error("{op}: {what}: expected {expected}, got {got}")]
    Mismatch {
        /// The operation.
        op: &'static str,
        /// What does not fit.
        what: &'static str,
        /// What it should be.
        expected: usize,
        /// What it is.
        got: usize,
    },
    /// An id points past the end of its table.
    #[error("table {table}: id {id} is past its {rows} rows")]
    IdOutOfRange {
        /// Index of the table among those of the call.
        table: usize,
        /// The id.
        id: u32,
        /// Rows of the table.
        rows: usize,
    },
    /// The device has no room.
    #[error("out of memory: {bytes} bytes could not be allocated")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The device could not be set up.
    #[error("device: {0}")]
    Device(String),
}

/// Refuses an operand that is shorter than its shape.
pub(crate) fn need(
    op: &'static str,
    operand: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), KernelError> {
    if got < expected { Err(KernelError::TooShort { op, operand, expected, got }) } else { Ok(()) }
}
