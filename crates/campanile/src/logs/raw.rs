//! A log that is not prepared yet.

use super::LogError;
use data::bad_lines::Policy;
use data::prepare::RawLog;
use data::rows::Reading;
use spec::run::{DataConfig, DataFormat};
use spec::schema::Schema;
use std::path::PathBuf;

/// A log that is not prepared yet.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Format of the files.
    pub format: DataFormat,
    /// Files of the log.
    pub files: Vec<PathBuf>,
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
        Ok(Self { format, files: data::files::resolve(paths)?, schema, policy })
    }

    /// The log, to be read within `memory` bytes.
    pub fn log(&self, memory: u64) -> RawLog<'_> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let Self { format, files, schema, policy } = self;
        RawLog {
            format: *format,
            files,
            schema,
            policy: *policy,
            threads,
            memory,
            stop: None,
            reading: Reading::default(),
        }
    }
}
