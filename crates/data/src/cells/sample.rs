//! Converts the cells of a row to a sample.

use super::{Cell, CellColumn, Roles};
use crate::bad_lines::excerpt;
use crate::number::{self, Input, MISSING_KEY, ordered_key};
use crate::{Bags, Samples, id};
use spec::schema::{IdRule, LabelRule, Schema, SparseColumn};

/// Reason why a row holds no sample.
#[derive(Debug)]
pub(crate) struct Fault<'a> {
    pub column: &'a str,
    pub problem: String,
}

/// Rules for the numbers of dense columns.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    /// Rule of each dense column.
    pub inputs: &'a [Input],
    /// Whether numbers are noted before the transform.
    pub noted: bool,
}

impl<C: CellColumn> Roles<C> {
    /// Appends a row among those read last to `samples`, or nothing if the row is bad.
    pub fn append<'a>(
        &self,
        row: usize,
        schema: &'a Schema,
        numbers: Numbers,
        samples: &mut Samples,
    ) -> Result<(), Fault<'a>> {
        let before: usize = samples.len();
        let appended = self.try_append(row, schema, numbers, samples);
        if appended.is_err() {
            samples.labels.truncate(before * samples.label_count());
            samples.weights.truncate(before);
            samples.dense.truncate(before * schema.dense.len());
            samples.numbers.truncate(if numbers.noted { before * schema.dense.len() } else { 0 });
            for (bags, sparse) in samples.bags.iter_mut().zip(&schema.sparse) {
                let ids = match sparse.many() {
                    true => bags.lengths.iter().take(before).map(|&length| length as usize).sum(),
                    false => before,
                };
                bags.lengths.truncate(before);
                bags.ids.truncate(ids);
                bags.weights.truncate(ids);
                bags.texts.iter_mut().for_each(|texts| texts.truncate(ids));
            }
        }
        appended
    }

    /// Notes a row among those read last, whether it holds a sample or not, with the text of the requested column.
    pub fn note(&self, row: usize, is_sample: bool, samples: &mut Samples) {
        let cell = self.noted.as_ref().and_then(|column| column.cells(row).next()).unwrap_or(Cell::Null);
        cell.with_text(|text| samples.rows.push(is_sample, text));
    }

    /// Appends a row. If the row is bad, parts of it remain in `samples`.
    fn try_append<'a>(
        &self,
        row: usize,
        schema: &'a Schema,
        numbers: Numbers,
        samples: &mut Samples,
    ) -> Result<(), Fault<'a>> {
        if self.labels.is_empty() {
            samples.labels.resize(samples.labels.len() + schema.label_count(), 0.0);
        }
        for (column, rule) in self.labels.iter().zip(schema.all_labels()) {
            let cell = column.cells(row).next().unwrap_or(Cell::Null);
            samples.labels.push(label(cell, &rule, &schema.missing).map_err(Fault::of(rule.column))?);
        }
        if let Some(name) = &schema.weight {
            let cell = self.weight.as_ref().map(|column| column.cells(row).next().unwrap_or(Cell::Null));
            let weight = cell.map_or(Ok(1.0), |cell| sample_weight(cell, &schema.missing));
            samples.weights.push(weight.map_err(Fault::of(name))?);
        }
        for ((column, spec), input) in self.dense.iter().zip(&schema.dense).zip(numbers.inputs) {
            let cell = column.cells(row).next().unwrap_or(Cell::Null);
            samples.dense.push(dense(cell, input, &schema.missing).map_err(Fault::of(&spec.column))?);
            if numbers.noted {
                samples.numbers.push(number(cell, &schema.missing).unwrap_or(f64::NAN));
            }
        }
        let columns = self.sparse.iter().zip(&self.weights).zip(&schema.sparse);
        for (((ids, weights), spec), bags) in columns.zip(&mut samples.bags) {
            let before = bags.ids.len();
            for cell in ids.cells(row) {
                push_ids(cell, spec, &schema.missing, bags).map_err(Fault::of(&spec.column))?;
            }
            let count = bags.ids.len() - before;
            if spec.many() {
                let length = u32::try_from(count)
                    .map_err(|_| format!("{count} ids in one row are too many; use fewer than 2³²"));
                bags.lengths.push(length.map_err(Fault::of(&spec.column))?);
            }
            if let (Some(column), Some(name)) = (weights, &spec.weights) {
                let none = |column: &C| column.cells(row).all(|cell| cell == Cell::Null);
                if !spec.many() && none(ids) && none(column) {
                    // A cell without an id and without a weight is a missing id.
                    bags.weights.push(1.0);
                    continue;
                }
                for cell in column.cells(row) {
                    push_weights(cell, spec, &schema.missing, &mut bags.weights).map_err(Fault::of(name))?;
                }
                let got = bags.weights.len() - before;
                if got != count {
                    let problem = format!(
                        "expected as many weights as ids of {}, got {got} weights and {count} ids",
                        spec.column
                    );
                    return Err(Fault { column: name, problem });
                }
            }
        }
        for (column, kept) in self.kept.iter().zip(&mut samples.kept) {
            let cell = column.as_ref().and_then(|column| column.cells(row).next()).unwrap_or(Cell::Null);
            cell.with_text(|text| {
                let text = text.filter(|text| !is_missing(text, &schema.missing));
                kept.push(text.unwrap_or_default());
            });
        }
        Ok(())
    }
}

