//! Rows of a log, those that hold a sample and those that do not.
//!
//! Predictions have one line for every row of a log, so that rows without a sample must be kept too. [`Reading`] says what to
//! read; readers then note every row in [`Rows`], in order, with the text of one column. A [`RowsFile`] keeps the rows on disk
//! until their samples have been scored:
//!
//! ```text
//! for each row:  state u8 (1: a sample, 2: a text follows) | length u32 and text, where there is one
//! ```

use crate::DataError;
use crate::samples::{Samples, Texts};
use crate::vocabulary::{IdTexts, Vocabulary};
use spec::schema::{LearntTransform, Schema};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Flag of a row that holds a sample.
const SAMPLE: u8 = 1;
/// Flag of a row that has a text.
const TEXT: u8 = 2;

/// What to read of a log besides the samples of its schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// Whether to ignore labels, which may be missing or invalid. Samples get the label 0. Text without a header may lack the
    /// column of the label.
    pub unlabelled: bool,
    /// Whether to note every row besides the samples.
    pub rows: bool,
    /// Column whose text is noted with every row. It need not be a column of the schema.
    pub column: Option<&'a str>,
    /// Transforms of the dense columns with their learnt values. Without them, learnt steps are left out.
    pub transforms: Option<&'a [LearntTransform]>,
    /// Whether to note the numbers of dense columns before the transform.
    pub numbers: bool,
    /// Collectors of the texts of ids, by sparse column; empty to collect none.
    pub texts: &'a [Option<IdTexts>],
}

impl<'a> Reading<'a> {
    /// Reads every row, with the text of `column`.
    pub fn with_column(column: &'a str) -> Self {
        Self { rows: true, column: Some(column), ..Self::default() }
    }

    /// Whether the texts of the ids of a sparse column are collected.
    pub(crate) fn has_texts(&self, column: usize) -> bool {
        self.texts.get(column).is_some_and(Option::is_some)
    }

    /// No samples, with the columns of `schema`, and with room for what is read besides.
    pub(crate) fn samples(&self, schema: &Schema) -> Samples {
        let mut samples = Samples::of(schema);
        for (column, bags) in samples.bags.iter_mut().enumerate() {
            bags.texts = self.has_texts(column).then(Texts::default);
        }
        samples
    }

    /// Replaces the keys of ids by their rows in the `vocabularies`, and passes their texts to the collectors.
    pub(crate) fn look_up(&self, vocabularies: &[Option<Vocabulary>], samples: &mut Samples) {
        for (column, (bags, vocabulary)) in samples.bags.iter_mut().zip(vocabularies).enumerate() {
            let Some(vocabulary) = vocabulary else { continue };
            bags.ids.iter_mut().for_each(|id| *id = vocabulary.row(*id));
            if let (Some(texts), Some(Some(collector))) = (&bags.texts, self.texts.get(column)) {
                collector.offer(bags.ids.iter().copied().zip(texts.iter()));
            }
        }
    }
}

/// Consecutive rows of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    states: Vec<u8>,
    /// End of the text of each row.
    ends: Vec<u32>,
    text: Vec<u8>,
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.states.clear();
        self.ends.clear();
        self.text.clear();
    }

    /// Appends a row: whether it holds a sample, and its text if one could be read.
    pub fn push(&mut self, is_sample: bool, text: Option<&[u8]>) {
        let state = if is_sample { SAMPLE } else { 0 } | if text.is_some() { TEXT } else { 0 };
        self.states.push(state);
        self.text.extend_from_slice(text.unwrap_or_default());
        // Rows come in chunks of a few megabytes at most.
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// Iterates over the rows: whether each holds a sample, and its text.
    pub fn iter(&self) -> impl Iterator<Item = (bool, Option<&[u8]>)> {
        let mut start = 0;
        self.states.iter().zip(&self.ends).map(move |(&state, &end)| {
            let text = self.text.get(start..end as usize).unwrap_or_default();
            start = end as usize;
            (state & SAMPLE != 0, (state & TEXT != 0).then_some(text))
        })
    }
}

/// Writer of rows to a file.
pub struct RowsFile {
    path: PathBuf,
    file: BufWriter<File>,
    rows: u64,
}

/// Reader of rows from a file.
pub struct RowsReader {
    path: PathBuf,
    file: BufReader<File>,
    text: Vec<u8>,
}

impl RowsFile {
    /// Creates the file at `path`.
    pub fn create(path: &Path) -> Result<Self, DataError> {
        let options = File::options().read(true).write(true).create_new(true).open(path);
        let file = options.map_err(|error| DataError::file(path, error))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), rows: 0 })
    }

    /// Appends rows.
    pub fn append(&mut self, rows: &Rows) -> Result<(), DataError> {
        for (is_sample, text) in rows.iter() {
            self.write(is_sample, text).map_err(|error| DataError::file(&self.path, error))?;
        }
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn write(&mut self, is_sample: bool, text: Option<&[u8]>) -> io::Result<()> {
        let state = if is_sample { SAMPLE } else { 0 } | if text.is_some() { TEXT } else { 0 };
        self.file.write_all(&[state])?;
        if let Some(text) = text {
            self.file.write_all(&(text.len() as u32).to_le_bytes())?;
            self.file.write_all(text)?;
        }
        Ok(())
    }

    /// Number of rows written so far.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Ends writing, and reads the rows from the first.
    pub fn read(self) -> Result<RowsReader, DataError> {
        let Self { path, file, .. } = self;
        let read = file.into_inner().map_err(|error| error.into_error()).and_then(|mut file| {
            file.rewind()?;
            Ok(file)
        });
        let file = read.map_err(|error| DataError::file(&path, error))?;
        Ok(RowsReader { path, file: BufReader::new(file), text: vec![] })
    }
}

/// A row of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Whether the row holds a sample.
    pub is_sample: bool,
    /// Text of the row, if one was noted.
    pub text: Option<&'a [u8]>,
}

impl RowsReader {
    /// Reads the next row; `None` after the last.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, DataError> {
        let state = self.read().map_err(|error| DataError::file(&self.path, error))?;
        Ok(state.map(|state| Row {
            is_sample: state & SAMPLE != 0,
            text: (state & TEXT != 0).then_some(self.text.as_slice()),
        }))
    }

    fn read(&mut self) -> io::Result<Option<u8>> {
        let mut state = [0];
        match self.file.read_exact(&mut state) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            outcome => outcome?,
        }
        self.text.clear();
        if state[0] & TEXT != 0 {
            let mut length = [0; 4];
            self.file.read_exact(&mut length)?;
            self.text.resize(u32::from_le_bytes(length) as usize, 0);
            self.file.read_exact(&mut self.text)?;
        }
        Ok(Some(state[0]))
    }
}

#[cfg(test)]
mod tests;
