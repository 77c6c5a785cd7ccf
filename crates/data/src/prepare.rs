//! From a log as it was written to a prepared one, in bounded memory.
//!
//! One pass, or two: columns with a vocabulary are counted first.

use crate::bad_lines::{BadLine, BadLines, Policy};
use crate::decode::{self, Progress, TextLog};
use crate::parquet::{self, ParquetLog};
use crate::prepared::{About, Manifest, PreparedLog, Source, Writer, WriterOptions};
use crate::vocabulary::{Counter, Vocabulary};
use crate::{DataError, Samples};
use spec::run::DataFormat;
use spec::schema::{IdRule, Schema, SparseColumn};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rows of a Parquet log in memory at once.
const PARQUET_ROWS: usize = 4096;

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
    /// Once set, reading ends with [`DataError::Stopped`].
    pub stop: Option<&'a AtomicBool>,
}

/// How far a preparation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The vocabularies are being counted; otherwise samples are being written.
    pub counting: bool,
    /// How far the pass is.
    pub progress: Progress,
}

/// Refuses a folder that holds a file of the log: what an earlier preparation left there is removed by its name.
fn refuse_inputs_in(folder: &Path, files: &[PathBuf]) -> Result<(), DataError> {
    let Ok(whole) = folder.canonicalize() else { return Ok(()) };
    match files.iter().find(|file| file.canonicalize().is_ok_and(|file| file.starts_with(&whole))) {
        None => Ok(()),
        Some(file) => {
            let problem = format!(
                "lies in {}, where the prepared log would go; choose another folder",
                folder.display()
            );
            Err(DataError::file(file, problem))
        }
    }
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
    refuse_inputs_in(folder, log.files)?;
    let own;
    let vocabularies = match like {
        Some(vocabularies) => vocabularies,
        None => {
            own = count(log, folder, &|progress_now| {
                progress(Step { counting: true, progress: progress_now })
            })?;
            &own
        }
    };
    for (column, vocabulary) in log.schema.sparse.iter().zip(vocabularies) {
        if vocabulary.is_some() != (column.ids == IdRule::Vocabulary) {
            let problem = "the vocabularies given are of another schema".into();
            return Err(DataError::Vocabulary { column: column.column.clone(), problem });
        }
    }
    let rows: Vec<Option<usize>> = log
        .schema
        .sparse
        .iter()
        .zip(vocabularies)
        .map(|(column, vocabulary)| vocabulary.as_ref().map(Vocabulary::rows).or(column.rows))
        .collect();
    let mut writer = Writer::create(folder, log.schema, &rows, WriterOptions::default())?;
    // Vocabularies may take up to half of the memory: see `count`.
    let has_vocabulary = vocabularies.iter().any(Option::is_some);
    let reading = RawLog { memory: if has_vocabulary { log.memory / 2 } else { log.memory }, ..log.clone() };
    let bad = reading.decode(
        vocabularies,
        &|progress_now| progress(Step { counting: false, progress: progress_now }),
        &mut |samples| writer.append(samples),
    )?;
    let mut names = BTreeMap::new();
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
    load_vocabularies(&log.manifest().schema, log.folder())
}

/// The vocabularies that a log of this schema has in `folder`, by sparse column.
pub fn load_vocabularies(schema: &Schema, folder: &Path) -> Result<Vec<Option<Vocabulary>>, DataError> {
    let load = |(index, column): (usize, &SparseColumn)| match column.ids {
        IdRule::Vocabulary => Vocabulary::load(&folder.join(vocabulary_file(index))).map(Some),
        IdRule::Hash | IdRule::Index => Ok(None),
    };
    schema.sparse.iter().enumerate().map(load).collect()
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
        .map(|column| (column.ids == IdRule::Vocabulary).then(|| Counter::new(&column.column, folder, share)))
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
    let finish = |(column, counter): (&SparseColumn, Option<Counter>)| {
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
        let sink = &mut |samples: &Samples| match self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(DataError::Stopped),
            _ => sink(samples),
        };
        match self.format {
            DataFormat::CriteoTsv | DataFormat::Csv => {
                let Self { files, schema, policy, threads, memory, .. } = *self;
                let log = TextLog { files, schema, vocabularies, policy, threads, memory };
                decode::decode(&log, progress, sink).map(|decoded| decoded.bad)
            }
            DataFormat::Parquet => self.decode_parquet(vocabularies, progress, sink),
            DataFormat::Prepared | DataFormat::Synthetic => {
                Err(DataError::Format { format: self.format.name() })
            }
        }
    }

    fn decode_parquet(
        &self,
        vocabularies: &[Option<Vocabulary>],
        progress: &(dyn Fn(Progress) + Sync),
        sink: &mut dyn FnMut(&Samples) -> Result<(), DataError>,
    ) -> Result<BadLines, DataError> {
        let log = ParquetLog { files: self.files, schema: self.schema, batch_rows: PARQUET_ROWS };
        let total_bytes =
            Source::of(self.format.name(), self.files)?.files.iter().map(|file| file.bytes).sum();
        let bad = RefCell::new(BadLines::default());
        let mut rows = Samples::default();
        let (samples, bad_rows) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut refused = |row: parquet::BadRow| {
            let mut bad = bad.borrow_mut();
            bad.lines += 1;
            bad.push(|| BadLine {
                file: row.file.to_owned(),
                line: row.row,
                field: Some(row.column.into()),
                problem: row.problem,
            });
            bad_rows.store(bad.count, Ordering::Relaxed);
            self.policy.check(&bad, false)
        };
        let mut accepted = |decoded: &Samples| {
            bad.borrow_mut().lines += decoded.len() as u64;
            samples.fetch_add(decoded.len() as u64, Ordering::Relaxed);
            if vocabularies.iter().all(Option::is_none) {
                return sink(decoded);
            }
            rows.clone_from(decoded);
            for (bags, vocabulary) in rows.bags.iter_mut().zip(vocabularies) {
                if let Some(vocabulary) = vocabulary {
                    bags.ids.iter_mut().for_each(|id| *id = vocabulary.row(*id));
                }
            }
            sink(&rows)
        };
        // Rows stand for bytes: a column's bytes do not come in the order of its rows.
        let shown = |done: u64, total: u64| {
            let bytes = (total_bytes as f64 * done as f64 / total.max(1) as f64) as u64;
            let (samples, bad_lines) = (samples.load(Ordering::Relaxed), bad_rows.load(Ordering::Relaxed));
            progress(Progress { bytes, total_bytes, samples, bad_lines });
        };
        parquet::decode(&log, &mut refused, &shown, &mut accepted)?;
        let bad = bad.into_inner();
        self.policy.check(&bad, true)?;
        Ok(bad)
    }
}
