//! From a log as it was written to a prepared one, in bounded memory.
//!
//! One pass, or two: columns with a vocabulary are counted first.

use crate::bad_lines::{BadLines, Policy};
use crate::decode::{self, Progress, TextLog};
use crate::parquet::{self, ParquetLog};
use crate::prepared::{About, Manifest, PreparedLog, Source, Writer, WriterOptions};
use crate::vocabulary::{Counter, Vocabulary};
use crate::{DataError, Samples, files};
use spec::run::DataFormat;
use spec::schema::{IdRule, Schema};
use std::path::{Path, PathBuf};

/// A log as it was written.
#[derive(Clone, Debug)]
pub struct RawLog<'a> {
    /// How it is written.
    pub format: DataFormat,
    /// Its files, in order.
    pub files: &'a [PathBuf],
    /// Its columns.
    pub schema: &'a Schema,
    /// What is done about bad lines.
    pub policy: Policy,
    /// Threads that parse.
    pub threads: usize,
    /// Bytes that reading may take.
    pub memory: u64,
}

/// How far a preparation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The vocabularies are being counted; otherwise samples are being written.
    pub counting: bool,
    /// How far the pass is.
    pub progress: Progress,
}

/// Prepares `log` into `folder`. Vocabularies are those of `like` where one is given (what a model was trained on), and
/// made from the log itself otherwise.
pub fn prepare(
    log: &RawLog,
    folder: &Path,
    like: Option<&[Option<Vocabulary>]>,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<Manifest, DataError> {
    log.schema.check().map_err(|e| DataError::file(folder, format!("the schema cannot be used: {e}")))?;
    let source = Source::of(log.format.name(), log.files)?;
    std::fs::create_dir_all(folder).map_err(|e| DataError::file(folder, format!("cannot be made: {e}")))?;
    let own;
    let vocabularies = match like {
        Some(vocabularies) => vocabularies,
        None => {
            own = count(log, folder, &|progress_now| progress(Step { counting: true, progress: progress_now }))?;
            &own
        }
    };
    let rows: Vec<Option<usize>> = log
        .schema
        .sparse
        .iter()
        .zip(vocabularies)
        .map(|(column, vocabulary)| vocabulary.as_ref().map(Vocabulary::rows).or(column.rows))
        .collect();
    let mut writer = Writer::create(folder, log.schema, &rows, WriterOptions::default())?;
    let bad = log.decode(
        vocabularies,
        &|progress_now| progress(Step { counting: false, progress: progress_now }),
        &mut |samples| writer.append(samples),
    )?;
    let mut names = std::collections::BTreeMap::new();
    for (index, (column, vocabulary)) in log.schema.sparse.iter().zip(vocabularies).enumerate() {
        if let Some(vocabulary) = vocabulary {
            let name = vocabulary_file(index);
            vocabulary.save(&folder.join(&name))?;
            names.insert(column.column.clone(), name);
        }
    }
    let bad_lines = crate::prepared::BadLines {
        count: bad.count,
        lines: bad.first.iter().map(ToString::to_string).collect(),
    };
    writer.finish(About { source, bad_lines, vocabularies: names })
}

/// The vocabularies of a prepared log, by sparse column.
pub fn vocabularies(log: &PreparedLog) -> Result<Vec<Option<Vocabulary>>, DataError> {
    let names = &log.manifest().vocabularies;
    let load = |feature: &crate::prepared::PreparedFeature| match names.get(&feature.name) {
        Some(name) => Vocabulary::load(&log.folder().join(name)).map(Some),
        None => Ok(None),
    };
    log.manifest().features.iter().map(load).collect()
}

fn vocabulary_file(column: usize) -> String {
    format!("vocabulary-{column:04}.bin")
}

/// Counts the ids of the columns that have a vocabulary.
fn count(
    log: &RawLog,
    folder: &Path,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Option<Vocabulary>>, DataError> {
    let columns = &log.schema.sparse;
    let counted = columns.iter().filter(|column| column.ids == IdRule::Vocabulary).count() as u64;
    if counted == 0 {
        return Ok(columns.iter().map(|_| None).collect());
    }
    // Half for the counters, the other half for reading and decoding.
    let share = log.memory / 2 / counted;
    let mut counters: Vec<Option<Counter>> = columns
        .iter()
        .map(|column| (column.ids == IdRule::Vocabulary).then(|| Counter::new(folder, share)))
        .collect();
    let halved = RawLog { memory: log.memory / 2, ..log.clone() };
    halved.decode(&[], progress, &mut |samples| {
        for (counter, bags) in counters.iter_mut().zip(&samples.bags) {
            if let Some(counter) = counter {
                counter.add(&bags.ids)?;
            }
        }
        Ok(())
    })?;
    let finish = |(column, counter): (&spec::schema::SparseColumn, Option<Counter>)| {
        counter.map(|counter| counter.finish(column.min_count, column.rows)).transpose()
    };
    columns.iter().zip(counters).map(finish).collect()
}

impl RawLog<'_> {
    /// Reads the log from its beginning to its end, whatever its format. `vocabularies` turn ids into rows; without
    /// any, `sink` gets their keys.
    pub fn decode(
        &self,
        vocabularies: &[Option<Vocabulary>],
        progress: &(dyn Fn(Progress) + Sync),
        sink: &mut dyn FnMut(&Samples) -> Result<(), DataError>,
    ) -> Result<BadLines, DataError> {
        match self.format {
            DataFormat::CriteoTsv | DataFormat::Csv => {
                let Self { files, schema, policy, threads, memory, .. } = *self;
                let log = TextLog { files, schema, vocabularies, policy, threads, memory };
                decode::decode(&log, progress, sink).map(|decoded| decoded.bad)
            }
            DataFormat::Parquet => {
                todo!()
            }
            DataFormat::Prepared | DataFormat::Synthetic => Err(DataError::Format { format: self.format.name() }),
        }
    }
}