impl<'a> Fault<'a> {
    fn of(column: &'a str) -> impl FnOnce(String) -> Self {
        move |problem| Self { column, problem }
    }
}

/// Number in a cell; `None` if it is missing. A whole number may be one of the texts that mean "missing".
fn number(cell: Cell, missing: &[String]) -> Option<f64> {
    let is_missing = |text: &str| missing.iter().any(|word| word == text);
    match cell {
        Cell::Null | Cell::Bytes(_) => None,
        Cell::Number(value) => Some(value),
        Cell::Signed(value) if !missing.is_empty() && is_missing(itoa::Buffer::new().format(value)) => None,
        Cell::Unsigned(value) if !missing.is_empty() && is_missing(itoa::Buffer::new().format(value)) => None,
        Cell::Signed(value) => Some(value as f64),
        Cell::Unsigned(value) => Some(value as f64),
    }
}

fn label(cell: Cell, spec: &LabelRule, missing: &[String]) -> Result<f32, String> {
    let value = number(cell, missing).ok_or("the label is missing")?;
    match spec.positive_from {
        Some(_) if !value.is_finite() => Err(format!("expected a finite number, got {value}")),
        Some(positive_from) => Ok(f32::from(u8::from(value >= positive_from))),
        None if value == 0.0 || value == 1.0 => Ok(value as f32),
        None => {
            Err(format!("expected a label of 0 or 1, got {value}; other numbers need label.positive_from"))
        }
    }
}

fn sample_weight(cell: Cell, missing: &[String]) -> Result<f32, String> {
    let value = number(cell, missing).ok_or("the sample weight is missing")?;
    let weight = finite(value as f32).filter(|&weight| weight >= 0.0);
    weight.ok_or_else(|| format!("expected a sample weight, a finite number of at least 0, got {value}"))
}

fn dense(cell: Cell, input: &Input, missing: &[String]) -> Result<f32, String> {
    let Some(value) = number(cell, missing) else { return Ok(input.missing()) };
    input.number(value).ok_or_else(|| format!("expected a finite number, got {value}"))
}

