//! Sample rows of Parquet files, for discovering the roles of their columns.

use super::column::Column;
use super::file::{open_column, open_reader};
use super::leaf::Leaf;
use crate::DataError;
use crate::cells::{Kind, Use};
use crate::discover::{FIRST_ROWS, Sample, Stored};
use ::parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::FileReader;
use ::parquet::schema::types::{SchemaDescriptor, Type};
use std::path::PathBuf;

/// Number of row groups, after the first, in which some rows are examined.
const GROUPS: usize = 64;
/// Number of rows that are examined in such a group.
const GROUP_ROWS: usize = 500;

/// Reads sample rows of a Parquet log as text: integers as digits, booleans as 0 and 1, lists with bars between elements.
pub(crate) fn sample(files: &[PathBuf]) -> Result<Sample, DataError> {
    let mut found: Option<Sample> = None;
    for file in files {
        let reader = open_reader(file)?;
        let columns =
            super::file::guard(file, || Ok(leaves(reader.metadata().file_metadata().schema_descr())))?;
        let names: Vec<String> = columns.iter().map(|(name, ..)| name.clone()).collect();
        let stored: Vec<Stored> = columns.iter().map(|(_, stored, _)| stored.clone()).collect();
        let sample = found.get_or_insert_with(|| Sample::new(names.clone(), stored));
        if sample.names != names {
            // The pass over the whole log finds its columns by name, or reports which are missing.
            sample.whole = false;
            continue;
        }
        let groups = reader.num_row_groups();
        for group in (0..groups).step_by(groups.div_ceil(GROUPS).max(1)) {
            let rows = usize::try_from(reader.metadata().row_group(group).num_rows()).unwrap_or(0);
            let most = if sample.rows() == 0 { FIRST_ROWS } else { GROUP_ROWS };
            let count = rows.min(most).min(sample.room());
            sample.whole &= count == rows;
            if count > 0 {
                super::file::guard(file, || {
                    let group = reader.get_row_group(group)?;
                    let open = |leaf: &Option<Leaf>| {
                        let open = leaf.as_ref().map(|leaf| open_column(&*group, leaf)).transpose()?;
                        Ok::<_, ParquetError>(open)
                    };
                    let mut open: Vec<Option<Column>> =
                        columns.iter().map(|(.., leaf)| open(leaf)).collect::<Result<_, _>>()?;
                    open.iter_mut().flatten().try_for_each(|column| column.read(count))?;
                    let open: Vec<Option<&Column>> = open.iter().map(Option::as_ref).collect();
                    sample.push_rows(&open, 0..count);
                    Ok(())
                })?;
            }
        }
        sample.whole &= groups <= GROUPS;
    }
    Ok(found.unwrap_or_default())
}

/// Columns of a file: name, storage type, and leaf if the values can be read.
fn leaves(schema: &SchemaDescriptor) -> Vec<(String, Stored, Option<Leaf>)> {
    let column = |top: &Type| {
        let name = top.name().to_owned();
        if let Ok(leaf) = Leaf::find(schema, &name, false, Use::Number) {
            let stored = match leaf.kind {
                Kind::Bool => Stored::Boolean,
                Kind::Float => Stored::Float,
                _ => Stored::Integer,
            };
            return (name, stored, Some(leaf));
        }
        if let Ok(leaf) = Leaf::find(schema, &name, false, Use::Id) {
            return (name, Stored::String, Some(leaf));
        }
        if let Ok(leaf) = Leaf::find(schema, &name, true, Use::Id) {
            return (name, Stored::IdList, Some(leaf));
        }
        if Leaf::find(schema, &name, true, Use::Number).is_ok() {
            return (
                name,
                Stored::Other("lists of numbers (weights of another column? see `weights`)".into()),
                None,
            );
        }
        let place = (0..schema.num_columns()).find(|&at| schema.get_column_root(at).name() == name);
        if let (true, Some(index)) = (is_time(top), place) {
            let kind = Kind::Integer { signed: true };
            let leaf = Leaf { name: name.clone(), index, kind, element_level: 0 };
            return (name, Stored::Time, Some(leaf));
        }
        let what = match top.is_primitive() {
            true => format!("{}, which is not read", super::leaf::describe(top)),
            false => "nested columns, which are not read".into(),
        };
        (name, Stored::Other(what), None)
    };
    schema.root_schema().get_fields().iter().map(|top| column(top)).collect()
}

/// Whether a column holds dates or timestamps.
fn is_time(top: &Type) -> bool {
    let info = top.get_basic_info();
    let integer = top.is_primitive() && matches!(top.get_physical_type(), Physical::INT32 | Physical::INT64);
    let logical = matches!(info.logical_type_ref(), Some(LogicalType::Timestamp { .. } | LogicalType::Date));
    let converted = matches!(
        info.converted_type(),
        ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS | ConvertedType::DATE
    );
    let single = info.has_repetition() && info.repetition() != ::parquet::basic::Repetition::REPEATED;
    integer && single && (logical || converted)
}
