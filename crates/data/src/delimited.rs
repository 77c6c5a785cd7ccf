//! Delimited text with one sample per line or record: Criteo's logs, TSV and CSV.
//!
//! ```
//! use data::{Samples, bad_lines::BadLines, delimited::{LineLayout, Scratch}, lines::Chunk};
//! let layout = LineLayout::new(&spec::schema::Schema::criteo(), "day_0".as_ref(), None)?;
//! let line = format!("1\t0\t7{}68fd1e64{}\n", "\t".repeat(12), "\t".repeat(25));
//! let chunk = Chunk { bytes: format!("{line}oops\n").into(), first_line: 1, lines: 2, too_long: false };
//! let (mut samples, mut bad) = (Samples::new(26), BadLines::default());
//! layout.parse(&mut Scratch::default(), &chunk, &mut samples, &mut bad);
//! assert_eq!(samples.labels, [1.0]);
//! assert_eq!(samples.dense[1], 8f32.ln());
//! assert_eq!(samples.bags[0].ids, [data::id::key(b"68fd1e64")]);
//! assert_eq!(bad.first[0].to_string(), "day_0, line 2: expected 40 fields, got 1");
//! # Ok::<(), data::DataError>(())
//! ```
//!
//! Quotes follow RFC 4180: a quoted field may hold delimiters and line ends. In tab-separated text without a header, such as
//! Criteo's, quotes have no meaning ([`quotes_beside`]).

mod column;
mod fault;
mod fields;

use crate::bad_lines::{BadLine, BadLines};
use crate::lines::{Chunk, Record};
use crate::number::{Input, Numbers};
use crate::rows::Reading;
use crate::{DataError, Samples};
use column::{Dense, Label, Missing, Sparse, Weight};
use fault::{Fault, Problem};
pub(crate) use fields::Fields;
pub use fields::Scratch;
use spec::schema::Schema;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Largest number of columns in a header.
const MAX_COLUMNS: usize = 1 << 17;

/// Delimiter of text with this schema if fields may be quoted; `None` if quotes have no meaning in it.
pub fn quotes_beside(schema: &Schema) -> Option<u8> {
    let plain = schema.delimiter == '\t' && schema.columns.is_some();
    (!plain).then_some(schema.delimiter as u8)
}

/// Positions of the schema's columns in the lines of one file.
#[derive(Debug)]
pub struct LineLayout {
    file: PathBuf,
    delimiter: u8,
    quotes: bool,
    /// Number of fields of a line.
    fields: usize,
    /// Fields that are read, and their names.
    names: Vec<(usize, String)>,
    missing: Missing,
    numbers: Numbers,
    /// Columns of the labels; none if labels are ignored.
    labels: Vec<Label>,
    /// Number of labels of a sample.
    label_count: usize,
    /// Whether samples have weights.
    weighted: bool,
    /// Column of sample weights; `None` if there are none, or if labels and weights are ignored.
    weight: Option<Weight>,
    /// Fields that are kept besides the inputs, in the order of the schema; `None` if the file lacks one and labels are
    /// ignored.
    kept: Vec<Option<usize>>,
    dense: Vec<Dense>,
    sparse: Vec<Sparse>,
    /// Whether numbers are noted before the transform.
    raw_numbers: bool,
    /// Whether every row is noted besides the samples.
    rows: bool,
    /// Field whose text is noted with every row.
    noted: Option<usize>,
}

impl LineLayout {
    /// Finds the columns of `schema` in `file`, whose first line is `header` if the schema does not name the columns.
    pub fn new(schema: &Schema, file: &Path, header: Option<&[u8]>) -> Result<Self, DataError> {
        Self::reading(schema, file, header, &Reading::default())
    }

