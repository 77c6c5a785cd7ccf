//! Counts the ids of a column in bounded memory.
//!
//! Keys are collected in a buffer. When it is full it is sorted, equal keys become one pair with their count, and the
//! pairs go to a temporary file as a run. In the end all runs are merged, and only the keys that are kept are in memory.

use super::runs::{Each, Runs};
use super::{Vocabulary, VocabularyError};
use crate::{DataError, id};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

/// Largest number of runs that are merged at once: with more, their read buffers become small.
const MOST_RUNS: usize = 256;

/// Initial capacity of the buffer, in keys.
const FIRST_BUFFER: usize = 1024;

/// Memory for an id that is kept, in bytes: a pair in a vector that doubles, then a key and slots in the vocabulary.
const BYTES_PER_ID: u64 = 64;

/// Smallest read buffer of a run in bytes, if there is enough memory.
const SMALLEST_BUFFER: u64 = 4096;

/// Counter of the ids of one column.
#[derive(Debug)]
pub struct Counter {
    column: String,
    folder: PathBuf,
    memory: u64,
    keys: Vec<u64>,
    runs: Option<Runs>,
}

impl Counter {
    /// Counter of the ids of `column`, with at most `memory` bytes in memory and the rest in a temporary file in `folder`.
    pub fn new(column: &str, folder: &Path, memory: u64) -> Self {
        Self { column: column.into(), folder: folder.into(), memory, keys: vec![], runs: None }
    }

    /// Counts ids.
    pub fn add(&mut self, mut keys: &[u64]) -> Result<(), DataError> {
        // The buffer gets a quarter of the memory. The rest is for the ids that are kept, and for the buffer while it grows.
        let most = usize::try_from(self.memory / 4 / 8).unwrap_or(usize::MAX).max(1);
        while !keys.is_empty() {
            let room = most - self.keys.len();
            if self.keys.len() == self.keys.capacity() {
                self.keys.reserve_exact(self.keys.len().max(FIRST_BUFFER).min(room));
            }
            let (now, later) =
                keys.split_at(keys.len().min(self.keys.capacity() - self.keys.len()).min(room));
            self.keys.extend_from_slice(now);
            keys = later;
            if self.keys.len() == most {
                self.spill()?;
            }
        }
        Ok(())
    }

    /// Makes the vocabulary of the ids that were counted at least `min_count` times, the most frequent first, at most as many as
    /// fit into a table of `rows` rows.
    pub fn finish(self, min_count: u64, rows: Option<usize>) -> Result<Vocabulary, DataError> {
        self.finish_counted(min_count, rows).map(|(vocabulary, _)| vocabulary)
    }

    /// Makes a vocabulary as [`finish`](Self::finish) does, and returns the counts of rows 1, 2, and so on with it.
    pub fn finish_counted(
        mut self,
        min_count: u64,
        rows: Option<usize>,
    ) -> Result<(Vocabulary, Vec<u64>), DataError> {
        let mut kept = Kept {
            column: self.column.clone(),
            memory: self.memory,
            min_count,
            room: rows.map(|rows| rows.saturating_sub(1)),
            pairs: vec![],
        };
        self.sort()?;
        self.visit(&mut |key, count| kept.offer(key, count))?;
        drop(self);
        let column = kept.column.clone();
        let refuse = |error: VocabularyError| DataError::Vocabulary { column, problem: error.to_string() };
        let (keys, counts) = kept.rows();
        Ok((Vocabulary::new(keys).map_err(refuse)?, counts))
    }

    /// Sorts what was counted, so that it can be visited.
    pub(crate) fn sort(&mut self) -> Result<(), DataError> {
        match self.runs {
            Some(_) => self.spill(),
            None => {
                self.keys.sort_unstable();
                Ok(())
            }
        }
    }

    /// Calls `each` with every key and its count, keys ascending. [`sort`](Self::sort) must come before.
    pub(crate) fn visit(&self, each: &mut Each) -> Result<(), DataError> {
        match &self.runs {
            Some(runs) => runs.merge(self.memory / 4, each),
            None => pairs(&self.keys).try_for_each(|(key, count)| each(key, count)),
        }
    }

    fn spill(&mut self) -> Result<(), DataError> {
        self.keys.sort_unstable();
        let mut runs = match self.runs.take() {
            Some(runs) => runs,
            None => Runs::new(&self.folder)?,
        };
        let most = (self.memory / 4 / SMALLEST_BUFFER).clamp(2, MOST_RUNS as u64);
        if runs.len() as u64 >= most {
            runs = runs.merged(self.memory / 4)?;
        }
        runs.push(|each| pairs(&self.keys).try_for_each(|(key, count)| each(key, count)))?;
        self.runs = Some(runs);
        self.keys.clear();
        Ok(())
    }
}

/// Each distinct key of the sorted `keys`, with its count.
fn pairs(keys: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    keys.chunk_by(|a, b| a == b).filter_map(|equal| Some((*equal.first()?, equal.len() as u64)))
}

/// Ids that get rows of their own.
struct Kept {
    column: String,
    memory: u64,
    min_count: u64,
    room: Option<usize>,
    /// Pairs of count and key, which sort in the order of rows.
    pairs: Vec<(Reverse<u64>, u64)>,
}

impl Kept {
    fn offer(&mut self, key: u64, count: u64) -> Result<(), DataError> {
        if count < self.min_count || key == id::MISSING {
            return Ok(());
        }
        if let Some(room) = self.room
            && self.pairs.len() >= room.saturating_mul(2).max(64)
        {
            self.shrink(room);
        }
        self.pairs.push((Reverse(count), key));
        let most = self.memory / BYTES_PER_ID;
        let needed = self.room.map_or(self.pairs.len(), |room| room.min(self.pairs.len())) as u64;
        if needed > most {
            return Err(DataError::VocabularySize { column: self.column.clone(), most, memory: self.memory });
        }
        Ok(())
    }

    /// Removes all but the `room` most frequent ids.
    fn shrink(&mut self, room: usize) {
        if room < self.pairs.len() {
            self.pairs.select_nth_unstable(room);
            self.pairs.truncate(room);
        }
    }

    /// Keys and counts in the order of rows.
    fn rows(mut self) -> (Vec<u64>, Vec<u64>) {
        if let Some(room) = self.room {
            self.shrink(room);
        }
        self.pairs.sort_unstable();
        self.pairs.into_iter().map(|(Reverse(count), key)| (key, count)).unzip()
    }
}
