//! Faults of a line of delimited text.

use crate::bad_lines::excerpt;

/// Fault of a line. It is not yet formatted, because most bad lines are only counted.
#[derive(Clone, Copy, Debug)]
pub struct Fault<'a> {
    /// Index of the field that is wrong, from 0; `None` if the whole line is.
    pub field: Option<usize>,
    /// Kind of problem.
    pub problem: Problem<'a>,
}

/// Problem of a line, with the text that is wrong.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Problem<'a> {
    #[error("the line has {} bytes or more", crate::lines::MAX_LINE)]
    TooLong,
    #[error("expected {expected} fields, got {got}")]
    Fields { expected: usize, got: usize },
    #[error("a quoted field that begins on this line does not end; a quote inside one is written twice")]
    OpenQuote,
    #[error("expected the delimiter after a closing quote, got {}", excerpt(.0))]
    AfterQuote(&'a [u8]),
    #[error("the label is missing")]
    NoLabel,
    #[error("expected a label of 0 or 1, got {}; other numbers need label.positive_from", excerpt(.0))]
    Label(&'a [u8]),
    #[error("the sample weight is missing")]
    NoSampleWeight,
    #[error("expected a sample weight, a finite number of at least 0, got {}", excerpt(.0))]
    SampleWeight(&'a [u8]),
    #[error("expected a finite number, got {}", excerpt(.0))]
    Number(&'a [u8]),
    #[error("expected a row number below {rows}, got {}", excerpt(.text))]
    Index { text: &'a [u8], rows: u64 },
    #[error("expected a finite weight, got {}", excerpt(.0))]
    Weight(&'a [u8]),
    #[error("expected as many weights as ids, got {weights} weights and {ids} ids")]
    Weights { ids: usize, weights: usize },
}

impl<'a> Problem<'a> {
    /// Whether the problem is a quoted field that does not end, or ends in the wrong place.
    pub fn is_of_quotes(self) -> bool {
        matches!(self, Problem::OpenQuote | Problem::AfterQuote(_))
    }

    /// Makes a fault of the whole line.
    pub fn of_line(self) -> Fault<'a> {
        Fault { field: None, problem: self }
    }

    /// Makes a fault of one field.
    pub fn at(self, field: usize) -> Fault<'a> {
        Fault { field: Some(field), problem: self }
    }
}
