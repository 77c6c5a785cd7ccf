//! Prepares a raw log, in bounded memory.
//!
//! Preparing takes one pass, or two: the ids of columns with a vocabulary, and the numbers of columns with a learnt transform,
//! are counted first. A log that is split may need one more pass before, to find which of its rows are the last.

mod learn;
mod learnt;
mod split;
mod times;

pub use learnt::{
    Learnt, LearntDifference, TRANSFORMS, copy_texts, is_text_of, load_vocabularies, texts_file,
    transforms_text, vocabularies, vocabulary_file,
};
pub use split::{Parts, RowDivision, part_of, prepare_split};

use crate::bad_lines::{BadLine, BadLines, Policy};
use crate::decode::{self, Progress, TextLog};
use crate::parquet::{self, ParquetLog};
use crate::prepared::{About, LogSource, Manifest, Writer, WriterOptions};
use crate::rows::{Reading, RowsFile};
use crate::table::{self, Table};
use crate::vocabulary::{IdTexts, Vocabulary};
use crate::{DataError, Samples};
use spec::run::DataFormat;
use spec::schema::Schema;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of rows of a Parquet log in memory at once.
const PARQUET_ROWS: usize = 4096;

/// A raw log: files in the format in which they were written.
#[derive(Clone, Debug)]
pub struct RawLog<'a> {
    /// Format of the files.
    pub format: DataFormat,
    /// Files of the log, in order; none of a table.
    pub files: &'a [PathBuf],
    /// The log itself, where it is in memory: then there are no files, and the format is that of Parquet, whose types tables have.
    pub table: Option<&'a Table>,
    /// Meaning of the columns.
    pub schema: &'a Schema,
    /// Rule that says how many bad lines are too many.
    pub policy: Policy,
    /// Number of threads that parse.
    pub threads: usize,
    /// Memory that reading may use, in bytes.
    pub memory: u64,
    /// Once set, reading ends with [`DataError::Stopped`].
    pub stop: Option<&'a AtomicBool>,
    /// What to read besides the samples.
    pub reading: Reading<'a>,
}

/// Receiver of rows that hold no sample.
type Refuse<'a> = dyn FnMut(parquet::BadRow) -> Result<(), DataError> + 'a;
/// Receiver of samples.
type Accept<'a> = dyn FnMut(&Samples) -> Result<(), DataError> + 'a;
/// Receiver of the number of rows done, and of all.
type RowProgress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// Progress of preparing a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrepareProgress {
    /// Whether ids or rows are being counted; otherwise samples are being written.
    pub counting: bool,
    /// Progress of the current pass.
    pub progress: Progress,
}

/// Refuses a folder that holds a file of the log, because preparing removes files of an earlier preparation by name.
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

/// Prepares `log` into `folder`. Uses what was learnt for another log if `like` is given (the log that a model was trained on),
/// and learns it from the log itself otherwise.
pub fn prepare(
    log: &RawLog,
    folder: &Path,
    like: Option<&Learnt>,
    progress: &(dyn Fn(PrepareProgress) + Sync),
) -> Result<Manifest, DataError> {
    prepare_with_rows(log, folder, like, None, progress)
}

/// Prepares `log` into `folder` as [`prepare`] does, and writes the rows that `log.reading` asks for to `rows`.
pub fn prepare_with_rows(
    log: &RawLog,
    folder: &Path,
    like: Option<&Learnt>,
    mut rows_file: Option<&mut RowsFile>,
    progress: &(dyn Fn(PrepareProgress) + Sync),
) -> Result<Manifest, DataError> {
    log.schema.check().map_err(|e| DataError::file(folder, format!("the schema cannot be used: {e}")))?;
    let source = LogSource::of(log.format.name(), log.files)?;
    std::fs::create_dir_all(folder)
        .map_err(|e| DataError::file(folder, format!("cannot be created: {e}")))?;
    refuse_inputs_in(folder, log.files)?;
    let own;
    let (learnt, counts) = match like {
        Some(learnt) => (learnt, None),
        None => {
            let counting =
                |progress_now| progress(PrepareProgress { counting: true, progress: progress_now });
            own = learn::learn(log, folder, None, &counting)?;
            (&own.learnt, Some(own.counts.as_slice()))
        }
    };
    learnt.check(log.schema)?;
    let mut writer =
        Writer::create(folder, log.schema, &learnt.rows_of_tables(log.schema), WriterOptions::default())?;
    let texts = counts.map_or(Ok(vec![]), |_| learnt.collectors(folder))?;
    let bad = learnt.reading(log, &texts).decode(
        &learnt.vocabularies,
        &|progress_now| progress(PrepareProgress { counting: false, progress: progress_now }),
        &mut |samples| {
            if let Some(file) = &mut rows_file {
                file.append(&samples.rows)?;
            }
            writer.append(samples)
        },
    )?;
    let vocabularies = learnt.save_vocabularies(log.schema, folder)?;
    save_texts(texts, counts.unwrap_or_default(), folder)?;
    let transforms = learnt.transforms.clone();
    writer.finish(About { source, bad_lines: bad_lines_of(&bad), vocabularies, transforms })
}

