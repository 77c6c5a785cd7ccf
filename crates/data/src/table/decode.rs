//! Decodes a table: finds the columns of a schema in it, and makes samples of its rows.

use super::values::StoredType;
use super::view::View;
use super::{NAME, Table};
use crate::cells::{Kind, Numbers, Roles, Use};
use crate::error::listed;
use crate::number::Input;
use crate::parquet::BadRow;
use crate::rows::Reading;
use crate::{DataError, Samples};
use spec::schema::Schema;
use std::path::Path;

/// Rows that are decoded at a time.
const ROWS: usize = 4096;

/// Decodes a table as [`crate::parquet::decode`] decodes files, and returns its number of samples.
pub(crate) fn decode(
    table: &Table,
    schema: &Schema,
    reading: &Reading,
    bad: &mut dyn FnMut(BadRow) -> Result<(), DataError>,
    progress: &(dyn Fn(u64, u64) + Sync),
    sink: &mut dyn FnMut(&Samples) -> Result<(), DataError>,
) -> Result<u64, DataError> {
    let found = Roles::find(schema, reading, |name, list, wanted| table.find(name, list, wanted));
    let found = found.map_err(|unfit| DataError::Column {
        path: NAME.into(),
        column: unfit.column,
        problem: unfit.problem,
    })?;
    let inputs = Input::of(schema, reading.transforms);
    let numbers = Numbers { inputs: &inputs, noted: reading.numbers };
    let mut samples = reading.samples(schema);
    let (mut row_of_table, mut decoded) = (0u64, 0u64);
    for batch in &table.batches {
        let columns = found.try_map(|&column| Ok::<_, DataError>(View::of(&batch.chunks[column])))?;
        for start in (0..batch.rows).step_by(ROWS) {
            samples.clear();
            for row in start..batch.rows.min(start + ROWS) {
                row_of_table += 1;
                let appended = columns.append(row, schema, numbers, &mut samples);
                if reading.rows {
                    columns.note(row, appended.is_ok(), &mut samples);
                }
                if let Err(fault) = appended {
                    let (column, problem) = (fault.column, fault.problem);
                    bad(BadRow { file: Path::new(NAME), row: row_of_table, column, problem })?;
                }
            }
            if !samples.is_empty() || !samples.rows.is_empty() {
                sink(&samples)?;
            }
            decoded += samples.len() as u64;
            progress(row_of_table, table.rows());
        }
    }
    Ok(decoded)
}

impl Table {
    /// Index of the column `name`, or what is wrong with it.
    fn find(&self, name: &str, list: bool, wanted: Use) -> Result<usize, String> {
        let Some(at) = self.columns.iter().position(|column| column.name == name) else {
            let names = listed(self.columns.iter().map(|column| column.name.as_str()));
            return Err(format!("the table has no such column; its columns are {names}"));
        };
        let stored = &self.columns[at].stored;
        let items = match stored {
            // A column without rows may have been given any type.
            _ if self.rows == 0 => return Ok(at),
            StoredType::List(items) if list => items,
            StoredType::List(_) => {
                return Err(format!("holds {stored}; only sparse columns with `list = true` may"));
            }
            _ if list => return Err(format!("holds {stored}, not lists; leave `list` out or write lists")),
            plain => plain,
        };
        let kind = match items {
            StoredType::Boolean => Some(Kind::Bool),
            StoredType::Integer { signed } => Some(Kind::Integer { signed: *signed }),
            StoredType::Float => Some(Kind::Float),
            StoredType::Bytes => Some(Kind::Bytes),
            StoredType::Time if wanted == Use::Noted => Some(Kind::Integer { signed: true }),
            StoredType::Time | StoredType::List(_) | StoredType::Other(_) => None,
        };
        match wanted.served_by(kind) {
            (true, _) => Ok(at),
            (false, would_do) => Err(format!("holds {stored}; expected {would_do}")),
        }
    }
}