    /// Finds the columns of `schema`, and what `reading` asks for, in `file`. If labels are ignored and the schema names the
    /// columns, the lines of `beginning`, the beginning of the file, tell whether they have the column of the label.
    pub fn reading(
        schema: &Schema,
        file: &Path,
        beginning: Option<&[u8]>,
        reading: &Reading,
    ) -> Result<Self, DataError> {
        schema.check()?;
        let delimiter = schema.delimiter as u8;
        let quotes = quotes_beside(schema).is_some();
        let columns = match (&schema.columns, beginning) {
            (Some(columns), Some(lines)) if reading.unlabelled => {
                let labels = schema.label_count();
                let is_label = |name: &String| schema.all_labels().any(|label| label.column == *name);
                let without = columns.iter().filter(|column| !is_label(column));
                match lacks_fields(lines, delimiter, quotes, columns.len(), labels) {
                    true => without.cloned().collect(),
                    false => columns.clone(),
                }
            }
            (Some(columns), _) => columns.clone(),
            (None, Some(header)) => header_names(header, delimiter, file)?,
            (None, None) => {
                return Err(DataError::file(file, "empty, so without a line that names the columns"));
            }
        };
        // Position of each column; none if two columns have its name.
        let mut places: HashMap<&str, Option<usize>> = HashMap::with_capacity(columns.len());
        for (at, name) in columns.iter().enumerate() {
            places.entry(name).and_modify(|place| *place = None).or_insert(Some(at));
        }
        let mut names = vec![];
        let mut find = |name: &str| match places.get(name) {
            Some(&Some(at)) => {
                names.push((at, name.to_owned()));
                Ok(at)
            }
            Some(None) => Err(DataError::file(file, format!("the header names column `{name}` twice"))),
            None => {
                let (file, column) = (file.to_owned(), name.to_owned());
                Err(DataError::NoColumn { file, column, columns: columns.clone() })
            }
        };
        let (mut labels, mut weight) = (vec![], None);
        if !reading.unlabelled {
            for rule in schema.all_labels() {
                labels.push(Label::new(&rule, find(rule.column)?));
            }
            weight = schema.weight.as_deref().map(&mut find).transpose()?.map(Weight::new);
        }
        let mut kept = vec![];
        for column in &schema.keep {
            kept.push(match find(column) {
                Err(DataError::NoColumn { .. }) if reading.unlabelled => None,
                found => Some(found?),
            });
        }
        let inputs = Input::of(schema, reading.transforms);
        let dense = schema.dense.iter().zip(inputs);
        let dense = dense.map(|(column, input)| Ok::<_, DataError>(Dense::new(input, find(&column.column)?)));
        let dense = dense.collect::<Result<_, _>>()?;
        let sparse = schema.sparse.iter().map(|column| {
            let weights = column.weights.as_deref().map(&mut find).transpose()?;
            Ok::<_, DataError>(Sparse::new(column, find(&column.column)?, weights))
        });
        let sparse = sparse.collect::<Result<_, _>>()?;
        let noted = reading.column.map(&mut find).transpose()?;
        Ok(Self {
            file: file.to_owned(),
            delimiter,
            quotes,
            fields: columns.len(),
            names,
            missing: Missing(schema.missing.iter().map(|text| text.as_bytes().to_vec()).collect()),
            numbers: Numbers::new(),
            labels,
            label_count: schema.label_count(),
            weighted: schema.weight.is_some(),
            weight,
            kept,
            dense,
            sparse,
            raw_numbers: reading.numbers,
            rows: reading.rows,
            noted,
        })
    }

