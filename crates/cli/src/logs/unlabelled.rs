//! A log to score, whose labels are left aside, and the rows that its samples come from.

use super::{MEMORY, OpenLogs, Place, Raw, facts, open_prepared, showing_progress};
use crate::progress::Console;
use anyhow::{Context, Result, ensure};
use data::prepare::{self, RawLog};
use data::prepared::PreparedLog;
use data::rows::{Reading, RowsFile, RowsReader};
use spec::run::{DataConfig, DataFormat};
use spec::schema::Schema;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
    /// As they were noted when the log was read.
    Noted(RowsReader),
    /// Every row is a sample: those of a prepared log.
    Samples,
}

/// Opens a log to score, with the vocabularies of the model, which lie in `vocabularies`. Every row has the text of column
/// `key`, where one is named.
pub fn open_unlabelled(
    data: &DataConfig,
    vocabularies: &Path,
    key: Option<&str>,
    stop: &AtomicBool,
    console: Console,
) -> Result<Unlabelled> {
    let of_model = |schema: &Schema| {
        let loaded = prepare::load_vocabularies(schema, vocabularies);
        loaded.context("the vocabularies that the model was trained with")
    };
    if data.format == Some(DataFormat::Prepared) {
        ensure!(
            key.is_none(),
            "--key: a prepared log has no columns but those of the model; read the log it was made from"
        );
        let like = of_model(&open_prepared(&data.eval, "eval")?.manifest().schema)?;
        let place = Place::new(None, stop, console)?;
        let log = place.open(data, &data.eval, "eval", Some(&like))?;
        let count = log.manifest().samples;
        let open = as_evaluation(log, place);
        return Ok(Unlabelled { open, rows: RowSource::Samples, count, samples: count, first_bad: vec![] });
    }
    let raw = Raw::of(data, &data.eval)?;
    let like = of_model(&raw.schema)?;
    let place = Place::new(None, stop, console)?;
    let folder = place.folder.join("eval");
    let mut rows = RowsFile::create(&place.folder.join("rows"))?;
    let reading = Reading { unlabelled: true, rows: true, column: key };
    let log = RawLog { stop: Some(stop), reading, ..raw.log(MEMORY) };
    let manifest = showing_progress(console, "reading data", |progress| {
        prepare::prepare_with_rows(&log, &folder, Some(&like), Some(&mut rows), progress)
    })?;
    let (count, samples) = (rows.len(), manifest.samples);
    let open = as_evaluation(Arc::new(PreparedLog::open(&folder)?), place);
    let rows = RowSource::Noted(rows.read()?);
    Ok(Unlabelled { open, rows, count, samples, first_bad: manifest.bad_lines.lines })
}

fn as_evaluation(log: Arc<PreparedLog>, place: Place) -> OpenLogs {
    let mut facts = facts(log.manifest());
    facts.eval_samples = facts.samples;
    let logs = Logs::Prepared { train: None, eval: Some(log) };
    OpenLogs { logs, facts: Some(facts), _scratch: place.scratch }
}
