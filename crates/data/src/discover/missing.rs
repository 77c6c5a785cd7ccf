//! Finds the texts of a log that mean "missing".

use super::column::is_number;
use super::sample::{Sample, Stored};
use super::time;
use std::collections::BTreeSet;

/// Texts that mean "missing" in any column.
const ALWAYS: [&str; 15] = [
    "NA", "N/A", "n/a", "#N/A", "null", "NULL", "Null", "nan", "NaN", "NAN", "\\N", "<NA>", "(null)", "None",
    "NaT",
];

/// Texts that mean "missing" in columns of numbers or times; in other columns they may be ids.
const AMONG_NUMBERS: [&str; 13] = [
    "-",
    "--",
    "?",
    "none",
    "nil",
    "na",
    "undefined",
    ".",
    "inf",
    "-inf",
    "Infinity",
    "-Infinity",
    "unknown",
];

/// Texts of a log that mean "missing", besides the empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing(pub BTreeSet<String>);

impl Missing {
    /// Finds the texts that mean "missing" in the sample rows.
    pub fn find(sample: &Sample) -> Self {
        let mut found = BTreeSet::new();
        let texts = sample.stored.iter().enumerate();
        for (column, _) in texts.filter(|(_, s)| matches!(s, Stored::Text | Stored::String)) {
            let (mut among, mut others, mut measured) = (BTreeSet::new(), 0usize, 0usize);
            for cell in sample.column(column).filter(|cell| !cell.is_empty()) {
                if let Some(text) = known(&ALWAYS, cell) {
                    found.insert(text);
                } else if let Some(text) = known(&AMONG_NUMBERS, cell) {
                    among.insert(text);
                } else {
                    others += 1;
                    measured += usize::from(is_number(cell) || time::of_text(cell).is_some());
                }
            }
            if others > 0 && measured * 200 >= others * 199 {
                found.append(&mut among);
            }
        }
        Self(found.into_iter().map(String::from).collect())
    }

    /// Whether a cell is missing.
    pub fn is(&self, cell: &[u8]) -> bool {
        cell.is_empty() || (!self.0.is_empty() && self.0.iter().any(|text| text.as_bytes() == cell))
    }
}

fn known(texts: &[&'static str], cell: &[u8]) -> Option<&'static str> {
    texts.iter().find(|text| text.as_bytes() == cell).copied()
}