/// Writes the texts of ids into `folder`, with the counts of each column's rows.
fn save_texts(texts: Vec<Option<IdTexts>>, counts: &[Vec<u64>], folder: &Path) -> Result<(), DataError> {
    for (column, (texts, counts)) in texts.into_iter().zip(counts).enumerate() {
        if let Some(texts) = texts {
            texts.write(counts, &folder.join(texts_file(column)))?;
        }
    }
    Ok(())
}

/// Summary of bad lines for a manifest.
fn bad_lines_of(bad: &BadLines) -> crate::prepared::BadLineSummary {
    let lines = bad.first.iter().map(ToString::to_string).collect();
    crate::prepared::BadLineSummary { count: bad.count, lines }
}

impl RawLog<'_> {
    /// Reads the whole log, whatever its format, and passes its samples to `sink`. `vocabularies` map ids to rows; without them,
    /// samples hold the keys of ids.
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
        if let Some(table) = self.table {
            return self.decode_rows(vocabularies, progress, sink, |bad, shown, accepted| {
                table::decode(table, self.schema, &self.reading, bad, shown, accepted)
            });
        }
        match self.format {
            DataFormat::CriteoTsv | DataFormat::Csv => {
                let Self { files, schema, policy, threads, memory, reading, .. } = *self;
                let log = TextLog { files, schema, vocabularies, policy, threads, memory, reading };
                decode::decode(&log, progress, sink).map(|decoded| decoded.bad)
            }
            DataFormat::Parquet => {
                let Self { files, schema, reading, .. } = *self;
                let log = ParquetLog { files, schema, batch_rows: PARQUET_ROWS, reading };
                self.decode_rows(vocabularies, progress, sink, |bad, shown, accepted| {
                    parquet::decode(&log, bad, shown, accepted)
                })
            }
            DataFormat::Prepared | DataFormat::Synthetic => {
                Err(DataError::Format { format: self.format.name() })
            }
        }
    }

    /// Reads a log that is stored by columns, by `decode`: it counts bad rows, and looks ids up in the vocabularies.
    fn decode_rows(
        &self,
        vocabularies: &[Option<Vocabulary>],
        progress: &(dyn Fn(Progress) + Sync),
        sink: &mut dyn FnMut(&Samples) -> Result<(), DataError>,
        decode: impl FnOnce(&mut Refuse, &RowProgress, &mut Accept) -> Result<u64, DataError>,
    ) -> Result<BadLines, DataError> {
        let reading = self.reading;
        let total_bytes =
            LogSource::of(self.format.name(), self.files)?.files.iter().map(|file| file.bytes).sum();
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
            reading.look_up(vocabularies, &mut rows);
            sink(&rows)
        };
        // Progress counts rows instead of bytes: the bytes of a column are not in the order of its rows.
        let shown = |done: u64, total: u64| {
            let bytes = (total_bytes as f64 * done as f64 / total.max(1) as f64) as u64;
            let (samples, bad_lines) = (samples.load(Ordering::Relaxed), bad_rows.load(Ordering::Relaxed));
            progress(Progress { bytes, total_bytes, samples, bad_lines });
        };
        decode(&mut refused, &shown, &mut accepted)?;
        let bad = bad.into_inner();
        self.policy.check(&bad, true)?;
        Ok(bad)
    }
}
