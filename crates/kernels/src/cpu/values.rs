//! Values of layers as buffers store them: floats one after another, or bf16 in panels.
//!
//! A [`Kept`] matrix is stored as products read their left operand ([`panels`](super::panels)): panels of 32 rows, each in steps of 32
//! columns, and each step row by row. A product that reads it packs nothing, and one that writes it stores each block of 32 × 32 in one
//! piece, of half the bytes where numbers have one part. Whoever writes a block fills it with zeros past the last row and the last column.
#![allow(unsafe_code)]

use super::shared::Shared;
use crate::buffer::{PANEL, PanelLayout};
use crate::{Buffer, Stored};
use std::ops::Range;

/// Rows of a matrix.
#[derive(Clone, Copy)]
pub enum Values<'a> {
    /// Floats, row by row.
    Plain(&'a [f32]),
    /// Panels of bf16.
    Kept(Kept<'a>),
}

/// Rows of bf16 in panels.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    panels: &'a [u16],
    layout: PanelLayout,
    /// Row of the panels that counts as the first.
    first: usize,
}

impl<'a> Values<'a> {
    /// Rows of `width` values of a buffer.
    pub(crate) fn of(buffer: &'a Buffer<f32>, width: usize) -> Self {
        match buffer.stored() {
            Stored::Bf16Panels { split, .. } => Self::Kept(Kept {
                panels: buffer.host_panels(),
                layout: PanelLayout::new(width, split),
                first: 0,
            }),
            _ => Self::Plain(buffer.host()),
        }
    }

    /// Some of the rows, of `width` values each.
    pub(crate) fn some(self, rows: &Range<usize>, width: usize) -> Self {
        match self {
            Self::Plain(floats) => Self::Plain(&floats[rows.start * width..rows.end * width]),
            Self::Kept(kept) => Self::Kept(Kept { first: kept.first + rows.start, ..kept }),
        }
    }

    /// The values of rows that are stored as floats. Panics otherwise: checks let no other rows through to whoever asks.
    pub(crate) fn plain(self) -> &'a [f32] {
        match self {
            Self::Plain(floats) => floats,
            Self::Kept(_) => panic!("panels of bf16 where floats are read"),
        }
    }
}

impl<'a> Kept<'a> {
    /// Whether each number has an upper and a lower part.
    pub(crate) fn split(&self) -> bool {
        self.layout.split
    }

    /// At most 32 rows of the 32 columns from `column` on, a multiple of 32, and zeros for those that are missing: upper parts, or `lower`
    /// ones. `room` is for rows that are not all those of a panel.
    #[inline]
    pub(crate) fn block<'b>(
        &self,
        rows: &Range<usize>,
        column: usize,
        lower: bool,
        room: &'b mut [[u16; PANEL]; PANEL],
    ) -> &'b [[u16; PANEL]; PANEL]
    where
        'a: 'b,
    {
        assert!(rows.len() <= PANEL && column.is_multiple_of(PANEL) && (self.split() || !lower));
        let lines = |row: usize| {
            let at = self.layout.line(self.first + row, column) + if lower { PANEL * PANEL } else { 0 };
            self.panels[at..].as_chunks::<PANEL>().0
        };
        if rows.len() == PANEL && (self.first + rows.start).is_multiple_of(PANEL) {
            return lines(rows.start).first_chunk().expect("panels are whole");
        }
        for (i, line) in room.iter_mut().enumerate() {
            *line = if i < rows.len() { lines(rows.start + i)[0] } else { [0; PANEL] };
        }
        room
    }

    /// The panels of `rows`, from the column `from` on, and the distance from panel to panel. The first row and `from` are multiples of 32.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn left(&self, rows: &Range<usize>, from: usize) -> (&'a [u16], usize) {
        let first = self.first + rows.start;
        assert!(first.is_multiple_of(PANEL) && from.is_multiple_of(PANEL), "panels from their beginning");
        let panels = &self.panels[..self.layout.numbers(first + rows.len())];
        (&panels[self.layout.line(first, from)..], self.layout.numbers(PANEL))
    }
}

/// Rows of a matrix, to be written.
pub(crate) enum ValuesMut<'a> {
    Plain(&'a mut [f32]),
    /// Panels of bf16.
    Kept(&'a mut [u16], PanelLayout),
}

impl ValuesMut<'_> {
    /// The rows, to be read.
    pub(crate) fn read(&self) -> Values<'_> {
        match self {
            Self::Plain(floats) => Values::Plain(floats),
            Self::Kept(panels, layout) => Values::Kept(Kept { panels, layout: *layout, first: 0 }),
        }
    }
}

/// Rows of a matrix that several threads write, each in places of its own.
#[derive(Clone, Copy)]
pub(crate) enum SharedValues<'a> {
    Plain(Shared<'a, f32>),
    /// Panels of bf16.
    Kept(Shared<'a, u16>, PanelLayout),
}

impl<'a> SharedValues<'a> {
    /// `rows` rows of `width` values of a buffer.
    pub(crate) fn of(buffer: &'a mut Buffer<f32>, rows: usize, width: usize) -> Self {
        match buffer.stored() {
            Stored::Bf16Panels { split, .. } => {
                let layout = PanelLayout::new(width, split);
                Self::Kept(Shared::new(&mut buffer.host_panels_mut()[..layout.numbers(rows)]), layout)
            }
            _ => Self::Plain(Shared::new(&mut buffer.host_mut()[..rows * width])),
        }
    }

    /// No rows.
    pub(crate) fn none() -> Self {
        Self::Plain(Shared::new(&mut []))
    }

    /// Rows that one thread writes.
    pub(crate) fn new(values: ValuesMut<'a>) -> Self {
        match values {
            ValuesMut::Plain(floats) => Self::Plain(Shared::new(floats)),
            ValuesMut::Kept(panels, layout) => Self::Kept(Shared::new(panels), layout),
        }
    }

    /// Some of the rows, of `width` values each; of panels, whole ones.
    ///
    /// # Safety
    /// None of the rows may be reachable through another piece while this one lives.
    pub(crate) unsafe fn some(&self, rows: &Range<usize>, width: usize) -> ValuesMut<'a> {
        // SAFETY: the caller's promise; panels of rows do not overlap where rows do not and begin with a panel.
        unsafe {
            match self {
                Self::Plain(floats) => ValuesMut::Plain(floats.piece(rows.start * width..rows.end * width)),
                Self::Kept(panels, layout) => {
                    assert!(rows.start.is_multiple_of(PANEL), "panels from their beginning");
                    let numbers = layout.numbers(rows.start)..layout.numbers(rows.end);
                    ValuesMut::Kept(panels.piece(numbers), *layout)
                }
            }
        }
    }

    /// The places of rows that are stored as floats. Panics otherwise: checks let no other rows through to whoever asks.
    pub(crate) fn plain(&self) -> Shared<'a, f32> {
        match self {
            Self::Plain(floats) => *floats,
            Self::Kept(..) => panic!("panels of bf16 where floats are written"),
        }
    }
}
