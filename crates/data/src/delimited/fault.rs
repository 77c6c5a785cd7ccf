//! What can be wrong with a line.

use crate::bad_lines::excerpt;

/// A fault, not yet put into words: most bad lines are only counted.
#[derive(Clone, Copy, Debug)]
pub struct Fault<'a> {
    /// The field at fault, counted from 0.
    pub field: Option<usize>,
    /// What is wrong.
    pub problem: Problem<'a>,
}

/// What is wrong, with the text at fault.
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
    /// Whether a quoted field ends nowhere or in the wrong place.
    pub fn is_of_quotes(self) -> bool {
        matches!(self, Problem::OpenQuote | Problem::AfterQuote(_))
    }

    /// Of the whole line.
    pub fn of_line(self) -> Fault<'a> {
        Fault { field: None, problem: self }
    }

    /// Of one field.
    pub fn at(self, field: usize) -> Fault<'a> {
        Fault { field: Some(field), problem: self }
    }
}
