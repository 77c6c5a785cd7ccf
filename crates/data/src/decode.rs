//! Decodes text files into samples, in the order of the log, on several threads.
//!
//! ```text
//! file → decompress → chunks of lines → parse, look up vocabularies → sink
//!        one thread                     `threads` threads             the calling thread
//! ```
//!
//! The result does not depend on the number of threads. Memory is bounded whatever the files hold: a chunk and the samples of
//! its lines take a bounded number of bytes per byte of text, and the number of chunks in memory is limited.
//!
//! ```
//! use data::{Policy, Reading, TextLog, decode};
//! use spec::schema::Schema;
//! let file = std::env::temp_dir().join(format!("campanile-doctest-{}.tsv", std::process::id()));
//! std::fs::write(&file, format!("1{}\n", "\t".repeat(39))).unwrap();
//! let (files, schema) = ([file.clone()], Schema::criteo());
//! let log = TextLog { files: &files, schema: &schema, vocabularies: &[], policy: Policy::default(), threads: 2, memory: 64 << 20, reading: Reading::default() };
//! let mut clicks = 0.0;
//! let decoded = decode(&log, &|_| (), &mut |samples| Ok(clicks += samples.labels.iter().sum::<f32>()))?;
//! assert_eq!((decoded.samples, clicks), (1, 1.0));
//! # std::fs::remove_file(file).unwrap();
//! # Ok::<(), data::DataError>(())
//! ```

mod memory;
mod pipeline;

use crate::bad_lines::{BadLines, Policy};
use crate::delimited::{LineLayout, Scratch, quotes_beside};
use crate::lines::{Chunk, Chunks};
use crate::rows::Reading;
use crate::vocabulary::Vocabulary;
use crate::{DataError, Samples, files};
use memory::Shares;
use spec::schema::Schema;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A log in text files.
#[derive(Clone, Copy, Debug)]
pub struct TextLog<'a> {
    /// Files of the log, in order.
    pub files: &'a [PathBuf],
    /// Meaning of the columns.
    pub schema: &'a Schema,
    /// Vocabulary of each sparse column that has one. If the slice is empty, samples hold the keys of such ids instead of
    /// their rows.
    pub vocabularies: &'a [Option<Vocabulary>],
    /// Rule that says how many bad lines are too many.
    pub policy: Policy,
    /// Number of threads that parse.
    pub threads: usize,
    /// Memory that reading may use, in bytes, without the vocabularies.
    pub memory: u64,
    /// What to read besides the samples.
    pub reading: Reading<'a>,
}

/// Progress of reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far, as they are on disk.
    pub bytes: u64,
    /// Size of all files, in bytes.
    pub total_bytes: u64,
    /// Number of samples so far.
    pub samples: u64,
    /// Number of bad lines so far.
    pub bad_lines: u64,
}

/// Totals of a log that was decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Number of samples.
    pub samples: u64,
    /// Lines that held no sample.
    pub bad: BadLines,
    /// Size of the decompressed text, in bytes.
    pub bytes: u64,
}

/// A chunk of lines and its samples, which the threads hand to each other.
#[derive(Default)]
struct Job {
    layout: Option<Arc<LineLayout>>,
    chunk: Chunk,
    samples: Samples,
    bad: BadLines,
}

/// Decodes `log` and passes its samples to `sink`, some at a time, in the order of the log.
pub fn decode(
    log: &TextLog,
    progress: &(dyn Fn(Progress) + Sync),
    sink: &mut dyn FnMut(&Samples) -> Result<(), DataError>,
) -> Result<Decoded, DataError> {
    log.schema.check()?;
    let columns = log.schema.sparse.len();
    if !log.vocabularies.is_empty() && log.vocabularies.len() != columns {
        let (got, expected) = (log.vocabularies.len(), columns);
        return Err(DataError::Size { what: "vocabularies of a log", got, expected });
    }
    let shares = Shares::new(log.schema, log.memory, log.threads, &log.reading)?;
    let mut total_bytes = 0;
    for file in log.files {
        total_bytes += file.metadata().map_err(|error| DataError::file(file, error))?.len();
    }
    let jobs = (0..shares.jobs).map(|_| Job { samples: log.reading.samples(log.schema), ..Job::default() });
    let consumed = Arc::new(AtomicU64::new(0));
    let mut reader = Reader {
        log,
        shares: &shares,
        files: log.files.iter(),
        open: None,
        bytes: 0,
        consumed: consumed.clone(),
    };
    let (mut samples, mut bad) = (0, BadLines::default());
    pipeline::run(
        jobs.collect(),
        log.threads.clamp(1, shares.jobs),
        |job| reader.next(job),
        Scratch::default,
        |scratch, job| parse(log, scratch, job),
        |job| {
            bad.append(&mut job.bad);
            log.policy.check(&bad, false)?;
            samples += job.samples.len() as u64;
            if !job.samples.is_empty() || !job.samples.rows.is_empty() {
                sink(&job.samples)?;
            }
            let bytes = consumed.load(Ordering::Relaxed);
            progress(Progress { bytes, total_bytes, samples, bad_lines: bad.count });
            Ok(())
        },
    )?;
    log.policy.check(&bad, true)?;
    Ok(Decoded { samples, bad, bytes: reader.bytes })
}

fn parse(log: &TextLog, scratch: &mut Scratch, job: &mut Job) {
    let Job { layout, chunk, samples, bad } = job;
    samples.clear();
    // Every job that was read has a line layout.
    let Some(layout) = layout else { return };
    layout.parse(scratch, chunk, samples, bad);
    log.reading.look_up(log.vocabularies, samples);
}

/// Cuts the files, one after the other, into chunks.
struct Reader<'a> {
    log: &'a TextLog<'a>,
    shares: &'a Shares,
    files: std::slice::Iter<'a, PathBuf>,
    open: Option<OpenFile>,
    /// Decompressed size of the files before the open one, in bytes.
    bytes: u64,
    consumed: Arc<AtomicU64>,
}

struct OpenFile {
    layout: Arc<LineLayout>,
    chunks: Chunks<Box<dyn Read + Send>>,
}

impl Reader<'_> {
    /// Fills `job` with the next chunk. Returns false if none is left.
    fn next(&mut self, job: &mut Job) -> Result<bool, DataError> {
        loop {
            if let Some(OpenFile { layout, chunks }) = &mut self.open {
                if chunks.next(&mut job.chunk)? {
                    job.layout = Some(layout.clone());
                    return Ok(true);
                }
                self.bytes += chunks.bytes();
                self.open = None;
            }
            let Some(file) = self.files.next() else { return Ok(false) };
            self.open = self.begin(file)?;
        }
    }

    /// Opens a file and finds its columns. A file without any line has no samples and needs no header.
    fn begin(&self, file: &Path) -> Result<Option<OpenFile>, DataError> {
        let contents = files::open(file, self.shares.decompressor, self.consumed.clone())?;
        let quotes = quotes_beside(self.log.schema);
        let mut chunks = Chunks::new(contents, file, self.shares.chunk).quoted(quotes);
        let mut beginning = None;
        if self.log.schema.columns.is_none() {
            beginning = chunks.header()?;
            if beginning.is_none() {
                return Ok(None);
            }
        } else if self.log.reading.unlabelled {
            beginning = Some(chunks.peek()?.to_vec());
        }
        let layout = LineLayout::reading(self.log.schema, file, beginning.as_deref(), &self.log.reading)?;
        Ok(Some(OpenFile { layout: Arc::new(layout), chunks }))
    }
}

#[cfg(test)]
mod tests;
