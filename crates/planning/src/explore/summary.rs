//! Summary of a whole space.

use super::evaluate::Outcome;
use super::space::{Point, Space};
use super::tally::{Best, Found, Tally};

/// Outcomes folded together. Its size hangs on the lists of a space, not on its points; and what it says does not hang on the
/// order in which they were added, nor on how they were divided among threads (but for a front that is thinned).
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Points on hardware as it is.
    pub as_is: Tally,
    /// Points on hardware with more of something.
    pub what_if: Tally,
    /// By model, system, batch and row of [`super::WhatIf`].
    cells: Vec<Cell>,
    shape: [usize; 4],
}

/// Strategies of a model on some hardware with a batch size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Point that others are compared with.
    pub baseline: Option<Found>,
    /// The best.
    pub best: Best,
}

impl Summary {
    /// An empty summary that will keep so many of the fastest points.
    pub fn new(space: &Space, top: usize) -> Self {
        let shape =
            [space.models().len(), space.systems().len(), space.batches().len(), space.what_if().rows()];
        let cells = vec![Cell::default(); shape.iter().product()];
        Self { as_is: Tally::new(top), what_if: Tally::new(top), cells, shape }
    }

    /// Takes note of a point of `space`.
    pub fn add(&mut self, space: &Space, index: usize, point: &Point, outcome: &Result<Outcome, String>) {
        let tally = if point.scaling == 0 { &mut self.as_is } else { &mut self.what_if };
        tally.add(index, outcome);
        let (Some(row), Ok(outcome)) = (space.what_if().row(point.scaling), outcome) else { return };
        let found = Found { index, outcome: *outcome };
        let at = self.cell_at(point.model, point.system, point.batch, row);
        self.cells[at].best.add(found);
        if space.is_baseline(point) {
            self.cells[at].baseline = Some(found);
        }
    }

    /// Adds what another has seen of the same space.
    pub fn merge(&mut self, other: Summary) {
        self.as_is.merge(other.as_is);
        self.what_if.merge(other.what_if);
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            cell.baseline = cell.baseline.or(other.baseline);
            cell.best.merge(&other.best);
        }
    }

    /// Points that were looked at.
    pub fn count(&self) -> u64 {
        self.as_is.count + self.what_if.count
    }

    /// Tally of a model on a system with a batch size, and hardware of a row of [`super::WhatIf`].
    pub fn cell(&self, model: usize, system: usize, batch: usize, row: usize) -> &Cell {
        &self.cells[self.cell_at(model, system, batch, row)]
    }

    fn cell_at(&self, model: usize, system: usize, batch: usize, row: usize) -> usize {
        let [_, systems, batches, rows] = self.shape;
        ((model * systems + system) * batches + batch) * rows + row
    }

    /// Outcomes that are kept, for all that were seen.
    pub fn kept(&self) -> usize {
        let of = |tally: &Tally| tally.top.len() + tally.front.points().len() + 2;
        of(&self.as_is) + of(&self.what_if) + 3 * self.cells.len()
    }
}
