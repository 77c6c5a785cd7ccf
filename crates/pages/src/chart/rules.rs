//! Vertical lines with a name: a limit, a median.

use super::axis::shown;
use super::{Escaped, Plot};
use std::fmt::Write;

/// A named position on the horizontal axis, drawn as a vertical line.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Name of the position.
    pub name: String,
}

/// As wide as a letter at most, of most fonts.
const LETTER: f64 = 7.2;
/// Between two names one above the other.
const ROW: f64 = 15.0;

/// The name of a rule in its place.
struct Placed<'a> {
    rule: &'a Rule,
    /// Horizontal position of the rule in the drawing.
    x: f64,
    /// Whether the name stands to the left of the rule, because there is no room to the right.
    to_the_left: bool,
    /// Row of the name, counted upward from the plot.
    row: usize,
}

impl Plot {
    /// Lowers the top of a plot by the height that the names of rules need.
    pub fn with_room_for(mut self, rules: &[Rule]) -> Self {
        let rows = self.placed(rules).iter().map(|placed| placed.row + 1).max().unwrap_or(0);
        // So many names say nothing: the values need some room too.
        self.top += (ROW * rows as f64).min((self.bottom - self.top) / 2.0);
        self
    }

    /// The rules, with their names above the plot.
    pub fn rules(&self, svg: &mut String, rules: &[Rule]) {
        for Placed { rule, x, to_the_left, row } in self.placed(rules) {
            let y = self.top - 5.0 - ROW * row as f64;
            let (anchor, at) = if to_the_left { ("end", x - 4.0) } else { ("start", x + 4.0) };
            let _ = write!(
                svg,
                "<line class=\"rule\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{}\"/>\
                 <text class=\"rule-name\" x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                y - 10.0,
                self.bottom,
                Escaped(&rule.name),
            );
        }
    }

    /// Each name on the lowest row where it lies on no other, nor on the line of another.
    fn placed<'a>(&self, rules: &'a [Rule]) -> Vec<Placed<'a>> {
        let place = |rule: &'a Rule| {
            let x = self.across(rule.x);
            Placed { rule, x, to_the_left: x + length(rule) > self.right, row: 0 }
        };
        let mut sorted: Vec<Placed> = rules.iter().filter(|rule| shown(rule.x)).map(place).collect();
        // A name must be above those on whose lines it would lie: first comes what is ahead of others.
        sorted.sort_by(|a, b| {
            let ahead = if a.to_the_left { a.x.total_cmp(&b.x) } else { b.x.total_cmp(&a.x) };
            a.to_the_left.cmp(&b.to_the_left).then(ahead)
        });
        let mut placed: Vec<Placed> = Vec::new();
        for mut this in sorted {
            let (from, to) = this.ends();
            let meets = |other: &Placed| {
                let (other_from, other_to) = other.ends();
                other_from < to && from < other_to || (from..to).contains(&other.x)
            };
            let above = placed.iter().filter(|other| meets(other)).map(|other| other.row + 1).max();
            this.row = above.unwrap_or(0);
            placed.push(this);
        }
        placed
    }
}

impl Placed<'_> {
    /// Horizontal range that the name covers.
    fn ends(&self) -> (f64, f64) {
        let length = length(self.rule);
        if self.to_the_left { (self.x - length, self.x) } else { (self.x, self.x + length) }
    }
}

/// How long a name is, with some room.
fn length(rule: &Rule) -> f64 {
    (rule.name.chars().count() + 1) as f64 * LETTER
}

#[cfg(test)]
mod tests;
