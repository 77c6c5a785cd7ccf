//! Columns of delimited text: from a field to a label, a number, or a bag of ids.

use super::fault::{Fault, Problem};
use super::fields::Fields;
use crate::id;
use crate::number::{Input, MISSING_KEY, Numbers, finite, ordered_key};
use crate::samples::Bags;
use memchr::{memchr, memrchr};
use spec::schema::{IdRule, LabelRule, SparseColumn};

/// Texts that mean "missing", besides the empty one.
#[derive(Debug)]
pub struct Missing(pub Vec<Vec<u8>>);

impl Missing {
    /// Whether a text means "missing".
    #[inline]
    pub fn is(&self, text: &[u8]) -> bool {
        text.is_empty() || (!self.0.is_empty() && self.0.iter().any(|missing| missing == text))
    }
}

/// Column of the label.
#[derive(Debug)]
pub struct Label {
    field: usize,
    positive_from: Option<f64>,
}

impl Label {
    /// The column, found at `field`.
    pub fn new(rule: &LabelRule, field: usize) -> Self {
        Self { field, positive_from: rule.positive_from }
    }

    /// Reads the label of a line: 0 or 1.
    #[inline]
    pub fn read<'a>(&self, fields: Fields<'a>, missing: &Missing) -> Result<f32, Fault<'a>> {
        let text = fields.get(self.field);
        if missing.is(text) {
            return Err(Problem::NoLabel.at(self.field));
        }
        if let Some(threshold) = self.positive_from {
            let number = finite(text).ok_or_else(|| Problem::Number(text).at(self.field))?;
            return Ok(if number >= threshold { 1.0 } else { 0.0 });
        }
        match text {
            b"0" => Ok(0.0),
            b"1" => Ok(1.0),
            _ if text.eq_ignore_ascii_case(b"false") => Ok(0.0),
            _ if text.eq_ignore_ascii_case(b"true") => Ok(1.0),
            _ => match finite(text) {
                Some(label) if label == 0.0 || label == 1.0 => Ok(label as f32),
                _ => Err(Problem::Label(text).at(self.field)),
            },
        }
    }
}

/// Column of sample weights.
#[derive(Debug)]
pub struct Weight {
    field: usize,
}

impl Weight {
    /// The column, found at `field`.
    pub fn new(field: usize) -> Self {
        Self { field }
    }

    /// Reads the weight of a line: a finite number of at least 0.
    #[inline]
    pub fn read<'a>(&self, fields: Fields<'a>, missing: &Missing) -> Result<f32, Fault<'a>> {
        let text = fields.get(self.field);
        if missing.is(text) {
            return Err(Problem::NoSampleWeight.at(self.field));
        }
        let weight = finite(text).map(|weight| weight as f32);
        let weight = weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
        weight.ok_or_else(|| Problem::SampleWeight(text).at(self.field))
    }
}

/// A column of numbers.
#[derive(Debug)]
pub struct Dense {
    field: usize,
    input: Input,
}

impl Dense {
    /// The column with this rule for its inputs, found at `field`.
    pub fn new(input: Input, field: usize) -> Self {
        Self { field, input }
    }

    /// Number of a line before the transform; NaN if there is none.
    pub fn number(&self, fields: Fields, missing: &Missing) -> f64 {
        let text = fields.get(self.field);
        if missing.is(text) { f64::NAN } else { finite(text).unwrap_or(f64::NAN) }
    }

    /// Reads the number of a line and transforms it.
    #[inline]
    pub fn read<'a>(
        &self,
        fields: Fields<'a>,
        missing: &Missing,
        numbers: &Numbers,
    ) -> Result<f32, Fault<'a>> {
        let text = fields.get(self.field);
        if missing.is(text) {
            return Ok(self.input.missing());
        }
        numbers.parse(text, &self.input).ok_or_else(|| Problem::Number(text).at(self.field))
    }
}

/// A column of ids.
#[derive(Debug)]
pub struct Sparse {
    field: usize,
    rule: Rule,
    many: bool,
    separator: Option<u8>,
    weights: Weights,
}

/// Rule that makes a key or a row of a text.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The key of an id.
    Key,
    /// The row of a table with this number of rows, in digits.
    Row(u64),
    /// The key of a number, in the order of numbers.
    Number,
}

/// Location of the weights of ids.
#[derive(Clone, Copy, Debug)]
enum Weights {
    None,
    /// After each id, separated by this byte.
    Inside(u8),
    /// In another field of the line.
    Field(usize),
}

impl Sparse {
    /// The column, found at `field`, with weights at `weights` where they have a column of their own.
    pub fn new(column: &SparseColumn, field: usize, weights: Option<usize>) -> Self {
        let weights = match (column.weight_separator, weights) {
            (Some(separator), _) => Weights::Inside(separator as u8),
            (None, Some(field)) => Weights::Field(field),
            (None, None) => Weights::None,
        };
        let rule = match column.ids {
            IdRule::Hash | IdRule::Vocabulary => Rule::Key,
            IdRule::Index => Rule::Row(column.rows.unwrap_or(0) as u64),
            IdRule::Buckets => Rule::Number,
        };
        let separator = column.separator.map(|separator| separator as u8);
        Self { field, rule, many: column.many(), separator, weights }
    }

