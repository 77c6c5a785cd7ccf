//! Sample rows of a table, for discovering the roles of its columns.

use super::values::StoredType;
use super::view::View;
use super::{Batch, Table};
use crate::discover::{FIRST_ROWS, Sample, Stored};
use std::ops::Range;

/// Number of places after the first rows at which some rows are examined.
const PLACES: u64 = 64;
/// Number of rows that are examined at such a place.
const PLACE_ROWS: u64 = 500;

/// Takes sample rows of a table: the first ones, and some at places spread over the rest, however its rows lie in batches.
pub(crate) fn sample(table: &Table) -> Sample {
    let names = table.columns.iter().map(|column| column.name.clone()).collect();
    let stored = table.columns.iter().map(|column| stored(&column.stored)).collect();
    let mut sample = Sample::new(names, stored);
    let first = table.rows().min(FIRST_ROWS.min(sample.room()) as u64);
    push(table, &mut sample, 0..first);
    let rest = table.rows() - first;
    if rest > PLACES * PLACE_ROWS {
        sample.whole = false;
        for place in 0..PLACES {
            let start = first + rest / PLACES * place;
            push(table, &mut sample, start..start + PLACE_ROWS);
        }
    } else {
        push(table, &mut sample, first..table.rows());
    }
    sample.whole &= sample.rows() as u64 == table.rows();
    sample
}

/// Appends rows of the table, as many as there is room for.
fn push(table: &Table, sample: &mut Sample, rows: Range<u64>) {
    let mut start = 0u64;
    for Batch { rows: here, chunks } in &table.batches {
        let end = start + *here as u64;
        let (from, to) = (rows.start.max(start), rows.end.min(end));
        if from < to {
            let to = to.min(from + sample.room() as u64);
            let views: Vec<View> = chunks.iter().map(View::of).collect();
            let columns: Vec<Option<&View>> = views.iter().map(Some).collect();
            sample.push_rows(&columns, (from - start) as usize..(to - start) as usize);
        }
        start = end;
    }
}

fn stored(stored: &StoredType) -> Stored {
    match stored {
        StoredType::Boolean => Stored::Boolean,
        StoredType::Integer { .. } => Stored::Integer,
        StoredType::Float => Stored::Float,
        StoredType::Bytes => Stored::String,
        StoredType::Time => Stored::Time,
        StoredType::List(items) if matches!(**items, StoredType::Bytes | StoredType::Integer { .. }) => {
            Stored::IdList
        }
        StoredType::List(_) => {
            Stored::Other("lists of numbers (weights of another column? see `weights`)".into())
        }
        StoredType::Other(what) => Stored::Other(format!("{what}, which is not read")),
    }
}
