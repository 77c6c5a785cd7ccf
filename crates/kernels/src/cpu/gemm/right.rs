//! Panels of a right operand that many products, or many threads, read.

use super::{Cpu, DEPTH, Panels};
use crate::cpu::level::Level;
use crate::cpu::pack::Operand;
use crate::cpu::shared::Shared;
use crate::cpu::tile::TileSize;
use ground::precision::Precision;
use std::ops::Range;

/// Numbers that are worth a thread of their own in packing.
const GRAIN: usize = 32 << 10;

/// The longest part of a sum of `k` terms. Parts are as equal as can be: no short one costs a pass over the whole result.
pub fn longest(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH).max(1)).max(1)
}

/// Where the panels of a right operand lie: for each part of the sums, one behind another, those of all columns.
#[derive(Clone, Copy)]
pub struct RightPanels {
    level: Level,
    size: TileSize,
    columns: usize,
    /// First of the terms, and the one behind the last.
    terms: [usize; 2],
    /// Terms of a part of the sums.
    longest: usize,
}

impl RightPanels {
    /// Panels of a product of `columns` columns with all of its `k` terms.
    pub(crate) fn new(level: Level, columns: usize, k: usize) -> Self {
        Self::of_terms(level, columns, k, 0..k)
    }

    /// Panels of some of the `k` terms, which begin where a part of the sums does.
    pub fn of_terms(level: Level, columns: usize, k: usize, terms: Range<usize>) -> Self {
        let (size, longest) = (level.tile(columns), longest(k));
        assert!(terms.start.is_multiple_of(longest), "terms {terms:?} of parts of {longest}");
        Self { level, size, columns, terms: [terms.start, terms.end], longest }
    }

    /// Length of all panels.
    pub fn floats(self) -> usize {
        (self.terms[1] - self.terms[0]) * self.line()
    }

    /// Size of the tiles that read the panels.
    pub fn size(self) -> TileSize {
        self.size
    }

    /// Floats of all columns for one term.
    fn line(self) -> usize {
        self.columns.next_multiple_of(self.size.columns)
    }

    /// Place of the panels of a part of the sums, from the one that begins with `column` on.
    pub fn at(self, part: &Range<usize>, column: usize) -> Range<usize> {
        let [start, end] = [part.start, part.end].map(|term| (term - self.terms[0]) * self.line());
        start + self.size.panel(column) * part.len() * self.size.columns..end
    }

    /// Packs all panels, on all threads.
    pub fn pack(self, cpu: &Cpu, b: Operand, to: &mut [f32]) {
        let [first, end] = self.terms;
        let to = Shared::new(&mut to[..self.floats()]);
        let rounds = cpu.precision == Precision::Bf16;
        let grain = GRAIN.div_ceil(((end - first) * self.size.columns).max(1));
        cpu.divide(self.size.panels(self.columns), grain, &|_, some| {
            let columns = self.size.start(some.start, self.columns)..self.size.start(some.end, self.columns);
            for from in (first..end).step_by(self.longest) {
                let sums = from..(from + self.longest).min(end);
                let start = self.at(&sums, columns.start).start;
                let len = some.len() * sums.len() * self.size.columns;
                // SAFETY: no two threads pack the same panels.
                let to = unsafe { to.piece(start..start + len) };
                let panels = Panels { level: self.level, size: self.size, sums, rounds };
                panels.pack_right(b, columns.clone(), to);
            }
        });
    }
}
