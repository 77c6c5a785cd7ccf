//! Discovers the format and the schema of a log.

use crate::Error;
use crate::control::Control;
use crate::event::{Event, Unit};
use crate::logs::{MEMORY, Raw};
use data::Table;
use data::discover::{Request, discover, discover_table};
use data::inspect::{Inspection, Inspector};
use data::prepare::PrepareProgress;
use spec::run::DataConfig;
use spec::schema::{IdRule, Schema};
use std::sync::Arc;

/// Share of the rows that is evaluated on.
pub const SPLIT: f64 = 0.1;
/// Ids of a column that get a row each; more are hashed.
const VOCABULARY: u64 = 100_000;

/// Finds format and columns of the training files in `data`, or of the table that stands for them, and counts their ids. A tenth of the rows is kept from training,
/// unless `data` says what is evaluated on.
pub(crate) fn describe(
    data: &mut DataConfig,
    table: Option<&Arc<Table>>,
    request: &Request,
    control: &Control,
) -> Result<(), Error> {
    let found = match table {
        Some(table) => discover_table(table, request)?,
        None => discover(&data::files::resolve(&data.train)?, request)?,
    };
    (data.format, data.schema) = (Some(found.format), Some(found.schema.clone()));
    let raw = Raw::of_table(data, &data.train, table)?;
    let mut inspector = Inspector::new(&raw.schema);
    let reading = control.start("inspecting", 0, Unit::Bytes);
    raw.log(MEMORY).decode(
        &[],
        &|progress| control.tell(Event::Reading(PrepareProgress { counting: false, progress })),
        &mut |samples| {
            inspector.add(samples);
            Ok(())
        },
    )?;
    drop(reading);
    let schema = sized(&found.schema, &inspector.finish());
    if data.split.is_none() && data.eval.is_empty() {
        data.split = Some(SPLIT);
        data.split_by = schema.time.clone().filter(|_| !schema.in_time_order);
    }
    data.schema = Some(schema);
    Ok(())
}

/// The schema with tables that suit the ids: few ids get a row each, many share rows by their hash.
pub fn sized(schema: &Schema, inspection: &Inspection) -> Schema {
    let mut schema = schema.clone();
    for (column, seen) in schema.sparse.iter_mut().zip(&inspection.sparse) {
        column.rows = Some(seen.suggested_rows as usize);
        if seen.distinct <= VOCABULARY {
            column.ids = IdRule::Vocabulary;
        }
    }
    schema
}