    /// Appends the samples of `chunk` to `samples`, and the lines that hold none to `bad`. Reserves memory for no more samples
    /// than the chunk can hold, so that `samples` is best cleared from chunk to chunk.
    ///
    /// # Panics
    /// If `samples` was made for another number of sparse columns, labels or kept columns.
    pub fn parse(&self, scratch: &mut Scratch, chunk: &Chunk, samples: &mut Samples, bad: &mut BadLines) {
        let columns = (samples.bags.len(), samples.label_count(), samples.kept.len());
        assert_eq!(
            columns,
            (self.sparse.len(), self.label_count, self.kept.len()),
            "samples of other columns"
        );
        if chunk.too_long {
            bad.lines += 1;
            bad.push(|| self.describe(chunk.first_line, Problem::TooLong.of_line()));
            if self.rows {
                samples.rows.push(false, None);
            }
            return;
        }
        self.reserve(chunk, samples);
        if self.quotes && memchr::memchr(b'"', &chunk.bytes).is_some() {
            for record in chunk.records(self.delimiter) {
                self.parse_line(scratch, record, true, samples, bad);
            }
            return;
        }
        for (text, line) in chunk.lines().zip(chunk.first_line..) {
            let record = Record { text, first_line: line, last_line: line };
            self.parse_line(scratch, record, false, samples, bad);
        }
    }

    #[inline]
    fn parse_line(
        &self,
        scratch: &mut Scratch,
        record: Record,
        quotes: bool,
        samples: &mut Samples,
        bad: &mut BadLines,
    ) {
        bad.lines += 1;
        let cut = Fields::cut(record.text, self.delimiter, quotes, Some(self.fields), scratch);
        let outcome = cut.and_then(|fields| self.sample(fields, samples));
        if self.rows {
            let noted = self.noted.zip(cut.ok()).map(|(at, fields)| fields.get(at));
            samples.rows.push(outcome.is_ok(), noted);
        }
        if let Err(fault) = outcome {
            // A record with a quoted field that does not end ends with the line on which that field begins.
            let line = if fault.problem.is_of_quotes() { record.last_line } else { record.first_line };
            bad.push(|| self.describe(line, fault));
        }
    }

    /// Calls `visit` with the sparse column and the text of every id in `chunk`. Lines that cannot be cut into fields are
    /// skipped.
    pub fn texts(&self, scratch: &mut Scratch, chunk: &Chunk, visit: &mut dyn FnMut(usize, &[u8])) {
        let mut show = |text: &[u8], quotes| {
            if let Ok(fields) = Fields::cut(text, self.delimiter, quotes, Some(self.fields), scratch) {
                for (at, column) in self.sparse.iter().enumerate() {
                    column.texts(fields, &self.missing).for_each(|text| visit(at, text));
                }
            }
        };
        if self.quotes && memchr::memchr(b'"', &chunk.bytes).is_some() {
            chunk.records(self.delimiter).for_each(|record| show(record.text, true));
        } else {
            chunk.lines().for_each(|line| show(line, false));
        }
    }

