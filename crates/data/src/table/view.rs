//! Slices of the buffers of a chunk, so that a cell costs no more than an index.

use super::values::{Bits, Chunk, Offsets, Values};
use crate::cells::{Cell, CellColumn};
use std::ops::Range;

/// A chunk with its buffers as slices.
pub(super) struct View<'a> {
    validity: Option<BitSlice<'a>>,
    values: Slices<'a>,
}

struct BitSlice<'a> {
    bytes: &'a [u8],
    offset: usize,
}

enum Slices<'a> {
    Bool(BitSlice<'a>),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Bytes(OffsetSlice<'a>, &'a [u8]),
    Dictionary(Box<Slices<'a>>, Box<View<'a>>),
    List(OffsetSlice<'a>, Box<View<'a>>),
    Other,
}

enum OffsetSlice<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl<'a> View<'a> {
    pub fn of(chunk: &'a Chunk) -> Self {
        Self { validity: chunk.validity.as_ref().map(BitSlice::of), values: Slices::of(&chunk.values) }
    }

    fn is_null(&self, row: usize) -> bool {
        self.validity.as_ref().is_some_and(|bits| !bits.get(row))
    }

    /// Value of a plain column.
    fn cell(&self, row: usize) -> Cell<'_> {
        if self.is_null(row) { Cell::Null } else { self.values.cell(row).unwrap_or(Cell::Null) }
    }
}

impl CellColumn for View<'_> {
    fn cells(&self, row: usize) -> impl Iterator<Item = Cell<'_>> {
        let (view, range) = match &self.values {
            // A list that is null is empty.
            Slices::List(_, items) if self.is_null(row) => (&**items, 0..0),
            Slices::List(offsets, items) => (&**items, offsets.range(row)),
            _ => (self, row..row + 1),
        };
        range.map(move |at| view.cell(at))
    }
}

impl<'a> BitSlice<'a> {
    fn of(bits: &'a Bits) -> Self {
        Self { bytes: bits.bytes.as_ref().as_ref(), offset: bits.offset }
    }

    fn get(&self, index: usize) -> bool {
        let at = self.offset + index;
        self.bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }
}

impl OffsetSlice<'_> {
    fn of(offsets: &Offsets) -> OffsetSlice<'_> {
        match offsets {
            Offsets::Small(offsets) => OffsetSlice::Small(offsets.as_ref().as_ref()),
            Offsets::Large(offsets) => OffsetSlice::Large(offsets.as_ref().as_ref()),
        }
    }

    /// Range of the values of a row; offsets were checked when the chunk was taken in.
    fn range(&self, row: usize) -> Range<usize> {
        let at = |at: usize| match self {
            Self::Small(offsets) => offsets.get(at).map_or(0, |&offset| offset as usize),
            Self::Large(offsets) => offsets.get(at).map_or(0, |&offset| offset as usize),
        };
        at(row)..at(row + 1)
    }
}

impl<'a> Slices<'a> {
    fn of(values: &'a Values) -> Self {
        match values {
            Values::Bool(bits) => Self::Bool(BitSlice::of(bits)),
            Values::Int8(v) => Self::Int8(v.as_ref().as_ref()),
            Values::Int16(v) => Self::Int16(v.as_ref().as_ref()),
            Values::Int32(v) | Values::Days(v) => Self::Int32(v.as_ref().as_ref()),
            Values::Int64(v) | Values::Times(v) => Self::Int64(v.as_ref().as_ref()),
            Values::UInt8(v) => Self::UInt8(v.as_ref().as_ref()),
            Values::UInt16(v) => Self::UInt16(v.as_ref().as_ref()),
            Values::UInt32(v) => Self::UInt32(v.as_ref().as_ref()),
            Values::UInt64(v) => Self::UInt64(v.as_ref().as_ref()),
            Values::Float32(v) => Self::Float32(v.as_ref().as_ref()),
            Values::Float64(v) => Self::Float64(v.as_ref().as_ref()),
            Values::Bytes { offsets, bytes } => {
                Self::Bytes(OffsetSlice::of(offsets), bytes.as_ref().as_ref())
            }
            Values::Dictionary { keys, values } => {
                Self::Dictionary(Box::new(Self::of(keys)), Box::new(View::of(values)))
            }
            Values::List { offsets, items } => {
                Self::List(OffsetSlice::of(offsets), Box::new(View::of(items)))
            }
            Values::Other(_) => Self::Other,
        }
    }

    /// Value with this index; `None` for a type that is not read, and outside.
    fn cell(&self, at: usize) -> Option<Cell<'_>> {
        Some(match self {
            Self::Bool(bits) => Cell::Unsigned(bits.get(at).into()),
            Self::Int8(v) => Cell::Signed((*v.get(at)?).into()),
            Self::Int16(v) => Cell::Signed((*v.get(at)?).into()),
            Self::Int32(v) => Cell::Signed((*v.get(at)?).into()),
            Self::Int64(v) => Cell::Signed(*v.get(at)?),
            Self::UInt8(v) => Cell::Unsigned((*v.get(at)?).into()),
            Self::UInt16(v) => Cell::Unsigned((*v.get(at)?).into()),
            Self::UInt32(v) => Cell::Unsigned((*v.get(at)?).into()),
            Self::UInt64(v) => Cell::Unsigned(*v.get(at)?),
            Self::Float32(v) => Cell::Number((*v.get(at)?).into()),
            Self::Float64(v) => Cell::Number(*v.get(at)?),
            Self::Bytes(offsets, bytes) => Cell::Bytes(bytes.get(offsets.range(at))?),
            Self::Dictionary(keys, values) => {
                let key = match keys.cell(at)? {
                    Cell::Signed(key) => usize::try_from(key).ok()?,
                    Cell::Unsigned(key) => usize::try_from(key).ok()?,
                    Cell::Null | Cell::Number(_) | Cell::Bytes(_) => return None,
                };
                values.cell(key)
            }
            Self::List(..) | Self::Other => return None,
        })
    }
}