/// Appends the ids of one cell, with their weights if these are in the same text.
fn push_ids(cell: Cell, spec: &SparseColumn, missing: &[String], bags: &mut Bags) -> Result<(), String> {
    match (cell, spec.separator) {
        // A missing text has no ids.
        (Cell::Null, Some(_)) if !spec.list => Ok(()),
        (Cell::Bytes(text), Some(_)) if !spec.list && is_missing(text, missing) => Ok(()),
        (Cell::Bytes(text), Some(separator)) => text
            .split(|&byte| char::from(byte) == separator)
            .try_for_each(|piece| push_id(piece, spec, missing, bags)),
        (Cell::Bytes(text), None) => push_id(text, spec, missing, bags),
        (Cell::Signed(id), _) => push_id(itoa::Buffer::new().format(id).as_bytes(), spec, missing, bags),
        (Cell::Unsigned(id), _) => push_id(itoa::Buffer::new().format(id).as_bytes(), spec, missing, bags),
        (Cell::Null, _) => push_id(b"", spec, missing, bags),
        (Cell::Number(value), _) if spec.ids == IdRule::Buckets && value.is_finite() => {
            bags.ids.push(ordered_key(value));
            Ok(())
        }
        (Cell::Number(value), _) if spec.ids == IdRule::Buckets => {
            Err(format!("expected a finite number, got {value}"))
        }
        (Cell::Number(value), _) => Err(format!("{value} is not an id")),
    }
}

/// Appends one id from its text.
fn push_id(text: &[u8], spec: &SparseColumn, missing: &[String], bags: &mut Bags) -> Result<(), String> {
    let mut id = text;
    if let Some(separator) = spec.weight_separator {
        let at = text.iter().rposition(|&byte| char::from(byte) == separator);
        let (before, after) = at.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])));
        id = before;
        bags.weights.push(after.map_or(Ok(1.0), weight)?);
    }
    let missing = is_missing(id, missing);
    bags.ids.push(match spec.ids {
        IdRule::Hash | IdRule::Vocabulary => id::key(if missing { b"" } else { id }),
        IdRule::Buckets if missing => MISSING_KEY,
        IdRule::Buckets => number::finite(id)
            .map(ordered_key)
            .ok_or_else(|| format!("expected a finite number, got {}", excerpt(id)))?,
        IdRule::Index if missing => 0,
        IdRule::Index => {
            let rows = spec.rows.unwrap_or(0) as u64;
            // Parsing alone would let a plus sign pass.
            let digits = str::from_utf8(id).ok().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
            let row = digits.and_then(|digits| digits.parse().ok()).filter(|&row: &u64| row < rows);
            row.ok_or_else(|| format!("expected a row number below {rows}, got {}", excerpt(id)))?
        }
    });
    if let Some(texts) = &mut bags.texts {
        texts.push(id);
    }
    Ok(())
}

/// Appends the weights of one cell.
fn push_weights(
    cell: Cell,
    spec: &SparseColumn,
    missing: &[String],
    weights: &mut Vec<f32>,
) -> Result<(), String> {
    match cell {
        Cell::Null if spec.separator.is_some() => {}
        Cell::Bytes(text) if is_missing(text, missing) => {}
        Cell::Bytes(text) => {
            for piece in text.split(|&byte| Some(char::from(byte)) == spec.separator) {
                weights.push(weight(piece)?);
            }
        }
        cell => {
            let value = number(cell, missing).ok_or("a weight is missing")? as f32;
            weights.push(finite(value).ok_or_else(|| format!("expected a finite weight, got {value}"))?);
        }
    }
    Ok(())
}

/// Parses a weight as f64, as all numbers, and rounds it to f32.
fn weight(text: &[u8]) -> Result<f32, String> {
    let value = str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    value
        .and_then(|value| finite(value as f32))
        .ok_or_else(|| format!("expected a finite weight, got {}", excerpt(text)))
}

fn finite(value: f32) -> Option<f32> {
    value.is_finite().then_some(value)
}

/// Whether a text means "missing".
fn is_missing(text: &[u8], missing: &[String]) -> bool {
    text.is_empty() || missing.iter().any(|word| word.as_bytes() == text)
}