    /// Appends one sample, or nothing if the line is bad.
    #[inline]
    fn sample<'a>(&self, fields: Fields<'a>, samples: &mut Samples) -> Result<(), Fault<'a>> {
        let (labels, weights) = (samples.labels.len(), samples.weights.len());
        let outcome = self.labelled(fields, samples);
        if outcome.is_err() {
            samples.labels.truncate(labels);
            samples.weights.truncate(weights);
        }
        outcome
    }

    /// Appends one sample. If the line is bad, labels and the weight of it may remain.
    #[inline]
    fn labelled<'a>(&self, fields: Fields<'a>, samples: &mut Samples) -> Result<(), Fault<'a>> {
        match self.labels.is_empty() {
            true => samples.labels.resize(samples.labels.len() + self.label_count, 0.0),
            false => {
                for label in &self.labels {
                    samples.labels.push(label.read(fields, &self.missing)?);
                }
            }
        }
        if self.weighted {
            let weight = self.weight.as_ref().map_or(Ok(1.0), |weight| weight.read(fields, &self.missing))?;
            samples.weights.push(weight);
        }
        self.inputs(fields, samples)?;
        for (&field, kept) in self.kept.iter().zip(&mut samples.kept) {
            let text = field.map_or(&b""[..], |field| fields.get(field));
            kept.push(if self.missing.is(text) { b"" } else { text });
        }
        Ok(())
    }

    /// Appends the inputs of one sample, or nothing if the line is bad.
    #[inline]
    fn inputs<'a>(&self, fields: Fields<'a>, samples: &mut Samples) -> Result<(), Fault<'a>> {
        let (dense, numbers) = (samples.dense.len(), samples.numbers.len());
        for column in &self.dense {
            match column.read(fields, &self.missing, &self.numbers) {
                Ok(value) => samples.dense.push(value),
                Err(fault) => {
                    samples.dense.truncate(dense);
                    return Err(fault);
                }
            }
        }
        if self.raw_numbers {
            samples.numbers.extend(self.dense.iter().map(|column| column.number(fields, &self.missing)));
        }
        for (at, column) in self.sparse.iter().enumerate() {
            if let Err(fault) = column.read(fields, &self.missing, &mut samples.bags[at]) {
                for (column, bags) in self.sparse[..at].iter().zip(&mut samples.bags) {
                    column.undo(bags);
                }
                samples.dense.truncate(dense);
                samples.numbers.truncate(numbers);
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Reserves memory for the samples of `chunk`. A sample has at least one byte per field, so lines that are too short do not
    /// count.
    fn reserve(&self, chunk: &Chunk, samples: &mut Samples) {
        let most = (chunk.lines as usize).min((chunk.bytes.len() + 1) / self.fields.max(1));
        samples.labels.reserve_exact(most * self.label_count);
        samples.weights.reserve_exact(if self.weighted { most } else { 0 });
        samples.kept.iter_mut().for_each(|kept| kept.keys.reserve_exact(most));
        samples.dense.reserve_exact(most * self.dense.len());
        samples.numbers.reserve_exact(if self.raw_numbers { most * self.dense.len() } else { 0 });
        for (column, bags) in self.sparse.iter().zip(&mut samples.bags) {
            column.reserve(most, bags);
        }
    }

    fn describe(&self, line: u64, fault: Fault) -> BadLine {
        let name = |&field: &usize| self.names.iter().find(|(at, _)| *at == field);
        let field = fault.field.as_ref().and_then(name).map(|(_, name)| name.clone());
        BadLine { file: self.file.clone(), line, field, problem: fault.problem.to_string() }
    }
}

/// Number of lines of a file that are examined to see whether a field is missing.
const LOOKED_AT: usize = 1000;

/// Whether more of the first lines have `fewer` fields less than `expected` than have exactly `expected` fields.
fn lacks_fields(beginning: &[u8], delimiter: u8, quotes: bool, expected: usize, fewer: usize) -> bool {
    let chunk = Chunk { bytes: beginning.to_vec(), ..Chunk::default() };
    let mut scratch = Scratch::default();
    let (mut whole, mut shorter) = (0, 0);
    let mut look = |text: &[u8]| match Fields::cut(text, delimiter, quotes, None, &mut scratch) {
        Ok(fields) if fields.len() == expected => whole += 1,
        Ok(fields) if fields.len() + fewer == expected => shorter += 1,
        _ => {}
    };
    match quotes {
        true => chunk.records(delimiter).take(LOOKED_AT).for_each(|record| look(record.text)),
        false => chunk.lines().take(LOOKED_AT).for_each(look),
    }
    shorter > whole
}

/// Column names in a header line.
fn header_names(header: &[u8], delimiter: u8, file: &Path) -> Result<Vec<String>, DataError> {
    let count = memchr::memchr_iter(delimiter, header).count() + 1;
    if count > MAX_COLUMNS {
        return Err(DataError::file(
            file,
            format!("the header has {count} columns, more than {MAX_COLUMNS}"),
        ));
    }
    let mut scratch = Scratch::default();
    let fields = Fields::cut(header, delimiter, true, None, &mut scratch)
        .map_err(|fault| DataError::file(file, format!("the header: {}", fault.problem)))?;
    Ok((0..fields.len()).map(|at| String::from_utf8_lossy(fields.get(at)).into_owned()).collect())
}

#[cfg(test)]
mod tests;
