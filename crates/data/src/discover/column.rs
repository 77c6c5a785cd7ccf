//! Profile of a column: what its values look like.

use super::list::{self, List};
use super::missing::Missing;
use super::sample::{Sample, Stored};
use super::time::{self, Form};
use crate::id;
use crate::number::{finite, integer};
use std::collections::HashMap;

/// Statistics of a column over the rows that were examined.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    /// Number of rows that were examined.
    pub rows: usize,
    /// Number of rows without a value.
    pub missing: usize,
    /// Number of different values.
    pub distinct: usize,
    /// Number of rows with the most frequent value.
    pub most_common: usize,
    /// Number of values that are finite numbers.
    pub numbers: usize,
    /// Number of values that are whole numbers, written without a decimal point.
    pub integers: usize,
    /// Number of values that are numbers with a fraction.
    pub fractions: usize,
    /// Number of values with leading zeros, such as `007`, which are not numbers.
    pub zero_led: usize,
    /// Number of values that are `true` or `false`.
    pub words: usize,
    /// Number of values that consist of several words.
    pub sentences: usize,
    /// The smallest number.
    pub min: f64,
    /// The median number.
    pub median: f64,
    /// The largest number.
    pub max: f64,
    /// Number of rows whose value is smaller than that of the row before, compared as numbers, or as text for dates.
    pub falls: usize,
    /// Form of the dates in the column, if it holds dates.
    pub date: Option<Form>,
    /// Form of the lists in the column, if it holds lists.
    pub list: Option<List>,
}

impl Profile {
    /// Computes the profile of a column.
    pub fn of(sample: &Sample, column: usize, missing: &Missing, delimiter: Option<u8>) -> Self {
        let stored = &sample.stored[column];
        let mut profile = Self { rows: sample.rows(), ..Self::default() };
        let mut counts: HashMap<u64, usize> = HashMap::new();
        let (mut numbers, mut dates, mut year_last) = (vec![], 0, 0);
        let mut last_number = f64::NEG_INFINITY;
        let (mut last_date, mut date_falls): (Vec<u8>, usize) = (vec![], 0);
        let present = sample.column(column).filter(|cell| !missing.is(cell));
        for cell in present.clone() {
            *counts.entry(id::key(cell)).or_default() += 1;
            if let Some(number) = finite(cell) {
                profile.numbers += 1;
                profile.integers += usize::from(integer(cell).is_some());
                profile.fractions += usize::from(number.fract() != 0.0);
                profile.zero_led += usize::from(cell.len() > 1 && cell[0] == b'0' && cell[1] != b'.');
                profile.falls += usize::from(number < last_number);
                last_number = number;
                numbers.push(number);
            } else if let Some(form) = time::of_text(cell) {
                dates += 1;
                year_last += usize::from(form == Form::YearLast);
                let key = if form == Form::YearLast { year_first(cell) } else { cell.to_vec() };
                date_falls += usize::from(key < last_date);
                last_date = key;
            } else {
                let is = |word: &[u8]| cell.eq_ignore_ascii_case(word);
                profile.words += usize::from(is(b"true") || is(b"false"));
                profile.sentences += usize::from(cell.iter().filter(|&&byte| byte == b' ').count() >= 3);
            }
        }
        let values = counts.values().sum::<usize>();
        profile.missing = profile.rows - values;
        profile.distinct = counts.len();
        profile.most_common = counts.values().copied().max().unwrap_or(0);
        numbers.sort_by(f64::total_cmp);
        if let (Some(&min), Some(&max)) = (numbers.first(), numbers.last()) {
            (profile.min, profile.median, profile.max) = (min, numbers[numbers.len() / 2], max);
        }
        let text = matches!(stored, Stored::Text | Stored::String);
        if text && nearly_all(dates, values) {
            profile.date = Some(if year_last > 0 { Form::YearLast } else { Form::YearFirst });
            profile.falls = date_falls;
        } else if text && !nearly_all(profile.numbers, values) {
            profile.list = list::find(present, delimiter);
        }
        profile
    }

    /// Number of rows with a value.
    pub fn values(&self) -> usize {
        self.rows - self.missing
    }

    /// Whether the column holds numbers.
    pub fn is_numeric(&self) -> bool {
        nearly_all(self.numbers, self.values())
    }

    /// Whether the column holds whole numbers.
    pub fn is_whole(&self) -> bool {
        self.is_numeric() && self.integers == self.numbers
    }

    /// Whether the column holds 0 and 1, or true and false, and nothing else.
    pub fn is_flag(&self) -> bool {
        let in_range = self.fractions == 0 && self.min >= 0.0 && self.max <= 1.0;
        let digits = self.numbers == self.values() && in_range;
        self.values() > 0 && (digits || self.words == self.values())
    }

    /// Share of rows without a value.
    pub fn missing_share(&self) -> f64 {
        self.missing as f64 / self.rows.max(1) as f64
    }
}

/// Whether nearly all values are alike, so that the others may be mistakes.
fn nearly_all(some: usize, of: usize) -> bool {
    of > 0 && some * 200 >= of * 199
}

/// Whether a cell is a finite number.
pub(super) fn is_number(cell: &[u8]) -> bool {
    finite(cell).is_some()
}

/// Rewrites a date that has the year last so that it sorts; the month is assumed to come before the day.
fn year_first(cell: &[u8]) -> Vec<u8> {
    let end = cell.iter().position(|byte| b" T".contains(byte)).unwrap_or(cell.len());
    let mut parts: Vec<&[u8]> = cell[..end].split(|byte| b"-/.".contains(byte)).collect();
    parts.rotate_right(1);
    let padded =
        parts.iter().map(|part| [&b"000"[..4usize.saturating_sub(part.len()).min(3)], part].concat());
    [padded.collect::<Vec<_>>().concat(), cell[end..].to_vec()].concat()
}
