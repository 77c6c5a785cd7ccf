//! Some rows of one column, as cells.
//!
//! Parquet gives the values that are there, and for each place a definition level (is there a value, or what is null?) and a
//! repetition level (0 where a row begins). Both are left out where they would all be 0. A column of lists:
//!
//! ```text
//! rows         [a, null]   []   [b]
//! repetition    0  1       0    0
//! definition    3  2       1    3
//! values        a               b
//! ```

use super::leaf::{Kind, Leaf};
use super::pages::CheckedPages;
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescPtr;

/// One column of a row group.
pub(super) struct Column {
    leaf: Leaf,
    /// The definition level of a value that is there.
    present: i16,
    values: Values,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// Where the rows begin, and the end of the last.
    starts: Vec<Place>,
}

/// A place in the levels, and the first value from there on.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    level: usize,
    value: usize,
}

/// A reader, and the values of the rows it read last.
enum Values {
    Bool(Typed<BoolType>),
    Int32(Typed<Int32Type>),
    Int64(Typed<Int64Type>),
    Float(Typed<FloatType>),
    Double(Typed<DoubleType>),
    Bytes(Typed<ByteArrayType>),
    Fixed(Typed<FixedLenByteArrayType>),
}

struct Typed<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

/// What stands in one place of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Signed(i64),
    Unsigned(u64),
    Number(f64),
    Bytes(&'a [u8]),
}

impl Column {
    /// The column `leaf`, of the type `descriptor`, from its pages.
    pub fn new(leaf: Leaf, descriptor: ColumnDescPtr, pages: CheckedPages) -> Result<Self> {
        let present = descriptor.max_def_level();
        let values = match get_column_reader(descriptor, Box::new(pages)) {
            ColumnReader::BoolColumnReader(reader) => Values::Bool(Typed::new(reader)),
            ColumnReader::Int32ColumnReader(reader) => Values::Int32(Typed::new(reader)),
            ColumnReader::Int64ColumnReader(reader) => Values::Int64(Typed::new(reader)),
            ColumnReader::FloatColumnReader(reader) => Values::Float(Typed::new(reader)),
            ColumnReader::DoubleColumnReader(reader) => Values::Double(Typed::new(reader)),
            ColumnReader::ByteArrayColumnReader(reader) => Values::Bytes(Typed::new(reader)),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => Values::Fixed(Typed::new(reader)),
            ColumnReader::Int96ColumnReader(_) => {
                return Err(ParquetError::General(format!("column {}: 96-bit integers", leaf.name)));
            }
        };
        Ok(Self { leaf, present, values, definitions: vec![], repetitions: vec![], starts: vec![] })
    }

    /// Reads the next `rows` rows, which replace those read before.
    pub fn read(&mut self, rows: usize) -> Result<()> {
        let levels = (&mut self.definitions, &mut self.repetitions);
        let (read, values) = match &mut self.values {
            Values::Bool(typed) => typed.read(rows, levels)?,
            Values::Int32(typed) => typed.read(rows, levels)?,
            Values::Int64(typed) => typed.read(rows, levels)?,
            Values::Float(typed) => typed.read(rows, levels)?,
            Values::Double(typed) => typed.read(rows, levels)?,
            Values::Bytes(typed) => typed.read(rows, levels)?,
            Values::Fixed(typed) => typed.read(rows, levels)?,
        };
        // A short dictionary leaves values without bytes, and their `data()` would panic later.
        let hollow = match &self.values {
            Values::Bytes(typed) => typed.values.contains(&ByteArray::default()),
            Values::Fixed(typed) => typed.values.contains(&FixedLenByteArray::default()),
            _ => false,
        };
        if hollow {
            return Err(ParquetError::General(format!(
                "column {}: a value is not in the dictionary",
                self.leaf.name
            )));
        }
        self.find_rows(read, values);
        // Neither the reader's count nor the levels are taken on trust: both must agree with the rows of the group.
        let end = self.starts.last().copied().unwrap_or_default();
        if read != rows || self.starts.len() != rows + 1 || end.value != values {
            let name = &self.leaf.name;
            let found = self.starts.len().saturating_sub(1).min(read);
            return Err(ParquetError::General(format!(
                "column {name} has {found} rows where its row group has {rows} (and {values} values where its levels say {})",
                end.value
            )));
        }
        Ok(())
    }

    /// Finds where rows begin, from the levels.
    fn find_rows(&mut self, rows: usize, values: usize) {
        self.starts.clear();
        let levels = self.definitions.len().max(self.repetitions.len());
        let levels = if levels == 0 { values.max(rows) } else { levels };
        let mut place = Place::default();
        while place.level < levels {
            if self.repetitions.get(place.level).is_none_or(|&level| level == 0) {
                self.starts.push(place);
            }
            place.value += usize::from(self.definition(place.level) == self.present);
            place.level += 1;
        }
        self.starts.push(place);
    }

    fn definition(&self, level: usize) -> i16 {
        self.definitions.get(level).copied().unwrap_or(self.present)
    }

    /// The cells of a row among those read last: one for a plain column, any number for a list.
    pub fn cells(&self, row: usize) -> Cells<'_> {
        let place = self.starts.get(row).copied().unwrap_or_default();
        let end = self.starts.get(row + 1).map_or(place.level, |next| next.level);
        Cells { column: self, place, end }
    }

    /// Value number `index`.
    fn value(&self, index: usize) -> Option<Cell<'_>> {
        let signed = self.leaf.kind != Kind::Integer { signed: false };
        Some(match &self.values {
            Values::Bool(typed) => Cell::Unsigned((*typed.values.get(index)?).into()),
            Values::Int32(typed) => match *typed.values.get(index)? {
                value if signed => Cell::Signed(value.into()),
                value => Cell::Unsigned(value.cast_unsigned().into()),
            },
            Values::Int64(typed) => match *typed.values.get(index)? {
                value if signed => Cell::Signed(value),
                value => Cell::Unsigned(value.cast_unsigned()),
            },
            Values::Float(typed) => Cell::Number((*typed.values.get(index)?).into()),
            Values::Double(typed) => Cell::Number(*typed.values.get(index)?),
            Values::Bytes(typed) => Cell::Bytes(typed.values.get(index)?.data()),
            Values::Fixed(typed) => Cell::Bytes(typed.values.get(index)?.data()),
        })
    }
}

impl<T: DataType> Typed<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Self {
        Self { reader, values: vec![] }
    }

    /// Reads the next rows; returns how many there were and the number of their values.
    fn read(&mut self, rows: usize, levels: (&mut Vec<i16>, &mut Vec<i16>)) -> Result<(usize, usize)> {
        let (definitions, repetitions) = levels;
        self.values.clear();
        definitions.clear();
        repetitions.clear();
        let (read, ..) =
            self.reader.read_records(rows, Some(definitions), Some(repetitions), &mut self.values)?;
        Ok((read, self.values.len()))
    }
}

/// The cells of one row.
pub(super) struct Cells<'a> {
    column: &'a Column,
    place: Place,
    /// The level after the row's last.
    end: usize,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    fn next(&mut self) -> Option<Cell<'a>> {
        while self.place.level < self.end {
            let definition = self.column.definition(self.place.level);
            self.place.level += 1;
            if definition == self.column.present {
                self.place.value += 1;
                return self.column.value(self.place.value - 1);
            }
            if definition >= self.column.leaf.element_level {
                return Some(Cell::Null);
            }
        }
        None
    }
}