    /// Reserves memory for `count` bags of one id each.
    pub fn reserve(&self, count: usize, bags: &mut Bags) {
        if self.many {
            bags.lengths.reserve_exact(count);
        } else {
            bags.ids.reserve_exact(count);
            let weighted = !matches!(self.weights, Weights::None);
            bags.weights.reserve_exact(if weighted { count } else { 0 });
        }
    }

    /// Appends the ids of the field as one bag, or nothing if the field is bad.
    #[inline]
    pub fn read<'a>(&self, fields: Fields<'a>, missing: &Missing, bags: &mut Bags) -> Result<(), Fault<'a>> {
        if !self.many && matches!(self.weights, Weights::None) {
            let text = fields.get(self.field);
            bags.ids.push(self.id(text, missing)?);
            note(text, bags);
            return Ok(());
        }
        let (ids, weights) = (bags.ids.len(), bags.weights.len());
        let outcome = self.read_bag(fields, missing, bags);
        if outcome.is_err() {
            bags.ids.truncate(ids);
            bags.weights.truncate(weights);
            bags.texts.iter_mut().for_each(|texts| texts.truncate(ids));
        }
        outcome
    }

    /// Removes the last bag.
    pub fn undo(&self, bags: &mut Bags) {
        let length = if self.many { bags.lengths.pop().unwrap_or(0) as usize } else { 1 };
        bags.ids.truncate(bags.ids.len().saturating_sub(length));
        bags.texts.iter_mut().for_each(|texts| texts.truncate(bags.ids.len()));
        if !matches!(self.weights, Weights::None) {
            bags.weights.truncate(bags.ids.len());
        }
    }

    fn read_bag<'a>(&self, fields: Fields<'a>, missing: &Missing, bags: &mut Bags) -> Result<(), Fault<'a>> {
        let before = bags.ids.len();
        let text = fields.get(self.field);
        for item in self.items(text, missing) {
            let (id, weight) = self.divide(item);
            bags.ids.push(self.id(id, missing)?);
            note(id, bags);
            if matches!(self.weights, Weights::Inside(_)) {
                bags.weights.push(weight.map_or(Ok(1.0), |weight| number(weight, self.field))?);
            }
        }
        let ids = bags.ids.len() - before;
        if let Weights::Field(field) = self.weights {
            let weights_text = fields.get(field);
            if !self.many && missing.is(text) && missing.is(weights_text) {
                bags.weights.push(1.0);
            } else {
                let mut weights = 0;
                for item in self.items(weights_text, missing) {
                    bags.weights.push(number(item, field)?);
                    weights += 1;
                }
                if weights != ids {
                    return Err(Problem::Weights { ids, weights }.at(field));
                }
            }
        }
        if self.many {
            // A field has fewer bytes than 2³², so the length fits.
            bags.lengths.push(ids as u32);
        }
        Ok(())
    }

    /// Texts of the ids in the field.
    pub fn texts<'a>(&self, fields: Fields<'a>, missing: &Missing) -> impl Iterator<Item = &'a [u8]> {
        self.items(fields.get(self.field), missing).map(|item| self.divide(item).0)
    }

    /// Divides an item of a list into its id and, if it has one, its weight.
    fn divide<'a>(&self, item: &'a [u8]) -> (&'a [u8], Option<&'a [u8]>) {
        match self.weights {
            Weights::Inside(separator) => match memrchr(separator, item) {
                Some(at) => (&item[..at], Some(&item[at + 1..])),
                None => (item, None),
            },
            _ => (item, None),
        }
    }

    /// Items of a field: none if the field is missing and may hold many, otherwise one more than there are separators.
    fn items<'a>(&self, text: &'a [u8], missing: &Missing) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = if self.many && missing.is(text) { None } else { Some(text) };
        let separator = self.separator;
        std::iter::from_fn(move || {
            let text = rest?;
            let end = separator.and_then(|separator| memchr(separator, text));
            rest = end.map(|end| &text[end + 1..]);
            Some(&text[..end.unwrap_or(text.len())])
        })
    }

    /// Key of an id, or its row if the text is a row number.
    #[inline]
    fn id<'a>(&self, text: &'a [u8], missing: &Missing) -> Result<u64, Fault<'a>> {
        let is_missing = missing.is(text);
        match self.rule {
            Rule::Key if is_missing => Ok(id::MISSING),
            Rule::Key => Ok(id::key(text)),
            Rule::Row(_) if is_missing => Ok(0),
            Rule::Row(rows) => row(text, rows).ok_or_else(|| Problem::Index { text, rows }.at(self.field)),
            Rule::Number if is_missing => Ok(MISSING_KEY),
            Rule::Number => finite(text).map(ordered_key).ok_or_else(|| Problem::Number(text).at(self.field)),
        }
    }
}

/// Notes the text of the last id, if texts are requested.
#[inline]
fn note(text: &[u8], bags: &mut Bags) {
    if let Some(texts) = &mut bags.texts {
        texts.push(text);
    }
}

fn number(text: &[u8], field: usize) -> Result<f32, Fault<'_>> {
    let weight = finite(text).map(|weight| weight as f32).filter(|weight| weight.is_finite());
    weight.ok_or_else(|| Problem::Weight(text).at(field))
}

/// Parses a row number below `rows`, written in digits only.
fn row(text: &[u8], rows: u64) -> Option<u64> {
    let row = text.iter().try_fold(0u64, |row, byte| {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        row.checked_mul(10)?.checked_add(digit).filter(|_| digit <= 9)
    })?;
    (row < rows && !text.is_empty()).then_some(row)
}
