//! Values of a column: shared buffers in the layout of Arrow.

use std::fmt;
use std::sync::Arc;

/// A buffer that someone else owns, or shares: only a slice of it is asked for.
pub type Shared<T> = Arc<dyn AsRef<[T]> + Send + Sync>;

/// Bits, the lowest of a byte first.
#[derive(Clone)]
pub struct Bits {
    /// Bytes that hold the bits.
    pub bytes: Shared<u8>,
    /// Number of bits before the first.
    pub offset: usize,
}

/// Where each value of a column of texts or lists ends: one number more than there are values.
#[derive(Clone)]
pub enum Offsets {
    /// Of 32 bits.
    Small(Shared<i32>),
    /// Of 64 bits.
    Large(Shared<i64>),
}

/// Values of consecutive rows, one for each; what stands in place of a null does not matter.
#[derive(Clone)]
pub enum Values {
    /// Booleans.
    Bool(Bits),
    /// Signed integers of 8 bits.
    Int8(Shared<i8>),
    /// Signed integers of 16 bits.
    Int16(Shared<i16>),
    /// Signed integers of 32 bits.
    Int32(Shared<i32>),
    /// Signed integers of 64 bits.
    Int64(Shared<i64>),
    /// Unsigned integers of 8 bits.
    UInt8(Shared<u8>),
    /// Unsigned integers of 16 bits.
    UInt16(Shared<u16>),
    /// Unsigned integers of 32 bits.
    UInt32(Shared<u32>),
    /// Unsigned integers of 64 bits.
    UInt64(Shared<u64>),
    /// Floats of 32 bits.
    Float32(Shared<f32>),
    /// Floats of 64 bits.
    Float64(Shared<f64>),
    /// Days since 1970.
    Days(Shared<i32>),
    /// Times, in a unit of their own.
    Times(Shared<i64>),
    /// Texts or binary values.
    Bytes {
        /// Ends of the values.
        offsets: Offsets,
        /// Bytes of all values.
        bytes: Shared<u8>,
    },
    /// Numbers of values that are kept once, as of a categorical column.
    Dictionary {
        /// Numbers: any kind of integers.
        keys: Box<Values>,
        /// The values.
        values: Box<Chunk>,
    },
    /// Lists.
    List {
        /// Ends of the lists.
        offsets: Offsets,
        /// Elements of all lists.
        items: Box<Chunk>,
    },
    /// Values of a type that is not read, with its description.
    Other(String),
}

/// Type of the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredType {
    /// Booleans.
    Boolean,
    /// Integers, signed or not.
    Integer {
        /// Whether they may be negative.
        signed: bool,
    },
    /// Floats.
    Float,
    /// Texts or binary values.
    Bytes,
    /// Dates or times, read as the integers they are stored as.
    Time,
    /// Lists of one of the others.
    List(Box<StoredType>),
    /// A type that is not read, with its description.
    Other(String),
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("booleans"),
            Self::Integer { .. } => f.write_str("integers"),
            Self::Float => f.write_str("floats"),
            Self::Bytes => f.write_str("strings"),
            Self::Time => f.write_str("dates or times"),
            Self::List(items) => write!(f, "lists of {items}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Consecutive rows of a column.
#[derive(Clone)]
pub struct Chunk {
    len: usize,
    /// A bit for each row, 0 for a null; `None` if no row is null.
    pub(super) validity: Option<Bits>,
    pub(super) values: Values,
}

impl Chunk {
    /// Rows without nulls.
    pub fn new(len: usize, values: Values) -> Self {
        Self { len, validity: None, values }
    }

    /// The rows, of which those are null whose bit is 0.
    pub fn with_validity(self, validity: Option<Bits>) -> Self {
        Self { validity, ..self }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Type of the values.
    pub fn stored_type(&self) -> StoredType {
        match &self.values {
            Values::Bool(_) => StoredType::Boolean,
            Values::Int8(_) | Values::Int16(_) | Values::Int32(_) | Values::Int64(_) => {
                StoredType::Integer { signed: true }
            }
            Values::UInt8(_) | Values::UInt16(_) | Values::UInt32(_) | Values::UInt64(_) => {
                StoredType::Integer { signed: false }
            }
            Values::Float32(_) | Values::Float64(_) => StoredType::Float,
            Values::Days(_) | Values::Times(_) => StoredType::Time,
            Values::Bytes { .. } => StoredType::Bytes,
            Values::Dictionary { values, .. } => values.stored_type(),
            Values::List { items, .. } => StoredType::List(Box::new(items.stored_type())),
            Values::Other(what) => StoredType::Other(what.clone()),
        }
    }

    /// Says what is wrong if a buffer is shorter than its rows need, or an index points outside.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(bits) = &self.validity {
            bits.check(self.len)?;
        }
        let long = |len: usize| match len >= self.len {
            true => Ok(()),
            false => Err(format!("a buffer of {len} values for {} rows; please report this", self.len)),
        };
        match &self.values {
            Values::Bool(bits) => bits.check(self.len),
            Values::Int8(v) => long(v.as_ref().as_ref().len()),
            Values::Int16(v) => long(v.as_ref().as_ref().len()),
            Values::Int32(v) | Values::Days(v) => long(v.as_ref().as_ref().len()),
            Values::Int64(v) | Values::Times(v) => long(v.as_ref().as_ref().len()),
            Values::UInt8(v) => long(v.as_ref().as_ref().len()),
            Values::UInt16(v) => long(v.as_ref().as_ref().len()),
            Values::UInt32(v) => long(v.as_ref().as_ref().len()),
            Values::UInt64(v) => long(v.as_ref().as_ref().len()),
            Values::Float32(v) => long(v.as_ref().as_ref().len()),
            Values::Float64(v) => long(v.as_ref().as_ref().len()),
            Values::Bytes { offsets, bytes } => offsets.check(self.len, bytes.as_ref().as_ref().len()),
            Values::Dictionary { keys, values } => {
                Chunk::new(self.len, (**keys).clone()).check()?;
                values.check()
            }
            Values::List { offsets, items } => {
                offsets.check(self.len, items.len)?;
                items.check()
            }
            Values::Other(_) => Ok(()),
        }
    }
}

impl Bits {
    fn check(&self, len: usize) -> Result<(), String> {
        let bits = self.bytes.as_ref().as_ref().len().saturating_mul(8);
        match self.offset.checked_add(len).is_some_and(|end| end <= bits) {
            true => Ok(()),
            false => Err(format!("{bits} bits for {len} rows from {}; please report this", self.offset)),
        }
    }
}

impl Offsets {
    fn check(&self, len: usize, values: usize) -> Result<(), String> {
        let ascend = |offsets: &mut dyn Iterator<Item = i64>| {
            let mut before = 0;
            for offset in offsets {
                if offset < before || usize::try_from(offset).is_ok_and(|offset| offset > values) {
                    return Err(format!(
                        "the offset {offset} after {before}, of {values}; please report this"
                    ));
                }
                before = offset;
            }
            Ok(())
        };
        let (got, checked) = match self {
            Self::Small(offsets) => {
                let offsets = offsets.as_ref().as_ref();
                (offsets.len(), ascend(&mut offsets.iter().take(len + 1).map(|&offset| offset.into())))
            }
            Self::Large(offsets) => {
                let offsets = offsets.as_ref().as_ref();
                (offsets.len(), ascend(&mut offsets.iter().take(len + 1).copied()))
            }
        };
        match got > len {
            true => checked,
            false => Err(format!("{got} offsets for {len} rows; please report this")),
        }
    }
}
