//! Curves over a common axis.

use super::axis::{Axis, shown};
use super::{COLOURS, Plot, Rule, key};
use crate::Escaped;
use std::fmt::Write;

/// Style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A bold line, for the main curve.
    Bold,
    /// A thin, faint line, for values that a bold curve smooths.
    Faint,
    /// Dots joined by a thin line, for few, separate measurements.
    Dots,
    /// A dashed line, for a value to compare with.
    Dashed,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the curve in the legend and the read-out.
    pub name: String,
    /// Index of the curve's colour in the palette.
    pub colour: usize,
    /// Style of the curve.
    pub look: Look,
    /// Whether the legend lists the curve.
    pub listed: bool,
    /// Points from left to right. A point that is NaN interrupts the curve.
    pub points: Vec<(f64, f64)>,
}

/// Curves over a common axis.
#[derive(Clone, Debug)]
pub struct LineChart<'a> {
    /// Name of the horizontal axis.
    pub x_name: &'a str,
    /// Name of the vertical axis.
    pub y_name: &'a str,
    /// Whether the horizontal and the vertical axis must include zero.
    pub from_zero: [bool; 2],
    /// The curves; later ones lie above.
    pub lines: Vec<Line>,
    /// Named positions on the horizontal axis.
    pub rules: &'a [Rule],
    /// Width of the drawing.
    pub width: f64,
}

const HEIGHT: f64 = 290.0;

/// Most points of a curve that are drawn.
const MOST_POINTS: usize = 1500;

impl LineChart<'_> {
    /// The legend, as HTML; empty where only one curve has a name.
    pub fn legend(&self) -> String {
        let named: Vec<&Line> = self.lines.iter().filter(|l| l.listed && !l.points.is_empty()).collect();
        match named.len() {
            0 | 1 => String::new(),
            _ => named.iter().map(|line| key(&line.class(), &line.name)).collect(),
        }
    }

    /// The chart as SVG; a sentence where there is nothing to draw.
    pub fn svg(&self) -> String {
        let points =
            || self.lines.iter().flat_map(|line| &line.points).filter(|(x, y)| shown(*x) && shown(*y));
        if points().next().is_none() {
            return "<p class=\"empty\">No records yet.</p>".into();
        }
        let [x_zero, y_zero] = self.from_zero.map(|from_zero| from_zero.then_some(0.0));
        let plot = Plot {
            left: 58.0,
            right: self.width - 12.0,
            top: 26.0,
            bottom: HEIGHT - 42.0,
            x: Axis::over(points().map(|p| p.0).chain(self.rules.iter().map(|rule| rule.x)).chain(x_zero), 5),
            y: Axis::over(points().map(|p| p.1).chain(y_zero), 4).rounded(),
        };
        let plot = plot.with_room_for(self.rules);
        // What the read-out needs to turn places back into values.
        let mut svg = format!(
            "<svg class=\"lines\" role=\"img\" aria-label=\"{} by {}\" viewBox=\"0 0 {} {HEIGHT}\" \
             data-plot=\"{} {} {} {}\" data-x=\"{} {}\" data-y=\"{} {}\" data-x-name=\"{}\">",
            Escaped(self.y_name),
            Escaped(self.x_name),
            self.width,
            plot.left,
            plot.right,
            plot.top,
            plot.bottom,
            plot.x.low,
            plot.x.high,
            plot.y.low,
            plot.y.high,
            Escaped(self.x_name),
        );
        plot.frame(&mut svg, self.x_name, self.y_name);
        for line in &self.lines {
            line.draw(&plot, &mut svg);
        }
        plot.rules(&mut svg, self.rules);
        svg.push_str("</svg>");
        svg
    }
}

impl Line {
    /// Leaves the curve out of the legend.
    pub fn unlisted(self) -> Self {
        Self { listed: false, ..self }
    }

    fn class(&self) -> String {
        let look = match self.look {
            Look::Bold => "bold",
            Look::Faint => "faint",
            Look::Dots => "dots",
            Look::Dashed => "dashed",
        };
        format!("c{} {look}", self.colour % COLOURS)
    }

    fn draw(&self, plot: &Plot, svg: &mut String) {
        let class = self.class();
        let points = thinned(&self.points);
        let mut path = String::new();
        let mut joined = false;
        for &(x, y) in &points {
            let visible = shown(x) && shown(y);
            if visible {
                let command = if joined { 'L' } else { 'M' };
                let _ = write!(path, "{command}{:.2} {:.2}", plot.across(x), plot.up(y));
            }
            joined = visible;
        }
        let _ = write!(svg, "<path class=\"{class}\" data-name=\"{}\" d=\"{path}\"/>", Escaped(&self.name));
        if self.look == Look::Dots {
            for &(x, y) in points.iter().filter(|(x, y)| shown(*x) && shown(*y)) {
                let (across, up) = (plot.across(x), plot.up(y));
                let _ = write!(
                    svg,
                    "<circle class=\"{class}\" cx=\"{across:.2}\" cy=\"{up:.2}\" r=\"4\"><title>{}: {y:.5}</title></circle>",
                    Escaped(&self.name)
                );
            }
        }
    }
}

/// The points, or of many the lowest and the highest of every stretch, so that no spike is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(MOST_POINTS / 2);
    let mut kept = Vec::with_capacity(MOST_POINTS);
    for part in points.chunks(stretch) {
        let finite = || (0..part.len()).filter(|&i| shown(part[i].1));
        let low = finite().min_by(|&a, &b| part[a].1.total_cmp(&part[b].1));
        let high = finite().max_by(|&a, &b| part[a].1.total_cmp(&part[b].1));
        match (low, high) {
            (Some(low), Some(high)) if low == high => kept.push(part[low]),
            (Some(low), Some(high)) => kept.extend([part[low.min(high)], part[low.max(high)]]),
            _ => kept.extend(part.first()),
        }
    }
    kept
}

/// The mean of each point and its neighbours, `reach` on either side and fewer at the ends.
pub fn smoothed(points: &[(f64, f64)], reach: usize) -> Vec<(f64, f64)> {
    // Running sums, so that a long file costs no more than its length.
    let mut sums = vec![(0.0, 0u32)];
    let (mut sum, mut count) = (0.0, 0);
    for &(_, y) in points {
        if shown(y) {
            (sum, count) = (sum + y, count + 1);
        }
        sums.push((sum, count));
    }
    let mean = |i: usize| {
        let around = reach.min(i).min(points.len() - 1 - i);
        let (from, to) = (sums[i - around], sums[i + around + 1]);
        (to.0 - from.0) / f64::from(to.1 - from.1)
    };
    points.iter().enumerate().map(|(i, &(x, y))| (x, if shown(y) { mean(i) } else { y })).collect()
}

#[cfg(test)]
mod tests;
