//! Sorted runs of keys and counts, in a temporary file.
//!
//! A run is what was in memory when the limit was reached: (key, count) pairs with keys ascending, 16 bytes each. All
//! runs of a column lie in one file, one after the other. Merging them gives every key once, with the sum of its counts.

use crate::DataError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Length of a pair, in bytes.
const PAIR: u64 = 16;

/// Callback that receives every key and its count.
pub type Each<'a> = dyn FnMut(u64, u64) -> Result<(), DataError> + 'a;

/// Runs in one unnamed temporary file, which disappears with the process.
#[derive(Debug)]
pub struct Runs {
    folder: PathBuf,
    file: File,
    /// End of each run in the file. The first run starts at 0.
    ends: Vec<u64>,
}

impl Runs {
    /// No runs, in a new temporary file in `folder`.
    pub fn new(folder: &Path) -> Result<Self, DataError> {
        let file = tempfile::tempfile_in(folder).map_err(|error| DataError::file(folder, error))?;
        Ok(Self { folder: folder.to_owned(), file, ends: vec![] })
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends a run of the pairs that `fill` passes to its argument, with keys ascending.
    pub fn push(&mut self, fill: impl FnOnce(&mut Each) -> Result<(), DataError>) -> Result<(), DataError> {
        let refuse = |error: io::Error| DataError::file(&self.folder, error);
        let mut end = self.ends.last().copied().unwrap_or(0);
        let mut writer = BufWriter::with_capacity(64 << 10, &self.file);
        writer.seek(SeekFrom::Start(end)).map_err(refuse)?;
        fill(&mut |key, count| {
            end += PAIR;
            let pair = u128::from(count) << 64 | u128::from(key);
            writer.write_all(&pair.to_le_bytes()).map_err(refuse)
        })?;
        writer.flush().map_err(refuse)?;
        drop(writer);
        self.ends.push(end);
        Ok(())
    }

    /// Calls `each` with every key and its total count, keys ascending. Buffers take `memory` bytes.
    pub fn merge(&self, memory: u64, each: &mut Each) -> Result<(), DataError> {
        let refuse = |error: io::Error| DataError::file(&self.folder, error);
        let room = (memory / self.ends.len().max(1) as u64 / PAIR).max(1) * PAIR;
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let mut runs: Vec<Run> =
            starts.zip(&self.ends).map(|(next, &end)| Run { next, end, buffer: vec![], at: 0 }).collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (r, run) in runs.iter_mut().enumerate() {
            heads.extend(
                run.pair(&self.file, room).map_err(refuse)?.map(|(key, count)| Reverse((key, count, r))),
            );
        }
        let mut sum: Option<(u64, u64)> = None;
        while let Some(Reverse((key, count, r))) = heads.pop() {
            sum = match sum {
                Some((same, before)) if same == key => Some((key, before.saturating_add(count))),
                Some((done, total)) => {
                    each(done, total)?;
                    Some((key, count))
                }
                None => Some((key, count)),
            };
            let next = runs[r].pair(&self.file, room).map_err(refuse)?;
            heads.extend(next.map(|(key, count)| Reverse((key, count, r))));
        }
        sum.map_or(Ok(()), |(key, count)| each(key, count))
    }

    /// Merges all runs into a single run.
    pub fn merged(self, memory: u64) -> Result<Self, DataError> {
        let mut merged = Self::new(&self.folder)?;
        merged.push(|each| self.merge(memory, each))?;
        Ok(merged)
    }
}

/// Rest of a run that is being read.
struct Run {
    /// Offset in the file after the buffer.
    next: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Offset of the next pair in the buffer.
    at: usize,
}

impl Run {
    /// Reads the next pair. All runs read from the same file, `room` bytes at a time.
    fn pair(&mut self, mut file: &File, room: u64) -> io::Result<Option<(u64, u64)>> {
        if self.at == self.buffer.len() {
            let length = room.min(self.end - self.next);
            self.buffer.resize(length as usize, 0);
            file.seek(SeekFrom::Start(self.next))?;
            file.read_exact(&mut self.buffer)?;
            self.next += length;
            self.at = 0;
        }
        let Some((&pair, _)) = self.buffer[self.at..].split_first_chunk::<{ PAIR as usize }>() else {
            return Ok(None);
        };
        self.at += PAIR as usize;
        let pair = u128::from_le_bytes(pair);
        Ok(Some((pair as u64, (pair >> 64) as u64)))
    }
}
