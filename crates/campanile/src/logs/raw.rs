//! A log that is not prepared yet.

use super::LogError;
use super::is_table;
use data::Table;
use data::bad_lines::Policy;
use data::prepare::RawLog;
use data::rows::Reading;
use spec::run::{DataConfig, DataFormat};
use spec::schema::Schema;
use std::path::PathBuf;
use std::sync::Arc;

/// A log that is not prepared yet.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Format of the files.
    pub format: DataFormat,
    /// Files of the log; none of a table.
    pub files: Vec<PathBuf>,
    /// The log itself, where it is in memory.
    pub table: Option<Arc<Table>>,
    /// Columns of the log.
    pub schema: Schema,
    pub(super) policy: Policy,
}

impl Raw {
    /// The log at `paths`, as `data` describes it.
    pub fn of(data: &DataConfig, paths: &[String]) -> Result<Self, LogError> {
        let format = data.format.unwrap_or(DataFormat::CriteoTsv);
        let schema = match (&data.schema, format) {
            (Some(schema), _) => schema.clone(),
            (None, DataFormat::CriteoTsv) => Schema::criteo(),
            (None, _) => return Err(LogError::NoSchema { format: format.name() }),
        };
        let mut schema = schema;
        // Columns by which evaluations are broken down are kept by themselves.
        for column in data.group.iter().chain(&data.slices) {
            if !schema.keep.contains(column) {
                schema.keep.push(column.clone());
            }
        }
        schema.check().map_err(LogError::Schema)?;
        let usual = Policy::default();
        let share = data.max_bad_share.unwrap_or(usual.max_share);
        if !(0.0..=1.0).contains(&share) {
            return Err(LogError::BadShare { share });
        }
        let policy = Policy { strict: data.strict.unwrap_or(usual.strict), max_share: share };
        let files = if is_table(paths) { Vec::new() } else { data::files::resolve(paths)? };
        Ok(Self { format, files, table: None, schema, policy })
    }

    /// The log, whose rows are those of `table` if the paths say so. Fails if there is no table to read.
    pub fn of_table(
        data: &DataConfig,
        paths: &[String],
        table: Option<&Arc<Table>>,
    ) -> Result<Self, LogError> {
        let raw = Self::of(data, paths)?;
        match (is_table(paths), table) {
            (false, _) => Ok(raw),
            (true, Some(table)) => Ok(Self { table: Some(table.clone()), ..raw }),
            (true, None) => Err(LogError::NoTable),
        }
    }

    /// The log, to be read within `memory` bytes.
    pub fn log(&self, memory: u64) -> RawLog<'_> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let Self { format, files, table, schema, policy } = self;
        RawLog {
            format: *format,
            files,
            table: table.as_deref(),
            schema,
            policy: *policy,
            threads,
            memory,
            stop: None,
            reading: Reading::default(),
        }
    }
}
