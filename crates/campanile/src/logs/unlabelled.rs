//! A log to score, whose labels are left aside, and the rows that its samples come from.

use super::preparer::{Preparer, open_prepared};
use super::{LogError, MEMORY, OpenLogs, Raw, facts};
use crate::control::Control;
use data::Table;
use data::prepare::{self, Learnt, RawLog};
use data::prepared::PreparedLog;
use data::rows::{Reading, RowsFile, RowsReader};
use spec::run::{DataConfig, DataFormat};
use spec::schema::Schema;
use std::path::Path;
use std::sync::Arc;
use training::Logs;

/// A log to score.
pub struct Unlabelled {
    /// Samples of the log, to be read as those of an evaluation.
    pub open: OpenLogs,
    /// Rows of the log, bad ones among them.
    pub rows: RowSource,
    /// Number of rows.
    pub count: u64,
    /// Number of rows that hold a sample.
    pub samples: u64,
    /// Descriptions of the first bad lines.
    pub first_bad: Vec<String>,
}

/// The rows of a log, in order.
pub enum RowSource {
    /// Rows that were noted when the log was read.
    Noted(RowsReader),
    /// Every row is a sample: those of a prepared log.
    Samples,
}

/// Opens a log to score, with the vocabularies and transforms of the model, which lie in `vocabularies`. Every row has the text
/// of column `key`, where one is named. Where paths stand for a table, `table` is read.
pub fn open_unlabelled(
    data: &DataConfig,
    table: Option<&Arc<Table>>,
    vocabularies: &Path,
    key: Option<&str>,
    control: &Control,
) -> Result<Unlabelled, LogError> {
    let of_model = |schema: &Schema| Learnt::load(schema, vocabularies).map_err(LogError::Vocabularies);
    if data.format == Some(DataFormat::Prepared) {
        if key.is_some() {
            return Err(LogError::KeyOfPrepared);
        }
        let like = of_model(&open_prepared(&data.eval, "eval")?.manifest().schema)?;
        let preparer = Preparer::new(None, control)?;
        let log = preparer.open(data, &data.eval, "eval", Some(&like))?;
        let count = log.manifest().samples;
        let open = as_evaluation(log, preparer);
        return Ok(Unlabelled { open, rows: RowSource::Samples, count, samples: count, first_bad: vec![] });
    }
    let raw = Raw::of_table(data, &data.eval, table)?;
    let like = of_model(&raw.schema)?;
    let preparer = Preparer::new(None, control)?;
    let folder = preparer.folder.join("eval");
    let mut rows = RowsFile::create(&preparer.folder.join("rows"))?;
    let reading = Reading { unlabelled: true, rows: true, column: key, ..Reading::default() };
    let log = RawLog { stop: Some(control.stop_flag()), reading, ..raw.log(MEMORY) };
    let manifest = control.reading("reading data", |progress| {
        prepare::prepare_with_rows(&log, &folder, Some(&like), Some(&mut rows), progress)
    })?;
    let (count, samples) = (rows.len(), manifest.samples);
    let open = as_evaluation(Arc::new(PreparedLog::open(&folder)?), preparer);
    let rows = RowSource::Noted(rows.read()?);
    Ok(Unlabelled { open, rows, count, samples, first_bad: manifest.bad_lines.lines })
}

fn as_evaluation(log: Arc<PreparedLog>, preparer: Preparer) -> OpenLogs {
    let mut facts = facts(log.manifest());
    facts.eval_samples = facts.samples;
    let logs = Logs::Prepared { train: None, eval: Some(log) };
    OpenLogs { logs, facts: Some(facts), _scratch: preparer.scratch }
}
