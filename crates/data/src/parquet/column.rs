//! Rows of one Parquet column, as cells.
//!
//! Parquet stores the values that are present, and for each cell a definition level (whether there is a value, or what is null)
//! and a repetition level (0 at the beginning of a row). Levels are left out if all of them would be 0. A column of lists:
//!
//! ```text
//! rows         [a, null]   []   [b]
//! repetition    0  1       0    0
//! definition    3  2       1    3
//! values        a               b
//! ```

use super::leaf::Leaf;
use super::pages::CheckedPages;
use crate::cells::{Cell, CellColumn, Kind};
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
    /// Definition level of a value that is present.
    present: i16,
    values: Values,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// Beginning of each row, and the end of the last one.
    starts: Vec<LevelPosition>,
}

/// Index of a level, and of the first value from there on.
#[derive(Clone, Copy, Debug, Default)]
struct LevelPosition {
    level: usize,
    value: usize,
}

/// Reader of a column, and the values of the rows that it read last.
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

impl Column {
    /// Opens the column `leaf` of the type `descriptor`, whose pages are `pages`.
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
        // Neither the count of the reader nor the levels are trusted: both must agree with the number of rows.
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

    /// Finds the beginning of each row from the levels.
    fn find_rows(&mut self, rows: usize, values: usize) {
        self.starts.clear();
        let levels = self.definitions.len().max(self.repetitions.len());
        let levels = if levels == 0 { values.max(rows) } else { levels };
        let mut place = LevelPosition::default();
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

    /// Value with this index.
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

impl CellColumn for Column {
    /// Cells of a row among those read last: one for a plain column, any number for a list.
    fn cells(&self, row: usize) -> impl Iterator<Item = Cell<'_>> {
        let place = self.starts.get(row).copied().unwrap_or_default();
        let end = self.starts.get(row + 1).map_or(place.level, |next| next.level);
        Cells { column: self, place, end }
    }
}

impl<T: DataType> Typed<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Self {
        Self { reader, values: vec![] }
    }

    /// Reads the next rows. Returns the number of rows and the number of values.
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

/// Iterator over the cells of one row.
struct Cells<'a> {
    column: &'a Column,
    place: LevelPosition,
    /// Index after the last level of the row.
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
