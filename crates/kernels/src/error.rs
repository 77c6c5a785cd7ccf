//! Errors of device operations.

/// Reason why an operation was refused before it began; no buffer was changed, unless the variant says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A buffer is too short for the shape it was given.
    #[error("{op}: {operand} holds {got} elements, but {expected} are needed")]
    TooShort {
        /// Name of the operation.
        op: &'static str,
        /// Name of the operand that is too short.
        operand: &'static str,
        /// Number of elements that the shape needs.
        expected: usize,
        /// Number of elements that the operand holds.
        got: usize,
    },
    /// Two operands do not match.
    #[error("{op}: {what}: expected {expected}, got {got}")]
    Mismatch {
        /// Name of the operation.
        op: &'static str,
        /// Quantity on which the operands disagree.
        what: &'static str,
        /// Value that one operand requires.
        expected: usize,
        /// Value that the other operand has.
        got: usize,
    },
    /// An id points past the end of its table.
    #[error("table {table}: id {id} is not below the number of rows, {rows}")]
    IdOutOfRange {
        /// Index of the table among those of the call.
        table: usize,
        /// Id that names no row.
        id: u32,
        /// Number of rows of the table.
        rows: usize,
    },
    /// A read, a write or a copy reaches past the end of a buffer.
    #[error("{op}: {len} elements at offset {at} exceed the buffer of {holds} elements")]
    PastEnd {
        /// Name of the operation.
        op: &'static str,
        /// First element that was requested.
        at: usize,
        /// Number of elements that were requested.
        len: usize,
        /// Number of elements that the buffer holds.
        holds: usize,
    },
    /// A buffer was read that has a length and no contents.
    #[error("{op}: the buffer has no contents, since its device computes nothing")]
    NoContents {
        /// Name of the operation.
        op: &'static str,
    },
    /// A buffer stores floats as rows of bf16, which the operation cannot read or write.
    #[error("{op}: the buffer stores rows of bf16, but plain floats are needed")]
    StoredAsRows {
        /// Name of the operation.
        op: &'static str,
    },
    /// An operand is in the memory of another device.
    #[error("{op}: {operand} is in {lives} memory, but the operation runs on {runs}; copy it there first")]
    OtherDevice {
        /// Name of the operation.
        op: &'static str,
        /// Name of the operand.
        operand: &'static str,
        /// Name of the memory that the operand is in.
        lives: &'static str,
        /// Name of the device that runs the operation.
        runs: &'static str,
    },
    /// A value is infinite or NaN, which the codec cannot encode. What the operation writes may hold anything.
    #[error("{op}: value {at} is {value}, but only finite values can be encoded")]
    NotFinite {
        /// Name of the operation.
        op: &'static str,
        /// Offset of the value in the floats that are encoded; the smallest if several are not finite.
        at: usize,
        /// The value: `NaN`, `inf` or `-inf`.
        value: &'static str,
    },
    /// Dense layers cannot use the update rule.
    #[error("{rule} updates tables only; choose another optimizer for dense layers")]
    TablesOnly {
        /// Name of the rule.
        rule: &'static str,
    },
    /// The device has not enough free memory.
    #[error("out of memory: {bytes} bytes could not be allocated")]
    OutOfMemory {
        /// Number of bytes that were requested.
        bytes: usize,
    },
    /// The device could not be set up.
    #[error("device: {0}")]
    Device(String),
}
