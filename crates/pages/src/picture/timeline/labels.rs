//! Names on spans, as far as there is room for them.

use super::Span;
use crate::Escaped;
use std::fmt::Write;

/// About as wide as a letter. The script that zooms counts with the same.
const LETTER: f64 = 6.5;

/// Names on spans.
#[derive(Default)]
pub struct Labels {
    /// The drawing.
    pub svg: String,
    /// End of the last name on each row of the current lane: spans may overlap.
    ends: Vec<f64>,
}

impl Labels {
    /// Begins another lane.
    pub fn begin_lane(&mut self) {
        self.ends.clear();
    }

    /// The name of a span of this row: where it begins, its upper edge, and how wide it is.
    pub fn add(&mut self, span: &Span, row: usize, (x, top, width): (f64, f64, f64)) {
        self.ends.resize(self.ends.len().max(row + 1), f64::NEG_INFINITY);
        let letters = ((width - 10.0) / LETTER) as usize;
        if letters < 3 || x < self.ends[row] {
            return;
        }
        // As places are rounded, a span may begin a little before another ends.
        self.ends[row] = x + width - 0.01;
        let over = if span.exposed { " class=\"over\"" } else { "" };
        let name = Escaped(shortened(&span.name, letters));
        let _ = write!(self.svg, "<text{over} x=\"{:.2}\" y=\"{:.1}\">{name}</text>", x + 5.0, top + 15.0);
    }
}

/// The first letters of a name, as many as there is room for.
pub fn shortened(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        None => name.into(),
        Some(_) => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests;
