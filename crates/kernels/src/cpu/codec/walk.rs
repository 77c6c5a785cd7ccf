//! Rows one after the other, from any value on: what a thread encodes or decodes.

use crate::Rows;
use ground::codec::{Codec, Row};

/// Size of a row.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Number of values.
    pub width: usize,
    /// Size of the encoded row, in bytes.
    pub bytes: usize,
}

/// Rows that follow each other in the floats and in the bytes, or a part of a row where the codec has no header.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Offset of the first value, in floats.
    pub at: usize,
    /// Offset of the encoded run behind that of the first row, in bytes.
    pub byte: usize,
    /// Size of a row, or of the part of one.
    pub shape: Shape,
    /// Number of rows.
    pub rows: usize,
}

impl Run {
    /// Number of values.
    pub(super) fn values(&self) -> usize {
        self.rows * self.shape.width
    }

    /// Size of the encoded run, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.rows * self.shape.bytes
    }
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

    /// Size of an encoded row of this width, in bytes.
    #[inline(always)]
    fn encoded(&self, width: usize) -> usize {
        self.codec.encoded_bytes(1, width as u64) as usize
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

    /// The next run that begins before value `end`: rows that begin there too and have at most `most` values together, but one
    /// at least; or a part of a row that ends there and has at most `most` values.
    #[inline(always)]
    pub(super) fn next(&mut self, end: usize, most: usize) -> Option<Run> {
        while self.position < end {
            let Some(row) = self.rows.get(self.row).copied() else {
                (self.repetition, self.row) = (self.repetition + 1, 0);
                continue;
            };
            if row.width == 0 {
                self.row += 1;
                continue;
            }
            let codec = self.runs.codec;
            let Rows { floats, bytes, .. } = self.runs.rows;
            let at = row.at + self.repetition * floats + self.within;
            let byte = row.byte - self.rows[0].byte + self.repetition * bytes;
            if codec.by_rows() {
                let shape = Shape { width: row.width, bytes: self.runs.encoded(row.width) };
                let mut run = Run { at, byte, shape, rows: 1 };
                self.position += row.width;
                self.row += 1;
                self.extend(&mut run, end, most);
                return Some(run);
            }
            let width = (row.width - self.within).min(end - self.position).min(most);
            let byte = byte + self.runs.encoded(self.within);
            self.position += width;
            self.within += width;
            if self.within == row.width {
                (self.row, self.within) = (self.row + 1, 0);
            }
            return Some(Run { at, byte, shape: Shape { width, bytes: self.runs.encoded(width) }, rows: 1 });
        }
        None
    }

    /// Adds rows to the run that are as wide as its first, and follow it in the floats and in the bytes.
    #[inline(always)]
    fn extend(&mut self, run: &mut Run, end: usize, most: usize) {
        let Rows { floats, bytes, count, .. } = self.runs.rows;
        let Shape { width, bytes: size } = run.shape;
        let (first, most) = (self.rows[0].byte, most / width);
        while self.position < end && run.rows < most {
            if self.row == self.rows.len() {
                (self.repetition, self.row) = (self.repetition + 1, 0);
                if self.rows.len() == 1 && floats == width && bytes == size {
                    // All repetitions follow each other.
                    let left = (end - self.position).div_ceil(width).min(most - run.rows);
                    let rows = left.min(count - self.repetition);
                    (run.rows, self.position) = (run.rows + rows, self.position + rows * width);
                    (self.repetition, self.row) = (self.repetition + rows - 1, 1);
                    continue;
                }
            }
            let row = self.rows[self.row];
            let follows = row.at + self.repetition * floats == run.at + run.values()
                && row.byte - first + self.repetition * bytes == run.byte + run.bytes();
            if row.width != width || !follows {
                return;
            }
            run.rows += 1;
            self.position += width;
            self.row += 1;
        }
    }
}
