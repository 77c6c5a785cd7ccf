//! Finds a column in the schema of a Parquet file.
//!
//! Parquet stores the leaves of a tree. A plain column is a leaf at the top. A list is a group with one leaf:
//!
//! ```text
//! optional group tags (LIST) {          definition level 0: the list is null
//!   repeated group list {               1: it is empty
//!     optional binary element (STRING)  2: an element that is null; 3: an element
//!   }
//! }
//! ```
//!
//! Older writers leave out the group in the middle, or write `repeated int64 tags` at the top. All forms have one repeated node,
//! and an element exists from the definition level of that node on.

use crate::cells::{Kind, Use};
use crate::error::listed;
use ::parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use ::parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};

/// A column that can be read.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Name of the column in the schema.
    pub name: String,
    /// Index of the column among the leaves of the file.
    pub index: usize,
    /// Kind of values in the column.
    pub kind: Kind,
    /// Definition level from which an element of a list exists; 0 for plain columns.
    pub element_level: i16,
}

impl Leaf {
    /// Finds the column `name`, or says what is wrong with it.
    pub fn find(schema: &SchemaDescriptor, name: &str, list: bool, wanted: Use) -> Result<Self, String> {
        let root = schema.root_schema();
        let mut roots = root.get_fields().iter().filter(|field| field.name() == name);
        let Some(top) = roots.next() else {
            let names = listed(root.get_fields().iter().map(|field| field.name()));
            return Err(format!("the file has no such column; its columns are {names}"));
        };
        if roots.next().is_some() {
            return Err("the file has two columns of that name".into());
        }
        let mut leaves = (0..schema.num_columns()).filter(|&i| schema.get_column_root(i).name() == name);
        let (Some(index), None) = (leaves.next(), leaves.next()) else {
            return Err(format!(
                "is a group of several columns ({}); only plain columns and lists can be read",
                describe(top)
            ));
        };
        let leaf = schema.column(index);
        let is_list = match leaf.max_rep_level() {
            0 if top.is_primitive() => false,
            1 if top.is_primitive() || is_annotated_list(top) => true,
            _ => {
                return Err(format!(
                    "is nested ({}); only plain columns and lists of them can be read",
                    describe(top)
                ));
            }
        };
        if list && !is_list {
            return Err(format!("holds {}, not lists; leave `list` out or write lists", describe(top)));
        }
        if is_list && !list {
            return Err(format!(
                "holds lists ({}); only sparse columns with `list = true` may",
                describe(top)
            ));
        }
        let kind = kind(&leaf).or_else(|| if wanted == Use::Noted { time_kind(&leaf) } else { None });
        let (serves, would_do) = wanted.served_by(kind);
        match kind {
            Some(kind) if serves => {
                Ok(Self { name: name.into(), index, kind, element_level: element_level(top) })
            }
            _ => Err(format!("holds {}; expected {would_do}", describe(top))),
        }
    }
}

/// Kind of values of a leaf, if a click log can use them. Dates and decimals are excluded: they are stored as integers, but
/// their text is different.
fn kind(leaf: &ColumnDescriptor) -> Option<Kind> {
    let (logical, converted) = (leaf.logical_type_ref(), leaf.converted_type());
    let plain = logical.is_none() && converted == ConvertedType::NONE;
    match leaf.physical_type() {
        Physical::BOOLEAN => Some(Kind::Bool),
        Physical::INT32 | Physical::INT64 => match logical {
            Some(LogicalType::Integer(integer)) => Some(Kind::Integer { signed: integer.is_signed }),
            Some(_) => None,
            None => match converted {
                ConvertedType::NONE
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64 => Some(Kind::Integer { signed: true }),
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64 => Some(Kind::Integer { signed: false }),
                _ => None,
            },
        },
        Physical::FLOAT | Physical::DOUBLE => Some(Kind::Float),
        Physical::BYTE_ARRAY => {
            let text = matches!(logical, Some(LogicalType::String | LogicalType::Enum | LogicalType::Json))
                || matches!(converted, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON);
            (plain || text).then_some(Kind::Bytes)
        }
        Physical::FIXED_LEN_BYTE_ARRAY => plain.then_some(Kind::Bytes),
        Physical::INT96 => None,
    }
}

/// Kind of the integers as which dates and times are stored; the integers sort as time does.
fn time_kind(leaf: &ColumnDescriptor) -> Option<Kind> {
    let integer = matches!(leaf.physical_type(), Physical::INT32 | Physical::INT64);
    let logical = matches!(
        leaf.logical_type_ref(),
        Some(LogicalType::Date | LogicalType::Time(_) | LogicalType::Timestamp(_))
    );
    let converted = matches!(
        leaf.converted_type(),
        ConvertedType::DATE
            | ConvertedType::TIME_MILLIS
            | ConvertedType::TIME_MICROS
            | ConvertedType::TIMESTAMP_MILLIS
            | ConvertedType::TIMESTAMP_MICROS
    );
    (integer && (logical || converted)).then_some(Kind::Integer { signed: true })
}

/// Whether a group is annotated as a list.
fn is_annotated_list(group: &Type) -> bool {
    let info = group.get_basic_info();
    info.converted_type() == ConvertedType::LIST || matches!(info.logical_type_ref(), Some(LogicalType::List))
}

/// Definition level of the repeated node between `top` and its only leaf.
fn element_level(top: &Type) -> i16 {
    let mut level = 0;
    let mut node = Some(top);
    while let Some(this) = node {
        let info = this.get_basic_info();
        let repetition = if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED };
        level += i16::from(repetition != Repetition::REQUIRED);
        if repetition == Repetition::REPEATED {
            return level;
        }
        node = if this.is_group() { this.get_fields().first().map(AsRef::as_ref) } else { None };
    }
    0
}

/// Describes the type of a column in a few words.
pub(super) fn describe(top: &Type) -> String {
    let info = top.get_basic_info();
    let annotation = match (info.logical_type_ref(), info.converted_type()) {
        (Some(logical), _) => format!(" ({logical:?})"),
        (None, ConvertedType::NONE) => String::new(),
        (None, converted) => format!(" ({converted})"),
    };
    match top.is_primitive() {
        true => format!("{}{annotation}", top.get_physical_type()),
        false => {
            let parts: Vec<String> = top.get_fields().iter().take(8).map(|field| describe(field)).collect();
            format!("group{annotation} of {}", parts.join(", "))
        }
    }
}
