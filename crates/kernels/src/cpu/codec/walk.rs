//! Rows one after the other, from any value on: what a thread encodes or decodes.

use crate::Rows;
use spec::codec::{Codec, Row};

/// Run of values: a row, or a part of one where the codec has no header.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Offset of the first value, in floats.
    pub at: usize,
    /// Offset of the encoded run behind that of the first row, in bytes.
    pub byte: usize,
    /// Number of values.
    pub width: usize,
    /// Size of the encoded run, in bytes.
    pub bytes: usize,
}

/// All rows and repetitions of an operation, whose values are numbered in their order.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a> {
    codec: Codec,
    rows: Rows<'a>,
    /// One long row, where the repetitions of a row follow each other and the codec has no header.
    merged: Option<Row>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(codec: Codec, rows: Rows<'a>) -> Self {
        let merged = match rows.rows {
            [row] if !codec.by_rows() && rows.floats == row.width => {
                let follow = rows.bytes == codec.encoded_bytes(1, row.width as u64) as usize;
                follow.then_some(Row { width: row.width * rows.count, ..*row })
            }
            _ => None,
        };
        Self { codec, rows, merged }
    }

    /// Number of values.
    pub(super) fn values(&self) -> usize {
        self.rows.values()
    }

    fn rows(&self) -> &[Row] {
        self.merged.as_ref().map_or(self.rows.rows, std::slice::from_ref)
    }

    /// Walks from value `start` on: from the first row that begins there or behind it, or from the value itself where the codec
    /// has no header.
    pub(super) fn walk(&self, start: usize) -> Walk<'_> {
        let rows = self.rows();
        let once: usize = rows.iter().map(|row| row.width).sum();
        let repetition = start.checked_div(once).unwrap_or(0);
        let mut walk = Walk { runs: self, rows, repetition, row: 0, within: 0, position: repetition * once };
        let by_rows = self.codec.by_rows();
        while let Some(row) = rows.get(walk.row) {
            let passed = if by_rows { walk.position >= start } else { walk.position + row.width > start };
            if passed {
                break;
            }
            walk.position += row.width;
            walk.row += 1;
        }
        if walk.position < start {
            walk.within = start - walk.position;
            walk.position = start;
        }
        walk
    }
}

/// A place among all rows.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    runs: &'a Runs<'a>,
    rows: &'a [Row],
    repetition: usize,
    row: usize,
    /// Values of the row that lie behind.
    within: usize,
    /// Values of all rows that lie behind.
    position: usize,
}

impl Walk<'_> {
    /// Number of values that lie behind.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Whether no run begins before value `end`.
    pub(super) fn done(&self, end: usize) -> bool {
        self.position >= end
    }

    /// The next run that begins before value `end`; of a codec without header it ends there, and has at most `most` values.
    #[inline(always)]
    pub(super) fn next(&mut self, end: usize, most: usize) -> Option<Run> {
        while self.position < end {
            let Some(row) = self.rows.get(self.row) else {
                (self.repetition, self.row) = (self.repetition + 1, 0);
                continue;
            };
            let codec = self.runs.codec;
            let width = match codec.by_rows() {
                true => row.width,
                false => (row.width - self.within).min(end - self.position).min(most),
            };
            let Rows { floats, bytes, .. } = self.runs.rows;
            let run = Run {
                at: row.at + self.repetition * floats + self.within,
                byte: row.byte - self.rows[0].byte
                    + self.repetition * bytes
                    + codec.encoded_bytes(1, self.within as u64) as usize,
                width,
                bytes: codec.encoded_bytes(1, width as u64) as usize,
            };
            self.position += width;
            self.within += width;
            if self.within == row.width {
                (self.row, self.within) = (self.row + 1, 0);
            }
            if width > 0 {
                return Some(run);
            }
        }
        None
    }
}
